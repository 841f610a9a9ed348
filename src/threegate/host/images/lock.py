"""The lock: which packages, of which version and digest, an image is made of.

    image-lock/1
    <layer> <package> <version> <architecture> <bytes> <sha256>
    ...

One line a package, sorted, one space between; the layer `kernel` has one package.  It names no
archive: where packages come from is what the machine's own apt knows.

SECURITY
    Reads a file an operator named.  A line that is not exactly one of these is refused, so
    the digest of the text is a digest of what it says.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import ArtifactRejected
from threegate.base.text import quote
from threegate.host.images.recipe import KERNEL, LAYERS

CODE: Final = "TG-IMG-001"
HEAD: Final = "image-lock/1"
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
        """The one spelling of it."""
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
        """The one spelling of it."""
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
            raise _rejected(f"{name} stands in it twice")
    if sum(package.layer == KERNEL for package in packages) != 1:
        raise _rejected("it must name one kernel")
    return Lock(tuple(packages))


def _package(line: str, number: int) -> Package:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _rejected(f"line {number} is not that of a package: {quote(line)}")
    if found["layer"] not in {KERNEL, *LAYERS}:
        raise _rejected(f"line {number} names no layer: {quote(found['layer'])}")
    if int(found["size"]) > MAX_PACKAGE_BYTES:
        raise _rejected(f"line {number}: a package has at most {MAX_PACKAGE_BYTES} bytes")
    layer, name, version, architecture, size, sha256 = found.groups()
    return Package(layer, name, version, architecture, int(size), sha256)


def _rejected(reason: str) -> ArtifactRejected:
    hint = "`threegate image lock --update` writes a new one; nothing was built"
    return ArtifactRejected(f"the image lock is not usable: {reason}", code=CODE, hint=hint)
