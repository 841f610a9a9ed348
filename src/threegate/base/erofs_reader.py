"""Reading back what `erofs.py` wrote: names, kinds and sizes, and where the bytes lie.

SECURITY
    Reads images from the user's cache or from somebody else's export.  The nodes are laid out
    again and compared: an image that differs from our own writer's output in one byte is
    refused.  Nothing here follows a link.
"""

import os
import struct
from collections.abc import Iterator

from threegate.base.erofs import (
    _DIRENT,
    _INLINE,
    _INODE,
    _MAGIC,
    _SLOT_BYTES,
    _SUPER,
    _SUPER_AT,
    BLOCK_BYTES,
    MAX_DEPTH,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_TARGET_BYTES,
    Directory,
    ErofsFile,
    ErofsLink,
    Layout,
    Node,
    lay_out,
)

_MAX_LISTING_BYTES = 64 * 1024 * 1024


def read_nodes(fd: int) -> tuple[dict[str, Node], Layout]:
    """Return what an image holds and how it is laid out, or raise ValueError."""
    try:
        fields = _SUPER.unpack(_read(fd, _SUPER_AT, _SUPER.size))
        if fields[0] != _MAGIC:
            raise ValueError("no erofs")
        nodes: dict[str, Node] = {}
        _look_below(fd, "", fields[5], nodes)
    except (struct.error, RecursionError, UnicodeError) as exc:
        raise ValueError("not an image of ours") from exc
    layout = lay_out(nodes)
    if _read(fd, 0, len(layout.metadata)) != layout.metadata:
        raise ValueError("not laid out as our own writer would")
    return nodes, layout


def _look_below(fd: int, path: str, number: int, nodes: dict[str, Node]) -> None:
    _, listing = _node(fd, number)
    for name, below in _entries(listing):
        if name in (b".", b".."):
            continue
        shown = os.fsdecode(name)
        inner = f"{path}/{shown}" if path else shown
        nodes[inner], _ = _node(fd, below)
        if inner.count("/") >= MAX_DEPTH or len(nodes) > MAX_NODES:
            raise ValueError("too deep, or too much")
        if isinstance(nodes[inner], Directory):
            _look_below(fd, inner, below, nodes)


def _node(fd: int, number: int) -> tuple[Node, bytes]:
    """Return an inode, and a directory's list."""
    at = number * _SLOT_BYTES
    form, _, mode, _, size, block, *_ = _INODE.unpack(_read(fd, at, _INODE.size))
    kind = mode & 0o170000
    if kind == 0o100000:
        return ErofsFile(size, executable=mode & 0o777 == 0o755), b""
    if kind == 0o120000 and form >> 1 == _INLINE and size <= MAX_TARGET_BYTES:
        return ErofsLink(os.fsdecode(_read(fd, at + _INODE.size, size))), b""
    if kind != 0o040000 or size > _MAX_LISTING_BYTES:
        raise ValueError("a node of a kind we do not write")
    return Directory(mode & 0o7777), _read(fd, block * BLOCK_BYTES, size)


def _entries(listing: bytes) -> Iterator[tuple[bytes, int]]:
    for begin in range(0, len(listing), BLOCK_BYTES):
        block = listing[begin : begin + BLOCK_BYTES]
        _, first, _, _ = _DIRENT.unpack_from(block, 0)
        heads = [_DIRENT.unpack_from(block, at) for at in range(0, first, _DIRENT.size)]
        ends = [head[1] for head in heads[1:]] + [len(block)]
        for (number, at, _, _), end in zip(heads, ends, strict=True):
            name = block[at:end].rstrip(b"\0")
            if not 0 < len(name) <= MAX_NAME_BYTES:
                raise ValueError("an entry without a name")
            yield name, number


def _read(fd: int, at: int, size: int) -> bytes:
    data = os.pread(fd, size, at)
    if len(data) != size:
        raise ValueError("an image that ends early")
    return data
