"""Images of the real form with next to nothing in them; no guest starts from one."""

import hashlib
from pathlib import Path

from threegate.images.keeping import Image, Images
from threegate.images.manifest import INITRAMFS, KERNEL, Manifest, Part, layer_file

FILES = {
    KERNEL: b"\x7fELF kernel",
    INITRAMFS: b"070701 initramfs" * 200_000,  # more than one piece
    layer_file("base"): b"base" * 1024,
    layer_file("agent"): b"agent",
}


def manifest_of(files: dict[str, bytes]) -> Manifest:
    parts = {
        name: Part(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()
    }
    return Manifest(parts, ("base", "agent"), "6.1.0-1-cloud-amd64", "0" * 64, "1" * 64)


def kept(root: Path, **changed: bytes) -> Image:
    """Keep an image in a cache, as building does."""
    images, files = Images(root), {**FILES, **changed}
    with images.making() as work:
        made = work / "made"
        made.mkdir()
        for name, data in files.items():
            (made / name).write_bytes(data)
        return images.keep(made, manifest_of(files))
