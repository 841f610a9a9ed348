"""Kernel and modules out of a package; a broken kernel or LZ4 frame is refused."""

import contextlib
import lzma
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import ArtifactRejected
from threegate.host.images.choice import initramfs_archive
from threegate.host.images.kernel import (
    LZ4_MAGIC,
    bare_kernel,
    modules_of,
    needs_of,
    unpack_lz4,
    version_of,
    wants,
)
from threegate.host.images.layer import Tree
from threegate.host.images.recipe import MODULES

VERSION = "6.1.0-1-cloud-amd64"
ROOT = f"usr/lib/modules/{VERSION}/kernel"
KERNEL = b"\x7fELF" + bytes(5000)


def compressed(payload: bytes, *, magic: bytes = b"HdrS") -> bytes:
    """Return a kernel image whose payload lies where the boot header says."""
    head = bytearray(0x250)
    head[0x1F1] = 1
    head[0x202:0x206] = magic
    struct.pack_into("<II", head, 0x248, 16, len(payload))
    return bytes(head).ljust(2 * 512 + 16, b"\0") + payload + b"behind"


def module(needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + needs.encode() + b"\0name=x\0"


def tree_of(place: Path, modules: dict[str, str]) -> Tree:
    tree = Tree(place)
    for path, needs in modules.items():
        tree.add_bytes(f"{ROOT}/{path}", module(needs))
    return tree


GUEST = {
    "drivers/virtio/virtio_mmio.ko": "virtio,virtio_ring",
    "drivers/virtio/virtio.ko": "",
    "drivers/virtio/virtio_ring.ko": "virtio",
    "drivers/block/virtio_blk.ko": "virtio,virtio_ring",
    "drivers/char/virtio_console.ko": "virtio,virtio_ring",
    "fs/erofs/erofs.ko": "libcrc32c",
    "lib/libcrc32c.ko": "",
    "fs/overlayfs/overlay.ko": "",
    "drivers/net/virtio_net.ko": "virtio",
}


def test_a_compressed_kernel_is_taken_out() -> None:
    assert bare_kernel(compressed(lzma.compress(KERNEL))) == KERNEL


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (b"", "no boot header"),
        (compressed(lzma.compress(KERNEL), magic=b"none"), "no boot header"),
        (compressed(b"\x1f\x8b gzip"), "cannot be unpacked"),
        (compressed(lzma.compress(KERNEL)[:-8]), "cannot be unpacked"),
        (compressed(lzma.compress(b"#!/bin/sh")), "not an ELF file"),
    ],
)
def test_what_is_no_kernel_is_refused(image: bytes, reason: str) -> None:
    with pytest.raises(ArtifactRejected, match=reason):
        bare_kernel(image)


def test_each_module_comes_after_what_it_needs_and_no_other_comes(tmp_path: Path) -> None:
    names = [name for name, _ in modules_of(tree_of(tmp_path, GUEST), VERSION)]
    assert set(MODULES) <= set(names)
    assert "virtio_net" not in names
    for name, data in modules_of(tree_of(_made(tmp_path / "again"), GUEST), VERSION):
        assert all(names.index(need) < names.index(name) for need in needs_of(data))


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_kernel_without_a_module_or_with_one_that_says_nothing_is_refused(
    tmp_path: Path,
) -> None:
    less = {path: needs for path, needs in GUEST.items() if "erofs" not in path}
    with pytest.raises(ArtifactRejected, match="no module erofs"):
        modules_of(tree_of(tmp_path, less), VERSION)
    with pytest.raises(ArtifactRejected, match="does not say what it needs"):
        needs_of(b"\x7fELF no such line")


def test_of_a_kernel_package_only_what_a_guest_may_load_is_looked_at(tmp_path: Path) -> None:
    assert wants(f"boot/vmlinuz-{VERSION}")
    assert wants(f"{ROOT}/fs/erofs/erofs.ko")
    for path in ("drivers/net/virtio_net.ko", "net/vmw_vsock/vsock.ko", "net/9p/9pnet.ko"):
        assert not wants(f"{ROOT}/{path}")
    assert not wants("boot/config-1")
    tree = Tree(tmp_path)
    with pytest.raises(ArtifactRejected, match="no kernel, or several"):
        version_of(tree)
    tree.add_bytes(f"boot/vmlinuz-{VERSION}", b"")
    assert version_of(tree) == VERSION


