"""The guest's kernel and its modules, taken from Debian's kernel package.

QEMU's microvm boots an uncompressed kernel through its PVH entry.  The package holds a compressed
one (xz, or LZ4 in the legacy frame with blocks of up to 8 MiB), so its payload is extracted.  The
modules are chosen by name; each module lists the modules that it needs.

SECURITY
    Reads bytes out of a package.  The LZ4 reader compares every length with the bytes that are
    there and with the size of a block; it raises ValueError and nothing else for any bytes.
"""

import lzma
import re
import struct
from collections.abc import Mapping
from typing import Final

from threegate.host.images.layer import Tree, rejected
from threegate.host.images.recipe import MODULES

MAX_KERNEL_BYTES: Final = 256 * 1024 * 1024
_ELF: Final = b"\x7fELF"
_MODULE: Final = re.compile(
    r"usr/lib/modules/[^/]+/kernel/"
    r"(?:crypto|lib|fs/(?:erofs|overlayfs)|drivers/(?:block|char|virtio))/"
)
_BOOT: Final = re.compile(r"boot/vmlinuz-([0-9][A-Za-z0-9.+~-]*)")
LZ4_MAGIC: Final = b"\x02\x21\x4c\x18"
LZ4_BLOCK_BYTES: Final = 8 * 1024 * 1024
_LEAST_MATCH: Final = 4
_MORE: Final = 15


def wants(path: str) -> bool:
    """Tell whether a path of a kernel package may be needed; network drivers are not."""
    return _BOOT.fullmatch(path) is not None or _MODULE.match(path) is not None


def version_of(tree: Tree) -> str:
    """Return the version of the one kernel in a tree."""
    found = [match[1] for path in tree.files if (match := _BOOT.fullmatch(path))]
    if len(found) != 1:
        raise rejected("it holds no kernel, or several")
    return found[0]


def bare_kernel(image: bytes) -> bytes:
    """Return the kernel inside a compressed one (the kernel's Documentation/x86/boot.rst)."""
    if len(image) < 0x250 or image[0x202:0x206] != b"HdrS":
        raise rejected("its kernel has no boot header")
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    payload = image[start : start + length]
    try:
        kernel = _decompressed(payload)
    except (ValueError, lzma.LZMAError, EOFError) as exc:
        raise rejected(f"its kernel cannot be unpacked ({type(exc).__name__})") from exc
    if not kernel.startswith(_ELF):
        raise rejected("its kernel is not an ELF file")
    return kernel


def _decompressed(payload: bytes) -> bytes:
    if payload.startswith(LZ4_MAGIC):
        return unpack_lz4(payload, max_bytes=MAX_KERNEL_BYTES)
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    kernel = unpacker.decompress(payload, MAX_KERNEL_BYTES)
    if not unpacker.eof:
        raise ValueError("larger than allowed, or not whole")
    return kernel


def modules_of(tree: Tree, version: str) -> list[tuple[str, bytes]]:
    """Return the modules the guest loads, in that order; each comes after what it needs."""
    root = f"usr/lib/modules/{version}/kernel/"
    by_name = {
        _name(path): path
        for path in tree.files
        if path.startswith(root) and path.endswith((".ko", ".ko.xz"))
    }
    if not by_name:
        raise rejected("it holds no modules")
    chosen: dict[str, bytes] = {}
    for name in MODULES:
        _choose(name, by_name, tree, chosen)
    return list(chosen.items())


def _choose(name: str, by_name: Mapping[str, str], tree: Tree, chosen: dict[str, bytes]) -> None:
    if name in chosen:
        return
    if name not in by_name:  # a kernel may have it built in; our init would not find it
        raise rejected(f"its kernel has no module {name}")
    path = by_name[name]
    data = tree.read(path)
    if path.endswith(".xz"):
        data = lzma.decompress(data)
    for needed in needs_of(data):
        _choose(needed, by_name, tree, chosen)
    chosen[name] = data


def _name(path: str) -> str:
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def needs_of(module: bytes) -> list[str]:
    """Return the names in a module's `depends` line; raise `ArtifactRejected` if it has none."""
    found = re.search(rb"\0depends=([a-z0-9_,-]*)\0", module)
    if found is None or not module.startswith(_ELF):
        raise rejected("a module does not say what it needs")
    names = found[1].decode("ascii").replace("-", "_").split(",")
    return [name for name in names if name]


def unpack_lz4(data: bytes, *, max_bytes: int) -> bytes:
    """Return the content of a frame; its last four bytes are the content's size, as in kernels."""
    if not data.startswith(LZ4_MAGIC) or len(data) < 8:
        raise ValueError("no frame")
    (size,) = struct.unpack_from("<I", data, len(data) - 4)
    if size > max_bytes:
        raise ValueError("larger than allowed")
    at, end, parts, found = len(LZ4_MAGIC), len(data) - 4, [], 0
    while at < end:
        if at + 4 > end:
            raise ValueError("ends too early")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > end:
            raise ValueError("ends too early")
        parts.append(_block(data[at : at + length]))
        found += len(parts[-1])
        if found > size:
            raise ValueError("holds more than it says")
        at += length
    if found != size:
        raise ValueError("holds less than it says")
    return b"".join(parts)


def _block(data: bytes) -> bytes:
    out, at, end = bytearray(), 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            count = token >> 4
            if count == _MORE:
                count, at = _longer(data, at, count)
            if count > end - at:
                raise ValueError("ends too early")
            out += data[at : at + count]
            at += count
            if at == end:  # the last sequence has no match
                break
            back = data[at] | data[at + 1] << 8
            at += 2
            count = token & 15
            if count == _MORE:
                count, at = _longer(data, at, count)
            _copy(out, back, count + _LEAST_MATCH)
    except IndexError as exc:
        raise ValueError("ends too early") from exc
    if len(out) > LZ4_BLOCK_BYTES:
        raise ValueError("a block is too large")
    return bytes(out)


def _longer(data: bytes, at: int, count: int) -> tuple[int, int]:
    while True:
        more = data[at]
        at += 1
        count += more
        if more != 255:
            return count, at


def _copy(out: bytearray, back: int, count: int) -> None:
    start = len(out) - back
    if back == 0 or start < 0 or len(out) + count > LZ4_BLOCK_BYTES:
        raise ValueError("a match lies outside")
    if count <= back:
        out += out[start : start + count]
        return
    piece = bytes(out[start:])  # the match overlaps its own output
    out += (piece * (count // back + 1))[:count]
