"""The guest's kernel and its modules, out of Debian's kernel package.

QEMU's microvm starts a kernel that is not compressed, by its PVH entry; the package holds
a compressed one, so the payload of that is taken out.  The modules are chosen by name; what they
need themselves stands in each of them.
"""

import lzma
import re
import struct
from collections.abc import Mapping
from typing import Final

from threegate.host.images import lz4
from threegate.host.images.recipe import MODULES
from threegate.host.images.tree import Tree
from threegate.host.images.unpack import rejected

MAX_KERNEL_BYTES: Final = 256 * 1024 * 1024
_ELF: Final = b"\x7fELF"
_MODULE: Final = re.compile(
    r"usr/lib/modules/[^/]+/kernel/"
    r"(?:crypto|lib|fs/(?:erofs|overlayfs)|drivers/(?:block|char|virtio))/"
)
_BOOT: Final = re.compile(r"boot/vmlinuz-([0-9][A-Za-z0-9.+~-]*)")


def wants(path: str) -> bool:
    """Tell whether a path of a kernel package may be needed; no driver of a network is."""
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
        kernel = _unpacked(payload)
    except (ValueError, lzma.LZMAError, EOFError) as exc:
        raise rejected(f"its kernel cannot be unpacked ({type(exc).__name__})") from exc
    if not kernel.startswith(_ELF):
        raise rejected("its kernel is none for a guest")
    return kernel


def _unpacked(payload: bytes) -> bytes:
    if payload.startswith(lz4.MAGIC):
        return lz4.unpack(payload, max_bytes=MAX_KERNEL_BYTES)
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
    if name not in by_name:  # a kernel may have it built in; the init would miss it otherwise
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
