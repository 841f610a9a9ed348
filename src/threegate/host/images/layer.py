"""A layer of an image as a tree of files; packages are unpacked into it without their scripts.

Names and kinds are kept in memory, the bytes in scratch files under names of our own.  A package is
an `ar` archive of three members; the last is a compressed tar of its files.  Only plain files,
directories, links and hard links are taken.  Owners, times and special modes are dropped, so no
file becomes setuid.  Nothing is run.

SECURITY
    Opens packages whose digest was compared with the lock before.  Unpacks as if it had not
    been: no absolute name, no `..`, no name below a link, no link out of the tree, no device,
    bounded counts and sizes.  If this module is wrong, a package of Debian's could put a file
    where it should not be in the guest; the host's files have no name here.
"""

import io
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Self

from threegate.base import erofs
from threegate.base.errors import ArtifactRejected
from threegate.base.text import quote

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PACKAGE_CODE: Final = "TG-IMG-002"
MAX_MEMBERS: Final = 100_000
MAX_UNPACKED_BYTES: Final = 4 * 1024**3
MAX_PATH_BYTES: Final = 1024
MAX_HEADER_BYTES: Final = 64 * 1024  # of a long name, or another header before a member
MAX_STREAM_BYTES: Final = MAX_UNPACKED_BYTES + 256 * 1024**2  # heads and padding too
MAX_XZ_MEMORY_BYTES: Final = 256 * 1024**2  # Debian's largest packages need a quarter of this
_PIECE_BYTES: Final = 1024 * 1024
_AR_MAGIC: Final = b"!<arch>\n"
_AR_HEAD: Final = re.compile(
    rb"([a-z0-9._/-]+) *[0-9 ]{12}[0-9 ]{6}[0-9 ]{6}[0-7 ]{8}([0-9]+) *`\n"
)
_AR_HEAD_BYTES: Final = 60
# Debian moved these below /usr; some packages still use the old names.
_JOINED: Final = ("bin/", "sbin/", "lib/", "lib64/")

_FOREIGN: Final = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, UnicodeError)
_BEFORE: Final = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE),
)

Wanted = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Kept:
    """The bytes of a file, in a scratch file of ours."""

    path: Path
    size: int
    executable: bool = False


