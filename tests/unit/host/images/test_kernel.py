"""The kernel out of its package, and the modules in the order they are loaded."""

import lzma
import struct
from pathlib import Path

import pytest

from threegate.base.errors import ArtifactRejected
from threegate.host.images.initramfs import archive
from threegate.host.images.kernel import bare_kernel, modules_of, needs_of, version_of, wants
from threegate.host.images.recipe import MODULES
from threegate.host.images.tree import Tree

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
        (compressed(lzma.compress(b"#!/bin/sh")), "none for a guest"),
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
    made = archive(b"init", [b"first", b"second"])
    assert made == archive(b"init", iter([b"first", b"second"]))
    assert made != archive(b"init", [b"second", b"first"])
    assert made.startswith(b"070701")
    assert [made.count(name) for name in (b"modules/00\0", b"modules/01\0", b"modules/02")] == [
        1,
        1,
        0,
    ]
    assert len(made) % 4 == 0
