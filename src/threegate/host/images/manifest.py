"""The manifest of a guest image: every file with its digest; its own digest names the image.

SECURITY
    Reads files that may come from another machine.  Accepts exactly one spelling of a
    manifest, so the digest of its bytes is a digest of its content.  Raises
    `ArtifactRejected` and nothing else for any bytes.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ArtifactRejected

CODE: Final = "TG-IMG-010"
FORMAT: Final = "image/1"
ARCHITECTURE: Final = "x86_64"
MAX_MANIFEST_BYTES: Final = 64 * 1024
MAX_FILE_BYTES: Final = 8 * 1024**3 - 1  # the largest size in the header of an exported image
MAX_LAYERS: Final = 8  # the init mounts no more
KERNEL: Final = "kernel"
INITRAMFS: Final = "initramfs"
_KEYS: Final = {
    *("agent_sha256", "architecture", "files", "format", "kernel_version", "layers"),
    "lock_sha256",
}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LAYER: Final = re.compile(r"[a-z][a-z0-9]{0,15}")
_VERSION: Final = re.compile(r"[0-9][A-Za-z0-9.+~-]{0,63}")


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One file of an image."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files and layers of an image; the first layer is the lowest."""

    files: Mapping[str, ImagePart]
    layers: tuple[str, ...]
    kernel_version: str
    lock_sha256: str
    agent_sha256: str  # see `agent_digest`

    @property
    def data(self) -> bytes:
        """The only accepted spelling."""
        files = {name: {"sha256": p.sha256, "size": p.size} for name, p in self.files.items()}
        return canonical.encode(
            {
                "agent_sha256": self.agent_sha256,
                "architecture": ARCHITECTURE,
                "files": files,
                "format": FORMAT,
                "kernel_version": self.kernel_version,
                "layers": list(self.layers),
                "lock_sha256": self.lock_sha256,
            }
        )

    @property
    def digest(self) -> str:
        """The digest of the image."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(part.size for part in self.files.values())


def agent_digest(sources: Mapping[str, bytes]) -> str:
    """Return the digest of an agent: of the names and bytes of its source files."""
    named = {path: hashlib.sha256(data).hexdigest() for path, data in sources.items()}
    return hashlib.sha256(canonical.encode(named)).hexdigest()


def layer_file(layer: str) -> str:
    """Return the name of a layer's file."""
    return f"{layer}.erofs"


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in `data`, or raise `ArtifactRejected`."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise rejected(f"its manifest has {len(data)} bytes, limit {MAX_MANIFEST_BYTES}")
    try:
        value = canonical.decode(data)
    except ValueError as exc:
        raise rejected("its manifest is not canonical JSON") from exc
    if not isinstance(value, dict) or set(value) != _KEYS:
        raise rejected("its manifest has other fields")
    if (value["format"], value["architecture"]) != (FORMAT, ARCHITECTURE):
        raise rejected("it is of another format or for another machine")
    layers = _layers(value["layers"])
    files = _files(value["files"])
    if set(files) != {KERNEL, INITRAMFS, *map(layer_file, layers)}:
        raise rejected("its files are not a kernel, an initramfs and its layers")
    return Manifest(
        files=files,
        layers=layers,
        kernel_version=_text(value["kernel_version"], _VERSION),
        lock_sha256=_text(value["lock_sha256"], _DIGEST),
        agent_sha256=_text(value["agent_sha256"], _DIGEST),
    )


def _layers(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_LAYERS:
        raise rejected("its layers are not a list of at most eight")
    layers = tuple(_text(item, _LAYER) for item in value)
    if len(set(layers)) != len(layers):
        raise rejected("it names a layer twice")
    return layers


def _files(value: Any) -> dict[str, ImagePart]:
    if not isinstance(value, dict):
        raise rejected("its files are not a table")
    return {name: _part(part) for name, part in value.items()}


def _part(value: Any) -> ImagePart:
    if not isinstance(value, dict) or set(value) != {"sha256", "size"}:
        raise rejected("a file is not named by digest and size")
    size = value["size"]
    if type(size) is not int or not 0 < size <= MAX_FILE_BYTES:
        raise rejected("a file has no size, or is too large")
    return ImagePart(_text(value["sha256"], _DIGEST), size)


def _text(value: Any, shape: re.Pattern[str]) -> str:
    if not isinstance(value, str) or shape.fullmatch(value) is None:
        raise rejected("a value in its manifest does not have the right form")
    return value


def rejected(reason: str) -> ArtifactRejected:
    """Return the refusal of an image."""
    hint = "nothing of it was used; build or import it again"
    return ArtifactRejected(f"the image is not usable: {reason}", code=CODE, hint=hint)