@dataclass(slots=True)
class Tree:
    """Paths below a root that is not on disk yet; no lookup follows a link."""

    scratch: Path
    files: dict[str, Kept] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def __contains__(self, path: str) -> bool:
        return path in self.files or path in self.links or path in self.directories

    def new_file(self) -> tuple[Path, BinaryIO]:
        """Return a new scratch file, open for writing."""
        self._count += 1
        path = self.scratch / f"{self._count:06}"
        return path, path.open("xb")

    def add_bytes(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Put a file into the tree."""
        kept, file = self.new_file()
        with file:
            file.write(data)
        self.files[path] = Kept(kept, len(data), executable)

    def drop(self, path: str) -> None:
        """Take a path out, if it is there."""
        self.files.pop(path, None)
        self.links.pop(path, None)
        self.directories.pop(path, None)

    def paths(self) -> Iterator[str]:
        """Yield every path."""
        yield from (*self.files, *self.links, *self.directories)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self.files[path].path.read_bytes()

    def nodes(self) -> Mapping[str, erofs.Node]:
        """Return what the image of this tree holds."""
        nodes: dict[str, erofs.Node] = {
            path: erofs.ErofsFile(kept.size, kept.executable) for path, kept in self.files.items()
        }
        nodes |= {path: erofs.ErofsLink(target) for path, target in self.links.items()}
        return nodes | {path: erofs.Directory(mode) for path, mode in self.directories.items()}

    def write_image(self, out: BinaryIO) -> None:
        """Write the tree as an image."""
        layout = erofs.lay_out(self.nodes())
        erofs.write(layout, out, lambda path: self.files[path].path.open("rb"))

    def put_on_disk(self, root: Path) -> None:
        """Create the tree in an empty directory, with hard links to the scratch files.

        Links come last: until then no path can lead through one.
        """
        for path in self.directories:
            (root / path).mkdir(parents=True, exist_ok=True)
        for path, kept in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            kept.path.chmod(0o755 if kept.executable else 0o644)
            os.link(kept.path, root / path)
        for path in self.links:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        for path, target in self.links.items():
            (root / path).symlink_to(target)


def unpack_package(package: Path, tree: Tree, wanted: Wanted) -> None:
    """Put the files of a package that are wanted into a tree, or raise `ArtifactRejected`."""
    try:
        with (
            package.open("rb") as file,
            _data_of(file) as data,
            tarfile.open(fileobj=data, mode="r|", errorlevel=2, tarinfo=_Head) as archive,
        ):
            _take(archive, tree, wanted)
    except (*_FOREIGN, RecursionError) as exc:  # headers nested in headers
        raise rejected(f"it cannot be unpacked ({type(exc).__name__})") from exc


def _data_of(file: BinaryIO) -> IO[bytes]:
    """Return the tar of the package's files, from where it starts in `file`."""
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise rejected("it is not a Debian package")
    names: list[str] = []
    while head := file.read(_AR_HEAD_BYTES):
        found = _AR_HEAD.fullmatch(head)
        if found is None or len(names) > 2:
            raise rejected("it is not a Debian package")
        name, size = found[1].rstrip(b"/").decode("ascii"), int(found[2])
        names.append(name)
        if names == ["debian-binary"]:
            if file.read(size + size % 2) != b"2.0\n":
                raise rejected("it is a package of another kind")
        elif name.startswith("control.tar") and len(names) == 2:
            file.seek(size + size % 2, 1)
        elif len(names) == 3 and name in {"data.tar.xz", "data.tar"}:
            part = io.BufferedReader(_Part(file, size))
            return io.BufferedReader(_Unpacked(part)) if name.endswith(".xz") else part
        else:
            raise rejected(f"its member {quote(name)} is not known here")
    raise rejected("it holds no files")


class _Part(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__()
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, room: "WriteableBuffer") -> int:
        view = memoryview(room)
        data = self._file.read(min(len(view), self._left))
        view[: len(data)] = data
        self._left -= len(data)
        return len(data)


class _Unpacked(io.RawIOBase):
    """The content of an xz stream, with bounds on memory and length."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__()
        self._packed, self._left = packed, MAX_STREAM_BYTES
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, room: "WriteableBuffer") -> int:
        view = memoryview(room)
        data = b""
        while not data and not self._xz.eof:
            piece = self._packed.read(_PIECE_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not piece:
                raise EOFError
            data = self._xz.decompress(piece, len(view))
        self._left -= len(data)
        if self._left < 0:
            raise rejected("it unpacks to more than a package may have")
        view[: len(data)] = data
        return len(data)


class _Head(tarfile.TarInfo):
    """The head of a member; bounds the headers that tarfile reads completely before we see them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type == tarfile.XGLTYPE:  # Debian has none, and their sizes add up
            raise rejected("it says something about all of its members")
        if found.type == tarfile.GNUTYPE_SPARSE:  # Debian has none; the list of holes is unbounded
            raise rejected("it holds a file with holes")
        if found.type in _BEFORE and found.size > MAX_HEADER_BYTES:
            raise rejected("a name in it is longer than any may be")
        return found


def _take(archive: tarfile.TarFile, tree: Tree, wanted: Wanted) -> None:
    left = MAX_UNPACKED_BYTES
    for count, member in enumerate(archive):
        left -= member.size
        if count >= MAX_MEMBERS or left < 0:
            raise rejected("it unpacks to more than a package may have")
        path = path_of(member.name)
        if not path or not wanted(path):
            continue
        _refuse_below_link(tree, path)
        if member.isdir():
            if path in tree.links or path in tree.files:
                raise rejected(f"{quote(path)} is a directory and something else")
        elif member.isreg():
            _add(tree, path, member, archive)
        elif member.issym():
            _refuse_taken(tree, path)
            tree.links[path] = target_of(path, member.linkname)
        elif member.islnk() and path_of(member.linkname) in tree.files:
            _refuse_taken(tree, path)
            tree.files[path] = tree.files[path_of(member.linkname)]
        else:
            raise rejected(f"{quote(path)} is neither file, directory nor link")
    _refuse_over_directory(tree)


def _refuse_over_directory(tree: Tree) -> None:
    """Refuse a file or link that came after paths below it: no order of members is a way out."""
    paths = tree.files.keys() | tree.links.keys()
    above = {path.rpartition("/")[0] for path in paths}
    while further := {path.rpartition("/")[0] for path in above} - above:
        above |= further
    for path in sorted(above & paths):
        raise rejected(f"{quote(path)} is a directory and something else")


def _add(tree: Tree, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
    _refuse_taken(tree, path)
    source = archive.extractfile(member)
    assert source is not None  # it is a plain file
    kept, out = tree.new_file()
    with out:
        for piece in _pieces(source):
            out.write(piece)
        if out.tell() != member.size:
            raise rejected(f"{quote(path)} ends too early")
    tree.files[path] = Kept(kept, member.size, bool(member.mode & 0o111))


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_PIECE_BYTES):
        yield piece


def path_of(name: str) -> str:
    """Return a member's path below the root, "" for the root; raise `ArtifactRejected`."""
    path = name.removeprefix("./").rstrip("/")
    if path in {"", "."} and name.startswith("."):
        return ""
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise rejected(f"it names {quote(name)}, which is not a path below the root")
    if len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES or not path.isprintable():
        raise rejected(f"it names {quote(name)}, which is too long or not printable")
    if f"{path}/" in _JOINED:
        return f"usr/{path}"
    return f"usr/{path}" if path.startswith(_JOINED) else path


def target_of(path: str, target: str) -> str:
    """Return the target of a link as it is; raise `ArtifactRejected` if it leaves the root."""
    if not target or not target.isprintable():
        raise rejected(f"the link {quote(path)} leads nowhere")
    depth = 0 if target.startswith("/") else path.count("/")
    for part in target.strip("/").split("/"):
        depth += -1 if part == ".." else int(part not in {"", "."})
        if depth < 0:
            raise rejected(f"the link {quote(path)} leads out of the root")
    return target


def _refuse_below_link(tree: Tree, path: str) -> None:
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if above in tree.links or above in tree.files:
            raise rejected(f"{quote(path)} is below a path that is not a directory")


def _refuse_taken(tree: Tree, path: str) -> None:
    if path in tree:
        raise rejected(f"{quote(path)} is there already")


def rejected(reason: str) -> ArtifactRejected:
    """Return the refusal of a package."""
    hint = "nothing was built; `threegate image lock --update` locks other versions"
    return ArtifactRejected(f"a package is not usable: {reason}", code=PACKAGE_CODE, hint=hint)
