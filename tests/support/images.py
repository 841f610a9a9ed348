"""Guest images with next to nothing in them, a second reader of erofs, and Debian packages."""

import hashlib
import io
import lzma
import struct
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from threegate.host.images.lock import Package
from threegate.host.images.manifest import INITRAMFS, KERNEL, ImagePart, Manifest, layer_file
from threegate.host.images.packages import Apt, Record
from threegate.host.images.store import Image, Images

FILES = {
    KERNEL: b"\x7fELF kernel",
    INITRAMFS: b"070701 initramfs" * 200_000,  # more than one piece
    layer_file("base"): b"base" * 1024,
    layer_file("agent"): b"agent",
}


def manifest_of(files: dict[str, bytes]) -> Manifest:
    parts = {
        name: ImagePart(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()
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


# -- A reader of the images our writer makes, written from the kernel's document and not from it.


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


# -- Debian packages made by hand, the hostile ones among them, and an apt that serves them.


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of a tar with any field set to anything."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def ar(*members: tuple[str, bytes]) -> bytes:
    parts = [b"!<arch>\n"]
    for name, data in members:
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        parts += [head.encode("ascii"), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def deb(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a package that holds these files."""
    data = lzma.compress(tar(members))
    return ar(("debian-binary", b"2.0\n"), ("control.tar.xz", b"x"), ("data.tar.xz", data))


def locked(name: str, data: bytes, *, layer: str = "base", version: str = "1.0-1") -> Package:
    """Return the line of a lock that wants exactly this package."""
    return Package(layer, name, version, "amd64", len(data), sha256(data).hexdigest())


@dataclass(frozen=True)
class ShelfApt(Apt):
    """An apt whose archive is a table of packages: name to version and bytes."""

    environ: dict[str, str] = field(default_factory=dict)
    shelf: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    depends: dict[str, str] = field(default_factory=dict)

    def records(self, names: Sequence[str]) -> dict[str, Record]:
        return {name: self._record(name) for name in names if name in self.shelf}

    def _record(self, name: str) -> Record:
        version, data = self.shelf[name]
        return {
            "Package": name,
            "Version": version,
            "Architecture": "amd64",
            "Size": str(len(data)),
            "SHA256": sha256(data).hexdigest(),
            "Depends": self.depends.get(name, ""),
        }

    def versions(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {name: (self.shelf[name][0],) for name in names if name in self.shelf}

    def download(self, packages: Iterable[Package], directory: Path) -> None:
        for package in packages:
            self.asked.append(package.name)
            version, data = self.shelf[package.name]
            (directory / f"{package.name}_{version}_amd64.deb").write_bytes(data)
