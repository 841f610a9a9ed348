"""Changes between two versions of a file, as a unified diff with the lines of both sides.

SECURITY
    Compares texts that a stranger wrote.  Comparing takes time that grows with the product of equal
    lines, so the number of lines is limited; the sandbox's time limit holds for the rest.
"""

from collections.abc import Iterator
from difflib import unified_diff
from typing import Final
from urllib.parse import unquote_to_bytes

from threegate.base.limits import KIB
from threegate.gates.git_reader.messages import (
    BINARY,
    DAMAGED,
    MAX_BLOB_BYTES,
    MAX_DIFF_BYTES,
    MISSING,
    READ,
    TOO_LARGE,
    UNREADABLE,
    BlobsCompared,
    CompareBlobs,
)
from threegate.gates.git_reader.objects import BLOB, ObjectRefused, ObjectStore

MAX_COMPARED_LINES: Final = 20_000  # of one side
_HEAD_BYTES: Final = 8 * KIB  # git looks as far for a NUL
_NONE: Final = b"/dev/null"


def compare(store: ObjectStore, asked: CompareBlobs) -> BlobsCompared:
    """Return the changes of the first files, as many as fit into one answer."""
    states: list[str] = []
    diff: list[bytes] = []
    size = 0
    for path, before, after in asked.files:
        try:
            text = b"".join(_changes(store, path, before, after))
            if len(text) > MAX_DIFF_BYTES:
                raise ObjectRefused(TOO_LARGE)
        except ObjectRefused as exc:
            states.append(MISSING if exc.reason == UNREADABLE else exc.reason)
            continue
        if size + len(text) > MAX_DIFF_BYTES and states:
            break
        states.append(READ)
        diff.append(text)
        size += len(text)
    return BlobsCompared(tuple(states), b"".join(diff))


def _changes(
    store: ObjectStore, path: str, before: str | None, after: str | None
) -> Iterator[bytes]:
    name = unquote_to_bytes(path)
    old, new = _lines(store, before), _lines(store, after)
    yield b"diff --git a/%s b/%s\n" % (name, name)
    sides = (b"a/" + name if before else _NONE, b"b/" + name if after else _NONE)
    yield b"--- %s\n+++ %s\n" % sides
    # Latin-1 maps each byte to one character and back, so no byte is lost.
    lines = unified_diff(old, new, lineterm="")
    for line in list(lines)[2:]:
        text = line.encode("latin-1")
        yield text if text.endswith(b"\n") else text + b"\n"
        if not text.endswith(b"\n") and not text.startswith(b"@@"):
            yield b"\\ No newline at end of file\n"


def _lines(store: ObjectStore, name: str | None) -> list[str]:
    if name is None:
        return []
    found = store.get(name, MAX_BLOB_BYTES)
    if found.kind != BLOB:
        raise ObjectRefused(DAMAGED)
    if b"\0" in found.data[:_HEAD_BYTES]:
        raise ObjectRefused(BINARY)
    lines = found.data.decode("latin-1").split("\n")
    if len(lines) > MAX_COMPARED_LINES:
        raise ObjectRefused(TOO_LARGE)
    kept = [f"{line}\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept
