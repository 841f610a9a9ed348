"""A reader of the images our writer makes, written from the kernel's document and not from it."""

import struct
from typing import Any


def read(image: bytes) -> dict[str, tuple[str, int, Any]]:
    """Return kind, mode and content (bytes, target, names) of every path, the root as ""."""
    magic, _, compat, bits, _, root, inodes = struct.unpack_from("<IIIBBHQ", image, 1024)
    (blocks, meta) = struct.unpack_from("<II", image, 1024 + 36)
    assert (magic, compat, bits, meta) == (0xE0F5E1E2, 0, 12, 0)
    assert blocks * 4096 == len(image)
    found: dict[str, tuple[str, int, Any]] = {}
    _node(image, root, root, "", found)
    assert len(found) == inodes
    return found


def _node(image: bytes, nid: int, above: int, path: str, found: dict[str, Any]) -> None:
    at = nid * 32
    form, xattrs, mode, _, size, block = struct.unpack_from("<HHHHQI", image, at)
    uid, gid, mtime = struct.unpack_from("<IIQ", image, at + 24)
    assert (form & 1, xattrs, uid, gid, mtime) == (1, 0, 0, 0, 946_684_800)
    start = at + 64 if form >> 1 == 2 else block * 4096
    if form >> 1 == 2:
        assert (start + size - 1) // 4096 == at // 4096, "an inline tail leaves its block"
    data = image[start : start + size]
    kind = {0o100000: "file", 0o040000: "directory", 0o120000: "link"}[mode & 0o170000]
    assert path not in found
    if kind != "directory":
        found[path] = (kind, mode & 0o7777, data)
        return
    entries = _entries(data)
    names = [name for name, _ in entries]
    assert names == sorted(set(names)), "a directory is searched by halves"
    assert dict(entries)[b"."] == nid
    assert dict(entries)[b".."] == above
    found[path] = (kind, mode & 0o7777, names)
    for name, number in entries:
        if name not in {b".", b".."}:
            below = name.decode("utf-8", "surrogateescape")
            _node(image, number, nid, f"{path}/{below}" if path else below, found)


def _entries(data: bytes) -> list[tuple[bytes, int]]:
    found = []
    for start in range(0, len(data), 4096):
        block = data[start : start + 4096]
        (first,) = struct.unpack_from("<H", block, 8)
        heads = [struct.unpack_from("<QHBB", block, at) for at in range(0, first, 12)]
        ends = [head[1] for head in heads[1:]] + [len(block)]
        for (nid, offset, _, _), end in zip(heads, ends, strict=True):
            found.append((block[offset:end].rstrip(b"\0"), nid))
    return found
