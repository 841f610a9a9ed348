"""Which files an import takes: named files, and files below named folders.

Each named path has a root: a folder is its own root, a file has the folder it is in.  Locations are
relative to the root, so no packet holds an absolute path.

SECURITY
    Walks folders whose owner may be anybody.  Symbolic links are never followed, also not when
    a folder is exchanged for one during the walk: every part of a path is opened relative to its
    parent.  Only regular files are read, opening never waits, and a file that changes while it is
    read is refused.  The files of a workspace, and the folders with keys and credentials, are
    never read: packets can be shown to a model.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote_from_bytes

from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.limits import MAX_URL_CHARS, MIB
from threegate.base.text import FORBIDDEN
from threegate.gates.fetch.normalize.messages import Miss
from threegate.host.workspace.setup import OURS
from threegate.host.workspace.workspace import MARKER

MAX_FILE_BYTES: Final = 64 * MIB
MAX_DEPTH: Final = 64  # folders below each other
UNUSABLE: Final = "TG-IMP-001"  # not a file that can be read
CHANGED: Final = "TG-IMP-002"  # it changed while it was read
TOO_LARGE: Final = "TG-IMP-003"
NAME_TOO_LONG: Final = "TG-IMP-004"
LEFT_OUT: Final = "TG-IMP-006"  # not refused: nobody would want it
OWN: Final = "TG-IMP-007"  # part of a workspace, or of the operator's keys

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_AS_THEY_ARE: Final = "!$&'()*+,;=:@"  # of `base.forms.LOCATION`, besides letters and digits
_SPECIAL: Final = {
    stat.S_IFLNK: "a symbolic link is not followed",
    stat.S_IFIFO: "it is a FIFO, not a file",
    stat.S_IFSOCK: "it is a socket, not a file",
    stat.S_IFCHR: "it is a device, not a file",
    stat.S_IFBLK: "it is a device, not a file",
}
Identity = tuple[int, int, int, int, int]  # device, inode, size, and times of change


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that files are imported from; `key` stands for its absolute path in the log."""

    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that a packet is made of."""

    raw: bytes = field(repr=False)
    location: str
    source: str = "file"
    role: str = "document"
    name: str = ""  # a hint for the type of a document
    read_as: str | None = None  # None: detected from the bytes


@dataclass(frozen=True, slots=True)
class Material:
    """All that one packet is made of, the document first."""

    pieces: tuple[Piece, ...]
    misses: tuple[Miss, ...] = ()
    own_place: str = ""  # set where the same bytes at another place are another packet

    @property
    def digest(self) -> str:
        """Return a digest that changes with any of the pieces."""
        digests = [sha256_hex(piece.raw) for piece in self.pieces]
        names = [*digests, self.own_place] if self.own_place else digests
        return names[0] if len(names) == 1 else sha256_hex("\n".join(names).encode())


class Importable(Protocol):
    """Something that becomes one packet; `location` is its name below its root."""

    @property
    def root(self) -> Root: ...
    @property
    def location(self) -> str: ...
    @property
    def reference(self) -> str: ...
    def material(self) -> Material:
        """Return what its packet is made of, or raise `ArtifactRejected`."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file below a root."""

    root: Root
    parts: tuple[str, ...]
    identity: Identity

    @property
    def location(self) -> str:
        """Return the relative path as packets spell it."""
        return f"file:{'/'.join(map(_segment, self.parts))}"

    @property
    def reference(self) -> str:
        """Return the relative path for people; odd characters are spelled as in the location."""
        path = "/".join(self.parts)
        odd = FORBIDDEN.search(path) is not None or set("\n\t<") & set(path)
        return self.location if odd or not _is_utf8(path) else f"file:{path}"

    def material(self) -> Material:
        """Return the bytes of the file, or raise `ArtifactRejected`."""
        raw = read(self, MAX_FILE_BYTES)
        return Material((Piece(raw, self.location, name=self.parts[-1]),))


class ImportSelection(Protocol):
    """What an import takes."""

    @property
    def files(self) -> Sequence[Importable]: ...
    @property
    def unusable(self) -> Sequence[tuple[str, ArtifactRejected]]: ...
    @property
    def whole_roots(self) -> Sequence[Root]:
        """Return the roots of which everything is selected: a removal is seen."""


@dataclass(slots=True)
class FileSelection:
    """Files to import, and paths that were passed over."""

    files: list[FoundFile] = field(default_factory=list)
    unusable: list[tuple[str, ArtifactRejected]] = field(default_factory=list)
    whole_roots: list[Root] = field(default_factory=list)  # walked completely: removals are seen
    hidden: int = 0  # names that begin with a dot
    folders: int = 0  # not walked, without --recursive
    left_out: int = 0  # by --include and --exclude
    own: int = 0  # names of a workspace, and folders with keys


def select(
    paths: Sequence[str],
    cwd: Path,
    *,
    recursive: bool,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    closed: Sequence[Path] = (),
) -> FileSelection:
    """Return what the named paths lead to, sorted; raise `UsageError` for a missing path.

    `closed` are folders that are never entered.
    """
    found = FileSelection()
    shut = frozenset(map(os.path.realpath, closed))
    for name in dict.fromkeys(paths):
        path = cwd / name
        try:
            mode = path.lstat().st_mode
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or "no such name"
            raise UsageError(f"{name}: {why.lower()}", code="TG-USE-002") from exc
        is_folder = stat.S_ISDIR(mode)
        root = root_of(path if is_folder else path.parent)
        if _is_own(root.path if is_folder else root.path / path.name, shut):
            why = "it belongs to ThreeGate: a workspace, keys or credentials"
            found.unusable.append((name, ArtifactRejected(why, code=OWN)))
        elif is_folder:
            patterns = include, exclude
            is_whole = _walk(root, found, recursive=recursive, patterns=patterns, shut=shut)
            if is_whole and not include and not exclude:
                found.whole_roots.append(root)
        else:
            _take_named(root, path.name, found)
    return found


def read(file: FoundFile, most_bytes: int) -> bytes:
    """Return the bytes of a file; raise `ArtifactRejected` if it is not what was found."""
    try:
        with _opened(file.root.path, file.parts[:-1]) as folder:
            fd = os.open(file.parts[-1], _FILE, dir_fd=folder)
    except OSError as exc:
        raise _unusable(f"it cannot be opened: {(exc.strerror or 'error').lower()}") from exc
    with os.fdopen(fd, "rb") as opened:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise _unusable("it is not a regular file any more")
        if before.st_size > most_bytes:
            raise ArtifactRejected(
                f"{before.st_size} bytes, limit {most_bytes}",
                code=TOO_LARGE,
                hint="split it, or import a part of it",
            )
        try:
            data = opened.read(most_bytes + 1)
        except OSError as exc:
            raise _unusable(f"it cannot be read: {(exc.strerror or 'error').lower()}") from exc
        # A file that is still being written would become a packet of one half.
        if len(data) != before.st_size or _identity(before) != _identity(os.fstat(fd)):
            hint = "import it again when it is complete"
            raise ArtifactRejected("it changed while it was read", code=CHANGED, hint=hint)
    return data


def _walk(
    root: Root,
    found: FileSelection,
    *,
    recursive: bool,
    patterns: tuple[Sequence[str], Sequence[str]],
    shut: frozenset[str],
) -> bool:
    """Take the files below a root; tell whether every folder was read."""
    waiting: list[tuple[str, ...]] = [()]
    is_whole = recursive
    while waiting:
        parts = waiting.pop()
        try:
            with _opened(root.path, parts) as folder:
                below = _entries(folder, root, parts, found, patterns)
        except OSError as exc:
            why = _unusable(f"the folder cannot be read: {(exc.strerror or 'error').lower()}")
            found.unusable.append(("/".join(parts) or ".", why))
            is_whole = False  # what is in it is not gone
            continue
        open_ones = [one for one in below if os.path.join(root.path, *one) not in shut]
        found.own += len(below) - len(open_ones)
        waiting += reversed(open_ones)
        if not recursive:
            found.folders += len(waiting)
            break
    return is_whole


def _entries(
    folder: int,
    root: Root,
    parts: tuple[str, ...],
    found: FileSelection,
    patterns: tuple[Sequence[str], Sequence[str]],
) -> list[tuple[str, ...]]:
    """Take the files of one folder and return the folders in it."""
    below = []
    include, exclude = patterns
    with os.scandir(folder) as entries:
        names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    # Packets and the log of a workspace would be imported into it, and with --watch without end.
    own = OURS if any(name == MARKER for name, _ in names) else ()
    for name, is_folder in names:
        path = (*parts, name)
        if name in own:
            found.own += 1
        elif name.startswith("."):
            found.hidden += 1
        elif matches(path, exclude):
            found.left_out += 1
        elif is_folder and len(path) > MAX_DEPTH:
            found.unusable.append(("/".join(path), _unusable(f"below {MAX_DEPTH} folders")))
        elif is_folder:
            below.append(path)
        elif include and not matches(path, include):
            found.left_out += 1
        else:
            _take(folder, root, path, found)
    return below


def _take_named(root: Root, name: str, found: FileSelection) -> None:
    try:
        with _opened(root.path, ()) as folder:
            _take(folder, root, (name,), found)
    except OSError as exc:
        why = _unusable(f"its folder cannot be read: {(exc.strerror or 'error').lower()}")
        found.unusable.append((name, why))


def _take(folder: int, root: Root, parts: tuple[str, ...], found: FileSelection) -> None:
    try:
        status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # removed since it was listed; the others are still there
        return
    file = FoundFile(root, parts, _identity(status))
    if not stat.S_ISREG(status.st_mode):
        kind = stat.S_IFMT(status.st_mode)
        why = _unusable(_SPECIAL.get(kind, "it is not a regular file"))
        found.unusable.append((file.reference, why))
    elif len(file.location) > MAX_URL_CHARS:
        long = ArtifactRejected("its path is too long", code=NAME_TOO_LONG)
        found.unusable.append((file.reference, long))
    else:
        found.files.append(file)


def matches(parts: tuple[str, ...], patterns: Sequence[str]) -> bool:
    """Tell whether the path, or its last name, is like one of the patterns."""
    path = "/".join(parts)
    return any(fnmatch(path, one) or fnmatch(parts[-1], one) for one in patterns)


def _is_own(path: Path, shut: frozenset[str]) -> bool:
    """Tell whether a real path is in a closed folder, or is one of a workspace's own names."""
    return any(
        str(one) in shut or (one.name in OURS and os.path.lexists(one.parent / MARKER))
        for one in (path, *path.parents)
    )


@contextmanager
def _opened(root: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """Open a folder below a root, one part after the other, without following a link."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the operator named it
    try:
        for part in parts:
            below = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def root_of(path: Path) -> Root:
    """Return the root at a path; links in the path that the operator named are followed."""
    real = os.path.realpath(path)
    return Root(Path(real), sha256_hex(os.fsencode(real)))


def _identity(status: os.stat_result) -> Identity:
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _segment(name: str) -> str:
    spelled = quote_from_bytes(os.fsencode(name), safe=_AS_THEY_ARE)
    return f"%2E{spelled[1:]}" if spelled.startswith(".") else spelled


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _unusable(why: str) -> ArtifactRejected:
    return ArtifactRejected(why, code=UNUSABLE, hint="only regular files are imported")