def test_the_archive_has_one_spelling() -> None:
    made = initramfs_archive(b"init", [b"first", b"second"])
    assert made == initramfs_archive(b"init", iter([b"first", b"second"]))
    assert made != initramfs_archive(b"init", [b"second", b"first"])
    assert made.startswith(b"070701")
    assert [made.count(name) for name in (b"modules/00\0", b"modules/01\0", b"modules/02")] == [
        1,
        1,
        0,
    ]
    assert len(made) % 4 == 0


def frame(*blocks: bytes, size: int) -> bytes:
    parts = [struct.pack("<I", len(block)) + block for block in blocks]
    return LZ4_MAGIC + b"".join(parts) + struct.pack("<I", size)


def literals(data: bytes) -> bytes:
    """Return a block of one sequence without a match."""
    count = len(data)
    if count < 15:
        return bytes([count << 4]) + data
    more, rest = divmod(count - 15, 255)
    return b"\xf0" + b"\xff" * more + bytes([rest]) + data


KNOWN_FRAMES = {
    "plain": (frame(literals(b"hello"), size=5), b"hello"),
    "long": (frame(literals(bytes(range(256)) * 3), size=768), bytes(range(256)) * 3),
    "two blocks": (frame(literals(b"ab"), literals(b"cd"), size=4), b"abcd"),
    # "abcd", then 4 from 4 back, then "!" at the end
    "match": (frame(b"\x40abcd\x04\x00\x10!", size=9), b"abcdabcd!"),
    # "a", then 19 + 3 + 0 from 1 back: it repeats what it makes
    "overlap": (frame(b"\x1fa\x01\x00\x03\x10!", size=24), b"a" * 23 + b"!"),
    "overlap of two": (frame(b"\x23ab\x02\x00\x10!", size=10), b"ababababa!"),
}


@pytest.mark.parametrize("name", KNOWN_FRAMES)
def test_known_frames_are_unpacked(name: str) -> None:
    data, expected = KNOWN_FRAMES[name]
    assert unpack_lz4(data, max_bytes=1000) == expected


REFUSED_FRAMES = {
    "no magic": (b"\x00" * 12, "no frame"),
    "nothing": (LZ4_MAGIC, "no frame"),
    "too large": (frame(literals(b"x"), size=1001), "larger than allowed"),
    "less": (frame(literals(b"x"), size=2), "less than it says"),
    "more": (frame(literals(b"xx"), size=1), "more than it says"),
    "before the start": (frame(b"\x10a\x02\x00\x10!", size=6), "outside"),
    "zero back": (frame(b"\x10a\x00\x00\x10!", size=6), "outside"),
    "literals cut": (frame(b"\x50ab", size=5), "ends too early"),
    "length cut": (frame(b"\xf0\xff", size=5), "ends too early"),
    "offset cut": (frame(b"\x10a\x01", size=5), "ends too early"),
    "block cut": (LZ4_MAGIC + struct.pack("<I", 99) + b"ab" + struct.pack("<I", 2), "too early"),
}


@pytest.mark.parametrize("name", REFUSED_FRAMES)
def test_what_is_no_frame_is_refused(name: str) -> None:
    data, reason = REFUSED_FRAMES[name]
    with pytest.raises(ValueError, match=reason):
        unpack_lz4(data, max_bytes=1000)


def test_a_small_frame_cannot_unpack_to_more_than_a_block() -> None:
    bomb = b"\x1fa\x01\x00" + b"\xff" * 40_000 + b"\x00\x10!"  # 10 MiB out of 40 kB
    with pytest.raises(ValueError, match="outside"):
        unpack_lz4(frame(bomb, size=11_000_000), max_bytes=20_000_000)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_unpacked_or_refused(data: bytes, size: int) -> None:
    with contextlib.suppress(ValueError):
        assert len(unpack_lz4(frame(data, size=size), max_bytes=1000)) == size


@given(st.binary(max_size=1000))
def test_what_is_packed_without_matches_comes_back(data: bytes) -> None:
    assert unpack_lz4(frame(literals(data), size=len(data)), max_bytes=1000) == data
