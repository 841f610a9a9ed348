"""Objects of a git repository: loose ones and those in packs, each within bounds.

dulwich reads indexes of packs, entries of packs and deltas; this module decides how much of them is
read.  Only the directory `objects` is here: no configuration, hook, attribute or reference.
Alternates are not followed, for they name other directories of the machine.

SECURITY
    Reads files that a stranger may have written.  The declared size of an object, of a delta and
    of its result is compared with a limit before memory is taken; a chain of deltas has a limit of
    steps and of bytes.  If this module is wrong, the sandbox ends at its memory or time limit.
"""

import mmap
import os
import re
import stat
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Final

from dulwich.errors import ApplyDeltaError, FileFormatException
from dulwich.object_format import SHA1, SHA256, ObjectFormat
from dulwich.pack import PackIndex, apply_delta, load_pack_index_file, unpack_object_at

from threegate.base.limits import MIB
from threegate.gates.git_reader.messages import (
    AMBIGUOUS,
    DAMAGED,
    MISSING,
    TOO_LARGE,
    UNREADABLE,
)

MAX_OBJECT_BYTES: Final = 16 * MIB  # a tree of 50,000 names is smaller
MAX_CHAIN: Final = 4_096  # deltas on each other; git writes at most 4,095
MAX_CHAIN_BYTES: Final = 256 * MIB  # that are made on the way to one object
MAX_PACKS: Final = 1_000
MAX_PACKS_BYTES: Final = 2 * 1024 * MIB  # all of them, mapped
MAX_INDEX_BYTES: Final = 256 * MIB
MAX_CACHE_BYTES: Final = 64 * MIB

