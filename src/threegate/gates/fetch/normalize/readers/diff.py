"""A unified diff: one part for each hunk, named by its file and the lines of both sides.

SECURITY
    Reads foreign bytes.  A diff that lies about its line numbers gives wrong labels; its text is as
    it was read.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.numbered import (
    MOST_LINES,
    lines_label,
    numbered_lines,
    parts_of_lines,
)
from threegate.gates.fetch.normalize.readers.plain import decode
from threegate.gates.fetch.normalize.secrets import count_secrets
from threegate.gates.fetch.normalize.text import Document, Part

_FILE: Final = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?(.{1,4096})")
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NONE: Final = "/dev/null"


def read(raw: Untrusted[bytes], _answer: KeptAnswer) -> Document:
    """Return the hunks, or raise `Unread`."""
    text = decode(raw)
    found = count_secrets((text,))
    return Document(tuple(_parts(text)), found={"secret-like": found} if found else {})


def _parts(text: str) -> Iterator[Part]:
    name, label, lines = "", "", list[str]()
    left = [0, 0]  # lines of both sides that the hunk still has
    for line in numbered_lines(text):
        head = _HUNK.match(line) if left == [0, 0] else None
        if left != [0, 0]:
            lines.append(line)
            _count(left, line)
            continue
        if head is None and line.startswith("\\") and lines:
            lines.append(line)  # a file without a line feed at its end
            continue
        yield from _hunk(label, lines)
        lines = []
        if head is not None:
            left = [int(head.group(2) or 1), int(head.group(4) or 1)]
            label, lines = _label(name, head, left), [line]
        elif (file := _FILE.match(line)) is not None and file.group(1) != _NONE:
            name = file.group(1)
    yield from _hunk(label, lines)


def _count(left: list[int], line: str) -> None:
    mark = line[:1]
    if mark in ("-", " ", ""):
        left[0] = max(0, left[0] - 1)
    if mark in ("+", " ", ""):
        left[1] = max(0, left[1] - 1)


def _label(name: str, head: re.Match[str], sizes: list[int]) -> str:
    sides = []
    for place, size, words in ((3, sizes[1], ""), (1, sizes[0], "before: ")):
        first = int(head.group(place))
        if size:
            sides.append(f"{words}{lines_label(first, first + size - 1)}")
    return f"{name} {', '.join(sides)}".strip()


def _hunk(label: str, lines: list[str]) -> Iterator[Part]:
    """Yield one hunk; a long one in several parts."""
    for at in range(0, len(lines), MOST_LINES):
        for part in parts_of_lines(lines[at : at + MOST_LINES]):
            yield Part(Untrusted(label or "text"), part.text)
