"""What a backup says about itself: the first file in it.

Everything else is checked against it or against the log it announces: the log's size and
root, the totals of the files the log tells of, and the few files the log does not.

SECURITY
    `parse_manifest` reads bytes that anybody may have made.  It accepts exactly what
    `emit_manifest` writes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import is_digest
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.entry import (
    MAX_SEGMENT_BYTES,
    MAX_TORN_BYTES,
    MAX_TREE_SIZE,
    SEGMENT_EVENTS,
    unix_of,
)
from threegate.base import canonical
from threegate.base.errors import VersionUnsupported
from threegate.host.workspace.archive import rejected
from threegate.host.workspace.workspace import Marker, emit_marker, parse_marker
from threegate.policy.limits import MAX_FILE_BYTES as MAX_POLICY_BYTES
from threegate.policy.sections import FILES

NAME: Final = "manifest.json"
FORMAT: Final = "backup/1"
MAX_MANIFEST_BYTES: Final = 4 * 2**20
_FORMAT: Final = re.compile(r"backup/[1-9][0-9]{0,8}")
_TORN: Final = re.compile(r"audit/torn/[0-9]{12,16}-([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Extra:
    """A file the log does not tell of."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The workspace and the moment a backup holds."""

    marker: Marker
    created: str
    events: int
    root: bytes
    log_bytes: int
    files: int
    file_bytes: int
    extras: Mapping[str, Extra]

    @property
    def checkpoint(self) -> Checkpoint:
        """Return what the log in the backup must look like."""
        return Checkpoint(self.marker.id, self.events, self.root)

    @property
    def segments(self) -> int:
        """Return in how many files the log lies."""
        return -(-self.events // SEGMENT_EVENTS)


def emit_manifest(manifest: Manifest) -> bytes:
    """Return the manifest's one spelling."""
    log = {"bytes": manifest.log_bytes, "events": manifest.events, "root": manifest.root.hex()}
    extras = {name: [item.bytes, item.sha256] for name, item in manifest.extras.items()}
    value = {
        "created": manifest.created,
        "extras": extras,
        "files": {"bytes": manifest.file_bytes, "count": manifest.files},
        "format": FORMAT,
        "log": log,
        "marker": emit_marker(manifest.marker).decode("ascii"),
    }
    return canonical.encode(value)


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in `data`; raise `ArtifactRejected` or `VersionUnsupported`."""
    try:
        value: Any = canonical.decode(data)
        _refuse_newer(value["format"])
        manifest = Manifest(
            parse_marker(value["marker"].encode("ascii")),
            value["created"],
            _count(value["log"]["events"], MAX_TREE_SIZE),
            bytes.fromhex(value["log"]["root"]),
            _count(value["log"]["bytes"]),
            _count(value["files"]["count"]),
            _count(value["files"]["bytes"]),
            {name: _extra(name, *item) for name, item in value["extras"].items()},
        )
        unix_of(manifest.created)
        if emit_manifest(manifest) != data or not _fits(manifest):
            raise ValueError("another spelling")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise rejected("its manifest is not readable") from exc
    return manifest


def extra_limit(name: str) -> int | None:
    """Return the most bytes an extra file of this name may have; None if there is no such file."""
    if name.startswith("policy/"):
        return MAX_POLICY_BYTES if name.removeprefix("policy/") in FILES.values() else None
    return MAX_TORN_BYTES if _TORN.fullmatch(name) else None


def _extra(name: str, size: Any, sha256: Any) -> Extra:
    limit = extra_limit(name)
    torn = _TORN.fullmatch(name)
    if limit is None or not is_digest(sha256) or (torn is not None and torn[1] != sha256):
        raise ValueError("no file of a backup")
    return Extra(_count(size, limit), sha256)


def _count(value: Any, limit: int = MAX_TREE_SIZE) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError("not a count")
    return value


def _fits(manifest: Manifest) -> bool:
    room = manifest.segments * MAX_SEGMENT_BYTES
    return len(manifest.root) == 32 and manifest.events > 0 and manifest.log_bytes <= room


def _refuse_newer(found: Any) -> None:
    if isinstance(found, str) and found != FORMAT and _FORMAT.fullmatch(found):
        raise VersionUnsupported(f"the backup has format {found}, newer than {FORMAT}")
