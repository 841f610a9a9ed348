"""A Zotero library as something to import: its items from a sandbox, its files from its folder.

The database is read as a copy, with its write-ahead log; Zotero may be running and is never locked
or waited for.

SECURITY
    The database is a stranger's file: a sandbox reads it.  Paths in it are claims.  A stored file
    is `storage/KEY/NAME` and nothing else; a linked one must be below the folder that the operator
    named.  Each part of a path is opened without following links.  If this module is wrong, a
    packet quotes a file of the operator that the library has no business with.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.media_types import JSON
from threegate.base.errors import ArtifactRejected, ProtocolBroken, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import Miss
from threegate.gates.zotero_reader.messages import (
    DAMAGED,
    LINKED,
    MAX_DATABASE_BYTES,
    MAX_KEYS_BYTES,
    MAX_WAL_BYTES,
    NO_COLLECTION,
    NO_TAG,
    NONE,
    NOT_ZOTERO,
    TOO_LONG,
    LibraryNotRead,
    LibraryRead,
    ReadLibrary,
    ZoteroItem,
    ZoteroPlace,
    entries_of,
    parse_answer,
)
from threegate.host.importing.selection import (
    CHANGED,
    MAX_FILE_BYTES,
    TOO_LARGE,
    FoundFile,
    Material,
    Piece,
    Root,
    read,
    root_of,
)
from threegate.host.importing.types import UNREAD_TYPE, detect
from threegate.host.open_box import ended, open_box
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import ZOTERO_READER
from threegate.sandbox.session import run_gate

DATABASE: Final = "zotero.sqlite"
NOT_A_LIBRARY: Final = "TG-IMP-020"
OUTSIDE: Final = "TG-IMP-021"  # a path that leads out of the folders that were named
NO_FILE: Final = "TG-IMP-022"  # the library names a file that is not there
_TRIES: Final = 3
_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")  # begins a journal that must be rolled back
_STORAGE: Final = "storage"
_BASE: Final = "attachments"  # as Zotero spells the folder of linked files
_GAPS: Final = {OUTSIDE: "denied", NO_FILE: "not-found", TOO_LARGE: "too-large"}
_WHY: Final = {
    DAMAGED: ("the database is damaged", "Zotero can check and repair it"),
    NOT_ZOTERO: ("it is not a database as Zotero writes it", "name the folder with zotero.sqlite"),
    TOO_LONG: ("reading it takes too long", "import one collection with --collection"),
}
_LARGE: Final = ("the library is too large", "import one collection with --collection")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items of a library are imported; empty: all."""

    collection: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ZoteroEntry:
    """An item of a library that becomes one packet."""

    root: Root
    location: str
    record: bytes = field(repr=False)
    file: FoundFile | None
    prefix: str = ""  # of the location of a linked file
    missing: ArtifactRejected | None = None
    is_further: bool = False  # one more file of an item that has its packet

    @property
    def file_location(self) -> str:
        """Return where the file is, relative to the folder of the library."""
        assert self.file is not None
        return f"file:{self.prefix}{self.file.location.removeprefix('file:')}"

    @property
    def reference(self) -> str:
        """Return the name for people: the file, or else the item."""
        if self.file is None:
            return self.location
        return f"file:{self.prefix}{self.file.reference.removeprefix('file:')}"

    def material(self) -> Material:
        """Return the file and the record; a file that cannot be had is a gap of the item."""
        about = Piece(self.record, self.location, "zotero", "metadata", read_as=JSON)
        try:
            document = self._document()
        except ArtifactRejected as exc:
            if self.is_further:
                raise
            reason = _GAPS.get(exc.code, "unreadable" if exc.code == UNREAD_TYPE else "failed")
            return Material((about,), (Miss("file", self.reference, reason, exc.message),))
        return Material((about,) if document is None else (document, about))

    def _document(self) -> Piece | None:
        if self.missing is not None:
            raise self.missing
        if self.file is None:
            return None
        raw, name = read(self.file, MAX_FILE_BYTES), self.file.parts[-1]
        return Piece(raw, self.file_location, name=name, read_as=detect(name, raw))


@dataclass(frozen=True, slots=True)
class ZoteroSelection:
    """The items of a library that were chosen."""

    files: Sequence[ZoteroEntry]
    whole_roots: Sequence[Root] = ()
    unusable: Sequence[tuple[str, ArtifactRejected]] = ()


def select_library(
    folder: Path, bundle: Bundle, wanted: Wanted, base: Path | None = None
) -> ZoteroSelection:
    """Return the items of the library in a folder; `base` is the folder of its linked files.

    Raises `UsageError` for a folder without a library and for an unknown collection or tag,
    `ArtifactRejected` for a database that cannot be read, and `GateUnavailable`.
    """
    place = root_of(folder)
    if not (place.path / DATABASE).is_file():
        hint = "name the folder that has zotero.sqlite in it: Zotero's settings, Advanced, Files"
        raise UsageError(f"{quote(str(folder))} has no {DATABASE}", hint=hint, code="TG-USE-002")
    read_here = _ask(_copied(place, wanted), bundle, wanted)
    # Another key than that of the folder: its files may be imported as files too.
    root = Root(place.path, sha256_hex(f"zotero\n{place.key}".encode()))
    files = [_entry(root, None if base is None else root_of(base), *one) for one in read_here]
    everything = not wanted.collection and not wanted.tag
    return ZoteroSelection(files, (root,) if everything else ())