COMMIT: Final = "commit"
TREE: Final = "tree"
BLOB: Final = "blob"
TAG: Final = "tag"
_KINDS: Final = {1: COMMIT, 2: TREE, 3: BLOB, 4: TAG}
_BY_OFFSET: Final = 6
_BY_NAME: Final = 7
_LOOSE: Final = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,15})\0")
_PACK: Final = re.compile(r"pack-[0-9a-f]{40}(?:[0-9a-f]{24})?\.idx\Z")
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HEAD_BYTES: Final = 32
# What dulwich raises for bytes that are not what they should be.
_BROKEN: Final = (
    ApplyDeltaError,
    AssertionError,
    FileFormatException,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


class ObjectRefused(Exception):
    """An object cannot be had; `reason` is a word of `messages`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GitObject:
    """The kind and the bytes of an object."""

    kind: str
    data: bytes


class ObjectStore:
    """The objects below one directory."""

    def __init__(self, place: str, *, sha256: bool) -> None:
        self._place, self._format = place, SHA256 if sha256 else SHA1
        self._packs = [_Pack(path, self._format) for path in _packs(place)]

    def get(self, name: str, most_bytes: int = MAX_OBJECT_BYTES) -> GitObject:
        """Return the object with an id, or raise `ObjectRefused`."""
        if len(name) != self._format.hex_length:
            raise ObjectRefused(MISSING)
        try:
            return self._loose(name, most_bytes)
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise ObjectRefused(UNREADABLE) from exc
        for pack in self._packs:
            offset = pack.find(bytes.fromhex(name))
            if offset is not None:
                return pack.get(offset, most_bytes)
        raise ObjectRefused(MISSING)

    def complete(self, beginning: str) -> str:
        """Return the one id that begins like this; a whole id is returned as it is."""
        if len(beginning) >= self._format.hex_length:
            return beginning
        found = {*self._loose_names(beginning)}
        for pack in self._packs:
            found.update(pack.names(beginning))
        if len(found) != 1:
            raise ObjectRefused(AMBIGUOUS if found else MISSING)
        return found.pop()

    def _loose_names(self, beginning: str) -> Iterator[str]:
        try:
            names = os.listdir(f"{self._place}/{beginning[:2]}")
        except OSError:
            return
        most = self._format.hex_length
        for name in (f"{beginning[:2]}{rest}" for rest in names):
            if len(name) == most and name.startswith(beginning):
                yield name

    def _loose(self, name: str, most_bytes: int) -> GitObject:
        data = _read(f"{self._place}/{name[:2]}/{name[2:]}", most_bytes + MIB)
        unpack = zlib.decompressobj()
        try:
            found = unpack.decompress(data, most_bytes + _HEAD_BYTES)
        except zlib.error as exc:
            raise ObjectRefused(DAMAGED) from exc
        start = _LOOSE.match(found)
        if start is None:
            raise ObjectRefused(DAMAGED)
        size, body = int(start.group(2)), found[start.end() :]
        if size > most_bytes:
            raise ObjectRefused(TOO_LARGE)
        if len(body) != size:
            raise ObjectRefused(DAMAGED)
        return GitObject(start.group(1).decode(), body)


class _Pack:
    """A pack with its index."""

    def __init__(self, path: str, kind: ObjectFormat) -> None:
        self._format = kind
        self._contents = _mapped(f"{path}.pack")
        try:
            # From memory: a file that the library opens may be a FIFO.
            data = BytesIO(_read(f"{path}.idx", MAX_INDEX_BYTES))
            self._index: PackIndex = load_pack_index_file(path, data, kind)
        except OSError as exc:
            raise ObjectRefused(UNREADABLE) from exc
        except _BROKEN as exc:
            raise ObjectRefused(DAMAGED) from exc
        self._made: OrderedDict[int, GitObject] = OrderedDict()
        self._made_bytes = 0

    def find(self, name: bytes) -> int | None:
        """Return where an object begins, or None if it is not in this pack."""
        try:
            return int(self._index.object_offset(name))  # type: ignore[arg-type]
        except KeyError:
            return None
        except _BROKEN as exc:
            raise ObjectRefused(DAMAGED) from exc

    def names(self, beginning: str) -> list[str]:
        """Return the ids that begin like this."""
        even = bytes.fromhex(beginning[: len(beginning) // 2 * 2])
        try:
            found = [name.hex() for name in self._index.iter_prefix(even)]
        except _BROKEN as exc:
            raise ObjectRefused(DAMAGED) from exc
        return [name for name in found if name.startswith(beginning)]

    def get(self, offset: int, most_bytes: int) -> GitObject:
        """Return the object at a place, its deltas applied."""
        deltas: list[tuple[int, bytes]] = []
        left = MAX_CHAIN_BYTES
        found = self._made.get(offset)
        while found is None:
            kind, base, data = self._entry(offset, most_bytes if not deltas else MAX_OBJECT_BYTES)
            left -= len(data)
            if kind in _KINDS:
                found = GitObject(_KINDS[kind], data)
                self._keep(offset, found)
                break
            deltas.append((offset, data))
            if len(deltas) > MAX_CHAIN or left < 0:
                raise ObjectRefused(TOO_LARGE)
            offset = self._base(kind, offset, base)
            found = self._made.get(offset)
        while deltas:
            offset, delta = deltas.pop()
            found = GitObject(found.kind, _applied(found.data, delta))
            left -= len(found.data)
            if left < 0:
                raise ObjectRefused(TOO_LARGE)
            self._keep(offset, found)
        if len(found.data) > most_bytes:
            raise ObjectRefused(TOO_LARGE)
        return found

    def _base(self, kind: int, offset: int, base: int | bytes) -> int:
        """Return where the base of a delta begins: before it, so offsets make no cycle."""
        if kind == _BY_OFFSET and isinstance(base, int) and 0 < base < offset:
            return offset - base
        found = self.find(base) if kind == _BY_NAME and isinstance(base, bytes) else None
        if found is None:
            raise ObjectRefused(DAMAGED)
        return found

    def _entry(self, offset: int, most_bytes: int) -> tuple[int, int | bytes, bytes]:
        """Return the type, the base and the bytes of an entry; its declared size is limited."""
        if not 0 < offset < len(self._contents):
            raise ObjectRefused(DAMAGED)
        if _declared(self._contents[offset : offset + _HEAD_BYTES]) > most_bytes:
            raise ObjectRefused(TOO_LARGE)
        try:
            entry, _ = unpack_object_at(
                self._contents,
                offset,
                self._format.hash_func,
            )
            base = entry.delta_base if entry.delta_base is not None else 0
            return entry.pack_type_num, base, b"".join(entry.decomp_chunks)
        except _BROKEN as exc:
            raise ObjectRefused(DAMAGED) from exc

    def _keep(self, offset: int, made: GitObject) -> None:
        """Keep an object, for many deltas have the same base."""
        self._made[offset] = made
        self._made_bytes += len(made.data)
        while self._made_bytes > MAX_CACHE_BYTES:
            _, old = self._made.popitem(last=False)
            self._made_bytes -= len(old.data)


def _applied(base: bytes, delta: bytes) -> bytes:
    at = _after_number(delta, 0)
    if _number(delta, at) > MAX_OBJECT_BYTES:
        raise ObjectRefused(TOO_LARGE)
    try:
        return b"".join(apply_delta(base, delta))
    except _BROKEN as exc:
        raise ObjectRefused(DAMAGED) from exc


def _declared(head: bytes) -> int:
    """Return the size that the head of an entry declares."""
    size, shift = head[0] & 0x0F, 4
    for before, byte in pairwise(head):
        if not before & 0x80:
            break
        size |= (byte & 0x7F) << shift
        shift += 7
    return size


def _number(data: bytes, at: int) -> int:
    """Return the number of seven bits per byte that begins at a place."""
    return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(data[at : _after_number(data, at)]))


def _after_number(data: bytes, at: int) -> int:
    for place in range(at, min(at + 10, len(data))):
        if not data[place] & 0x80:
            return place + 1
    raise ObjectRefused(DAMAGED)


def _packs(place: str) -> list[str]:
    try:
        names = sorted(filter(_PACK.match, os.listdir(f"{place}/pack")))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ObjectRefused(UNREADABLE) from exc
    if len(names) > MAX_PACKS:
        raise ObjectRefused(TOO_LARGE)
    paths = [f"{place}/pack/{name.removesuffix('.idx')}" for name in names]
    if sum(_size(f"{path}.pack") for path in paths) > MAX_PACKS_BYTES:
        raise ObjectRefused(TOO_LARGE)
    return paths


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError as exc:
        raise ObjectRefused(UNREADABLE) from exc


def _mapped(path: str) -> mmap.mmap:
    try:
        fd = os.open(path, _FILE)
    except OSError as exc:
        raise ObjectRefused(UNREADABLE) from exc
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size < _HEAD_BYTES:
            raise ObjectRefused(DAMAGED)
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as exc:
        raise ObjectRefused(TOO_LARGE) from exc
    finally:
        os.close(fd)


def _read(path: str, most_bytes: int) -> bytes:
    fd = os.open(path, _FILE)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ObjectRefused(DAMAGED)
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ObjectRefused(TOO_LARGE)
    return data
