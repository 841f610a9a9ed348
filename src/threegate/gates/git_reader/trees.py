"""The files of a commit: its trees, walked within bounds, and paths in one spelling.

SECURITY
    Reads trees that a stranger may have written.  A tree can name itself a million times over
    through its parts, so the number of entries and the depth are limited.  Names that a checkout
    could mistake for another file (`..`, `.git`, a slash, control characters) are marked and never
    become a packet.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote_from_bytes

from dulwich.errors import FileFormatException
from dulwich.objects import parse_tree

from threegate.base.forms import GIT_PATH
from threegate.gates.git_reader.messages import (
    BAD_NAME,
    DAMAGED,
    FILE,
    LINK,
    MAX_FILES,
    NOT_A_COMMIT,
    SUBMODULE,
    TOO_DEEP,
    TOO_MANY,
    CommitListed,
)
from threegate.gates.git_reader.objects import COMMIT, TAG, TREE, ObjectRefused, ObjectStore

MAX_DEPTH: Final = 64
MAX_TREES: Final = 50_000
MAX_TAGS: Final = 8  # tags of tags
_TREE_LINE: Final = re.compile(rb"tree ([0-9a-f]{40}(?:[0-9a-f]{24})?)\n")
_TAG_LINES: Final = re.compile(
    rb"object ([0-9a-f]{40}(?:[0-9a-f]{24})?)\ntype (commit|tag|tree|blob)\n"
)
_KIND_OF_MODE: Final = {0o10: FILE, 0o12: LINK, 0o16: SUBMODULE}
_FOLDER: Final = 0o04
_AS_THEY_ARE: Final = "!$&'()*+,;=:@"  # of `base.forms.GIT_PATH`, besides letters and digits
_BAD: Final = re.compile(rb"[\x00-\x1f\x7f/]")
_GIT_NAMES: Final = frozenset({b".", b"..", b".git", b"git~1"})


def list_commit(store: ObjectStore, revision: str) -> CommitListed:
    """Return the files of a commit, or raise `ObjectRefused`."""
    commit, tree = _commit(store, store.complete(revision))
    return CommitListed(commit, tuple(_files(store, tree)))


def _commit(store: ObjectStore, name: str) -> tuple[str, str]:
    """Return the id of the commit that an object is or a tag names, and of its tree."""
    for _ in range(MAX_TAGS):
        found = store.get(name)
        if found.kind == COMMIT:
            line = _TREE_LINE.match(found.data)
            if line is None:
                raise ObjectRefused(DAMAGED)
            return name, line.group(1).decode()
        lines = _TAG_LINES.match(found.data) if found.kind == TAG else None
        if lines is None:
            break
        name = lines.group(1).decode()
    raise ObjectRefused(NOT_A_COMMIT)


def _files(store: ObjectStore, root: str) -> Iterator[tuple[str, str, str]]:
    waiting, trees, files = [("", root, 0)], 0, 0
    while waiting:
        above, name, depth = waiting.pop()
        trees += 1
        if depth > MAX_DEPTH:
            raise ObjectRefused(TOO_DEEP)
        below = []
        for path, kind, entry in _entries(store, name, above):
            if kind == TREE:
                below.append((path, entry, depth + 1))
            else:
                files += 1
                yield path, kind, entry
            if trees + len(waiting) + len(below) > MAX_TREES or files > MAX_FILES:
                raise ObjectRefused(TOO_MANY)
        waiting += reversed(below)


def _entries(store: ObjectStore, name: str, above: str) -> Iterator[tuple[str, str, str]]:
    found = store.get(name)
    if found.kind != TREE:
        raise ObjectRefused(DAMAGED)
    try:
        entries = [*parse_tree(found.data, len(name) // 2, strict=False)]
    except (FileFormatException, AssertionError, TypeError, ValueError) as exc:
        raise ObjectRefused(DAMAGED) from exc
    for entry, mode, hexadecimal in entries:
        path = f"{above}{'/' if above else ''}{_segment(entry)}"
        kind = TREE if mode >> 12 == _FOLDER else _KIND_OF_MODE.get(mode >> 12, BAD_NAME)
        if len(path) > GIT_PATH.most or not entry or _is_bad(entry):
            path, kind = path[: GIT_PATH.most].rstrip("%/") or "%00", BAD_NAME
        yield path, kind, bytes(hexadecimal).decode()


def _segment(name: bytes) -> str:
    spelled = quote_from_bytes(name, safe=_AS_THEY_ARE)
    return f"%2E{spelled[1:]}" if spelled.startswith(".") else spelled


def _is_bad(name: bytes) -> bool:
    # HFS+ ignores U+200C to U+200F and others in names, so `.g<U+200C>it` is `.git` there.
    plain = name.decode("utf-8", "ignore").translate(_IGNORED).casefold().encode().rstrip(b". ")
    return _BAD.search(name) is not None or name in _GIT_NAMES or plain in _GIT_NAMES


_IGNORED: Final = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), 0x2060, 0xFEFF))