def _copied(place: Root, wanted: Wanted) -> ReadLibrary:
    """Return the bytes of a library at one moment."""
    for _ in range(_TRIES):
        before = _looks(place)
        try:
            database = _read(place, DATABASE, MAX_DATABASE_BYTES)
            wal = _read(place, f"{DATABASE}-wal", MAX_WAL_BYTES)
            keys = _read(place, "better-bibtex.sqlite", MAX_KEYS_BYTES)
        except ArtifactRejected as exc:
            if exc.code != CHANGED:
                raise
            continue
        if _looks(place) == before:
            if _read(place, f"{DATABASE}-journal", MAX_DATABASE_BYTES).startswith(_JOURNAL):
                break
            try:
                return ReadLibrary(wanted.collection, wanted.tag, database, wal, keys)
            except ProtocolBroken as exc:
                raise UsageError("the name of a collection or tag is too long") from exc
    hint = "close Zotero and import again; if it is closed, open and close it first"
    raise ArtifactRejected("Zotero is in the middle of a change", code=CHANGED, hint=hint)


def _read(place: Root, name: str, most_bytes: int) -> bytes:
    if not (place.path / name).exists():
        return b""
    return read(FoundFile(place, (name,), (0, 0, 0, 0, 0)), most_bytes)


def _looks(place: Root) -> list[tuple[int, int] | None]:
    """Return what shows that a file was written."""
    found: list[tuple[int, int] | None] = []
    for name in (DATABASE, f"{DATABASE}-wal"):
        try:
            status = (place.path / name).lstat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


def _ask(
    ask: ReadLibrary, bundle: Bundle, wanted: Wanted
) -> list[tuple[bytes, ZoteroItem, ZoteroPlace]]:
    kind = partial(run_gate, request=ask.to_bytes())
    answer = open_box(kind, find_machine(), bundle, ZOTERO_READER)
    with answer.message as file:
        said = file.read()
    if answer.ended.why != "done":
        raise ended(ZOTERO_READER, answer.ended.why)
    try:
        found = parse_answer(Untrusted(said))
        if isinstance(found, LibraryRead):
            return list(entries_of(found))
    except ProtocolBroken as exc:
        raise ended(ZOTERO_READER, "protocol") from exc
    raise _refusal(found, wanted)


def _refusal(found: LibraryNotRead, wanted: Wanted) -> UsageError | ArtifactRejected:
    if found.reason == NO_COLLECTION:
        hint = "a name as Zotero shows it, or a path such as Thesis/Chapter 1"
        return UsageError(f"no collection {quote(wanted.collection)}", hint=hint)
    if found.reason == NO_TAG:
        return UsageError(f"no item has the tag {quote(wanted.tag)}")
    why, hint = _WHY.get(found.reason, _LARGE)
    return ArtifactRejected(f"{DATABASE}: {why}", code=NOT_A_LIBRARY, hint=hint)


def _entry(
    root: Root, base: Root | None, record: bytes, item: ZoteroItem, place: ZoteroPlace
) -> ZoteroEntry:
    library = f"groups/{item.group}" if item.group else "library"
    location = f"file:{DATABASE}/{library}/items/{item.key}"
    further = item.key != item.item
    try:
        file, prefix = _resolved(root, base, place)
    except ArtifactRejected as exc:
        return ZoteroEntry(root, location, record, None, missing=exc, is_further=further)
    return ZoteroEntry(root, location, record, file, prefix, is_further=further)


def _resolved(root: Root, base: Root | None, place: ZoteroPlace) -> tuple[FoundFile | None, str]:
    """Return the file that a library names, and the prefix of its location."""
    path = place.path.open_for_validation()
    if place.mode == NONE:
        return None, ""
    if place.mode != LINKED:
        kind, _, name = path.partition(":")
        if kind != _STORAGE or "/" in name:
            raise outside("a stored file with a path of its own")
        return found_below(root, (_STORAGE, place.key, name)), ""
    if path.startswith(f"{_BASE}:"):
        if base is None:
            raise outside("a linked file; --base names the folder of linked files")
        return found_below(base, tuple(path.removeprefix(f"{_BASE}:").split("/"))), f"{_BASE}/"
    for folder, prefix in ((base, f"{_BASE}/"), (root, "")):
        if folder is not None and PurePosixPath(path).is_relative_to(folder.path):
            below = PurePosixPath(path).relative_to(folder.path)
            return found_below(folder, below.parts), prefix
    raise outside("a linked file outside the folder of the library")


def found_below(root: Root, parts: tuple[str, ...]) -> FoundFile:
    """Return a file that a library names below a folder; raise `ArtifactRejected`."""
    odd = {"", ".", ".."}.intersection(parts) or any("\0" in part or "/" in part for part in parts)
    if odd or not parts:
        raise outside("a path that leads elsewhere")
    file = FoundFile(root, parts, (0, 0, 0, 0, 0))
    if not os.path.lexists(root.path.joinpath(*parts)):
        hint = "Zotero may keep it on a server: open the item there once"
        raise ArtifactRejected("the file is not there", code=NO_FILE, hint=hint)
    return file


def outside(why: str) -> ArtifactRejected:
    """Return the refusal of a path that leads out of the folders that were named."""
    return ArtifactRejected(
        why, code=OUTSIDE, hint="import the file itself with `threegate import PATH`"
    )
