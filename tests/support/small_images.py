"""Images of the real form with next to nothing in them; no guest starts from one."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from threegate.host.images.manifest import INITRAMFS, KERNEL, Manifest, Part, layer_file
from threegate.host.images.store import Image, Images

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


def kept(root: Path, said: Mapping[str, str] | None = None, /, **changed: bytes) -> Image:
    """Keep an image in a cache, as building does; `said` are other fields of its manifest."""
    images, files = Images(root), {**FILES, **changed}
    with images.making() as work:
        made = work / "made"
        made.mkdir()
        for name, data in files.items():
            (made / name).write_bytes(data)
        return images.keep(made, replace(manifest_of(files), **(said or {})))  # type: ignore[arg-type]
