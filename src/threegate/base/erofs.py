"""A read-only file system in one file: erofs, uncompressed, written without another program.

    superblock | inodes, with the targets of links behind them | directories | files

Everything before the files is a pure function of names, kinds and sizes, so it is known before
a byte of any file is read; the data of each file then follows in whole blocks, in the order
of the names.  Owners are root, times are one fixed second, and there are no extended attributes,
devices or second names: equal trees give equal bytes.

The format is the one of `Documentation/filesystems/erofs.rst` of the kernel: extended inodes,
plain data, and links inside the block of their inode.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final

BLOCK_BYTES: Final = 4096
MAX_NAME_BYTES: Final = 255
MAX_TARGET_BYTES: Final = 1024  # stays inside one block together with its inode
MAX_NODES: Final = 1_000_000
MAX_DEPTH: Final = 64
MAX_FILE_BYTES: Final = 2**40
MTIME: Final = 946_684_800  # 2000-01-01: equal content gives equal images
_PIECE_BYTES: Final = 1024 * 1024
_MAGIC: Final = 0xE0F5E1E2
_SUPER_AT: Final = 1024
_SUPER: Final = struct.Struct("<IIIBBHQQIIII16s16sIHHH38x")
_INODE: Final = struct.Struct("<HHHHQIIIIQII16x")
_DIRENT: Final = struct.Struct("<QHBB")
_SLOT_BYTES: Final = 32  # inodes are counted in these
_EXTENDED: Final = 1
_PLAIN, _INLINE = 0, 2
_TYPES: Final = {"file": (0o100000, 1), "directory": (0o040000, 2), "link": (0o120000, 7)}


@dataclass(frozen=True, slots=True)
class ErofsFile:
    """A plain file of so many bytes."""

    size: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory; those above a node need not be named."""

    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class ErofsLink:
    """A symbolic link."""

    target: str


