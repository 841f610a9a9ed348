"""Debian packages made by hand, the hostile ones among them, and an apt that serves them."""

import io
import lzma
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from threegate.host.images.apt import Apt, Record
from threegate.host.images.lock import Package


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
