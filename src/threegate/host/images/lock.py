"""The lock of an image: its packages by version and digest, and the file in use.

    image-lock/1
    <layer> <package> <version> <architecture> <bytes> <sha256>
    ...

One line per package, sorted, with single spaces; the layer `kernel` has one package.  A lock names
no archive: the machine's own apt knows where packages come from.

SECURITY
    Reads a file that the operator names.  Accepts exactly one spelling of each lock, so the
    digest of the text is a digest of its content.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import ArtifactRejected, UsageError, disk_errors
from threegate.base.text import quote, visible
from threegate.host.images.recipe import KERNEL, LAYERS

CODE: Final = "TG-IMG-001"
HEAD: Final = "image-lock/1"
LOCK_FILE: Final = "image.lock"
SHIPPED: Final = Path(__file__).with_name(LOCK_FILE)
MAX_LOCK_BYTES: Final = 256 * 1024
MAX_PACKAGE_BYTES: Final = 512 * 1024 * 1024
_LINE: Final = re.compile(
    r"(?P<layer>[a-z]+) (?P<name>[a-z0-9][a-z0-9+.-]{1,127}) "
    r"(?P<version>[0-9][A-Za-z0-9.+:~-]{0,127}) (?P<architecture>amd64|all) "
    r"(?P<size>[1-9][0-9]{0,9}) (?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One package of one version."""

    layer: str
    name: str
    version: str
    architecture: str
    size: int
    sha256: str

    @property
    def line(self) -> str:
        """The only accepted spelling."""
        fields = (self.layer, self.name, self.version, self.architecture, str(self.size))
        return " ".join((*fields, self.sha256))


@dataclass(frozen=True, slots=True)
class Lock:
    """Every package of an image."""

    packages: tuple[Package, ...]

    @classmethod
    def of(cls, packages: Iterable[Package]) -> "Lock":
        """Return a lock of packages in any order."""
        return cls(tuple(sorted(packages)))

    @property
    def text(self) -> str:
        """The only accepted spelling."""
        return "".join(f"{line}\n" for line in (HEAD, *(item.line for item in self.packages)))

    @property
    def digest(self) -> str:
        """The SHA-256 of its text."""
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()

    def of_layer(self, layer: str) -> tuple[Package, ...]:
        """Return the packages of a layer."""
        return tuple(item for item in self.packages if item.layer == layer)


def parse_lock(data: bytes) -> Lock:
    """Return the lock in `data`, or raise `ArtifactRejected`."""
    if len(data) > MAX_LOCK_BYTES:
        raise _rejected(f"it has {len(data)} bytes, limit {MAX_LOCK_BYTES}")
    try:
        head, *lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError as exc:
        raise _rejected("it is not plain ASCII") from exc
    if head != HEAD or not lines or lines.pop():
        raise _rejected(f"it does not start with {HEAD}, or its last line is not whole")
    packages = [_package(line, number) for number, line in enumerate(lines, start=2)]
    if packages != sorted(packages):
        raise _rejected("its lines are not sorted")
    names = [package.name for package in packages]
    for name in names:
        if names.count(name) > 1:
            raise _rejected(f"it names {name} twice")
    if sum(package.layer == KERNEL for package in packages) != 1:
        raise _rejected("it must name one kernel")
    return Lock(tuple(packages))


def _package(line: str, number: int) -> Package:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _rejected(f"line {number} does not describe a package: {quote(line)}")
    if found["layer"] not in {KERNEL, *LAYERS}:
        raise _rejected(f"line {number} names an unknown layer: {quote(found['layer'])}")
    if int(found["size"]) > MAX_PACKAGE_BYTES:
        raise _rejected(f"line {number}: a package has at most {MAX_PACKAGE_BYTES} bytes")
    layer, name, version, architecture, size, sha256 = found.groups()
    return Package(layer, name, version, architecture, int(size), sha256)


def _rejected(reason: str) -> ArtifactRejected:
    hint = "`threegate image lock --update` writes a new one; nothing was built"
    return ArtifactRejected(f"the image lock is not usable: {reason}", code=CODE, hint=hint)


@dataclass(frozen=True, slots=True)
class ChosenLock:
    """A lock and its file."""

    path: Path
    lock: Lock


def choose_lock(named: Path | None, config_home: Path) -> ChosenLock:
    """Return the lock in use: the named file, the user's own, or the one we ship."""
    own = config_home / LOCK_FILE
    path = named or (own if own.exists() else SHIPPED)
    try:
        with path.open("rb") as file:
            return ChosenLock(path, parse_lock(file.read(MAX_LOCK_BYTES + 1)))
    except OSError as exc:
        raise UsageError(
            f"cannot read {visible(str(path))}: {os.strerror(exc.errno or 0)}"
        ) from exc


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock completely, or not at all."""
    with disk_errors("write the lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_text(lock.text, "ascii")
        new.replace(path)


def differences(old: Lock, new: Lock) -> list[tuple[str, str, str]]:
    """Return package, old and new version of everything that changed; "-" if there is none."""
    before, after = _by_name(old), _by_name(new)
    return [
        (name, _version(before.get(name)), _version(after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _by_name(lock: Lock) -> dict[str, Package]:
    return {package.name: package for package in lock.packages}


def _version(package: Package | None) -> str:
    return package.version if package else "-"