Node = ErofsFile | Directory | ErofsLink


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies."""

    metadata: bytes  # whole blocks
    places: Mapping[str, tuple[int, int]]  # of each file that has bytes: where, how many
    size: int  # of the whole image, whole blocks


@dataclass(slots=True)
class _Inode:
    node: Node
    parent: "_Inode | None"
    below: dict[bytes, "_Inode"] = field(default_factory=dict)
    offset: int = 0
    block: int = 0
    listing: bytes = b""

    @property
    def number(self) -> int:
        return self.offset // _SLOT_BYTES


def lay_out(nodes: Mapping[str, Node]) -> Layout:
    """Return where the nodes of a tree lie in its image; names are paths below its root.

    Raises ValueError for a name that is not a path, or is below something other than a directory.
    """
    root = _tree(nodes)
    every = list(_walk("", root))
    end = _place_inodes(inode for _, inode in every)
    block = _blocks(end)
    for _, inode in every:
        if isinstance(inode.node, Directory):
            inode.listing, inode.block = _listing(inode), block
            block += _blocks(len(inode.listing))
    metadata_blocks = block
    places = {}
    for path, inode in every:
        if isinstance(inode.node, ErofsFile) and inode.node.size:
            inode.block = block
            places[path] = (block * BLOCK_BYTES, inode.node.size)
            block += _blocks(inode.node.size)
    if block > 0xFFFFFFFF:
        raise ValueError("too large for one image")
    data = _metadata([inode for _, inode in every], metadata_blocks, block)
    return Layout(metadata=data, places=places, size=block * BLOCK_BYTES)


def write(layout: Layout, out: BinaryIO, open_file: Callable[[str], BinaryIO]) -> None:
    """Write an image; each file must have exactly the bytes its node promised.

    Raises ValueError where one has not; the bytes written so far are then not a valid image.
    """
    out.write(layout.metadata)
    for path, (_, size) in layout.places.items():
        with open_file(path) as file:
            left = size
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                out.write(piece)
                left -= len(piece)
            if left or file.read(1):
                raise ValueError(f"the size of {path} is not {size}")
        out.write(bytes(-size % BLOCK_BYTES))


def _tree(nodes: Mapping[str, Node]) -> _Inode:
    root = _Inode(Directory(), None)
    if len(nodes) > MAX_NODES:
        raise ValueError("too many names")
    for path in sorted(nodes):  # a directory comes before what is in it
        _refuse_impossible(path, nodes[path])
        *above, name = [_name(part) for part in path.split("/")]
        place = root
        for part in above:
            place = place.below.setdefault(part, _Inode(Directory(), place))
        if not all(isinstance(inode.node, Directory) for inode in _upwards(place)):
            raise ValueError(f"{path} is below something that is not a directory")
        place.below[name] = _Inode(nodes[path], place)
    return root


def _upwards(inode: _Inode | None) -> Iterator[_Inode]:
    while inode is not None:
        yield inode
        inode = inode.parent


def _refuse_impossible(path: str, node: Node) -> None:
    if path.count("/") >= MAX_DEPTH:
        raise ValueError(f"{path} lies too deep")
    if isinstance(node, ErofsLink) and not 0 < len(_bytes(node.target)) <= MAX_TARGET_BYTES:
        raise ValueError(f"the target of {path} is empty or too long")
    if isinstance(node, ErofsFile) and not 0 <= node.size <= MAX_FILE_BYTES:
        raise ValueError(f"the size of {path} is none")


def _name(part: str) -> bytes:
    name = _bytes(part)
    if part in {"", ".", ".."} or b"\0" in name or len(name) > MAX_NAME_BYTES:
        raise ValueError("a name is empty, too long, or no name")
    return name


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _walk(path: str, inode: _Inode) -> Iterator[tuple[str, _Inode]]:
    yield path, inode
    for name, below in sorted(inode.below.items()):
        shown = name.decode("utf-8", "surrogateescape")
        yield from _walk(f"{path}/{shown}" if path else shown, below)


def _place_inodes(inodes: Iterable[_Inode]) -> int:
    """Give each inode its place, the root first: its number has 16 bits; return the end."""
    at = _SUPER_AT + _SUPER.size
    for inode in inodes:
        tail = _bytes(inode.node.target) if isinstance(inode.node, ErofsLink) else b""
        size = _INODE.size + len(tail)
        if tail and at % BLOCK_BYTES + size > BLOCK_BYTES:  # link and inode share a block
            at += -at % BLOCK_BYTES
        inode.offset = at
        at += size + -size % _SLOT_BYTES
    return at


def _blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES)


def _listing(inode: _Inode) -> bytes:
    """Return a directory: blocks of entries and their names, sorted by name throughout."""
    entries = {b".": inode, b"..": inode.parent or inode, **inode.below}
    blocks: list[bytes] = []
    group: list[bytes] = []
    used = 0
    for name in sorted(entries):
        if used + _DIRENT.size + len(name) > BLOCK_BYTES:
            blocks.append(_listing_block(group, entries).ljust(BLOCK_BYTES, b"\0"))
            group, used = [], 0
        group.append(name)
        used += _DIRENT.size + len(name)
    return b"".join([*blocks, _listing_block(group, entries)])


def _listing_block(names: list[bytes], entries: Mapping[bytes, _Inode]) -> bytes:
    at, heads = len(names) * _DIRENT.size, []
    for name in names:
        found = entries[name]
        heads.append(_DIRENT.pack(found.number, at, _kind(found.node)[1], 0))
        at += len(name)
    return b"".join([*heads, *names])


def _kind(node: Node) -> tuple[int, int]:
    if isinstance(node, ErofsFile):
        return _TYPES["file"]
    return _TYPES["directory" if isinstance(node, Directory) else "link"]


def _metadata(inodes: list[_Inode], metadata_blocks: int, blocks: int) -> bytes:
    data = bytearray(metadata_blocks * BLOCK_BYTES)
    superblock = _SUPER.pack(
        *(_MAGIC, 0, 0, 12, 0, inodes[0].number, len(inodes), MTIME, 0, blocks, 0, 0),
        *(bytes(16), bytes(16), 0, 0, 0, 0),
    )
    data[_SUPER_AT : _SUPER_AT + len(superblock)] = superblock
    for number, inode in enumerate(inodes, start=1):
        packed = _packed(inode, number)
        data[inode.offset : inode.offset + len(packed)] = packed
        at = inode.block * BLOCK_BYTES
        data[at : at + len(inode.listing)] = inode.listing
    return bytes(data)


def _packed(inode: _Inode, number: int) -> bytes:
    node, tail, links, layout = inode.node, b"", 1, _PLAIN
    if isinstance(node, ErofsFile):
        mode, size = 0o755 if node.executable else 0o644, node.size
    elif isinstance(node, ErofsLink):
        tail, layout = _bytes(node.target), _INLINE
        mode, size = 0o777, len(tail)
    else:
        mode, size = node.mode, len(inode.listing)
        links = 2 + sum(isinstance(below.node, Directory) for below in inode.below.values())
    form, kind = _EXTENDED | layout << 1, _kind(node)[0]
    where = inode.block if layout == _PLAIN else 0
    head = (form, 0, kind | mode, 0, size, where, number, 0, 0, MTIME, 0, links)
    return _INODE.pack(*head) + tail
