"""`threegate backup`: one tar file that holds a workspace at one moment, and its manifest.

The moment is the end of the log, taken under the lock for milliseconds.  The log only grows, so
its beginning can be copied while others write.  A file that moved since is copied from its present
place: its name and the log say what it must contain.  `restore` puts it where the log of that
moment says.

The manifest is the first member.  Every other member is checked against it or against the log that
it announces: size and root of the log, totals of the files in the log, and the few files that are
not in the log.

SECURITY
    `parse_manifest` reads bytes from any origin.  It accepts exactly what `emit_manifest` writes.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import is_digest, prefix_of, sha256_hex
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.entry import (
    MAX_SEGMENT_BYTES,
    MAX_TORN_BYTES,
    MAX_TREE_SIZE,
    SEGMENT_EVENTS,
    LogHead,
    unix_of,
)
from threegate.audit.segment import open_directory, open_segment, read_blocks, segment_name
from threegate.audit.verify import verify_log
from threegate.base import canonical
from threegate.base.errors import (
    AuditTampered,
    HandoffTampered,
    UsageError,
    VersionUnsupported,
    WorkspaceBusy,
)
from threegate.handoff import states
from threegate.handoff.disk import read_file
from threegate.handoff.records import INTENT
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold
from threegate.host.atomic_file import new_file
from threegate.host.workspace import applied
from threegate.host.workspace.applied import settle_if_idle
from threegate.host.workspace.archive import ArchiveWriter, rejected
from threegate.host.workspace.workspace import Marker, Workspace, emit_marker, parse_marker
from threegate.policy.limits import MAX_FILE_BYTES as MAX_POLICY_BYTES
from threegate.policy.sections import FILES

MANIFEST_NAME: Final = "manifest.json"
MANIFEST_FORMAT: Final = "backup/1"
MAX_MANIFEST_BYTES: Final = 4 * 2**20
_FORMAT: Final = re.compile(r"backup/[1-9][0-9]{0,8}")
_TORN: Final = re.compile(r"audit/torn/[0-9]{12,16}-([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ExtraFile:
    """A file that is not in the log."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The workspace and the moment a backup holds."""

    marker: Marker
    created: str
    events: int
    root: bytes
    log_bytes: int
    files: int
    file_bytes: int
    extras: Mapping[str, ExtraFile]

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint that the log in the backup must match."""
        return Checkpoint(self.marker.id, self.events, self.root)

    @property
    def segments(self) -> int:
        """Return the number of files of the log."""
        return -(-self.events // SEGMENT_EVENTS)


def emit_manifest(manifest: BackupManifest) -> bytes:
    """Return the canonical bytes of a manifest."""
    log = {"bytes": manifest.log_bytes, "events": manifest.events, "root": manifest.root.hex()}
    extras = {name: [item.bytes, item.sha256] for name, item in manifest.extras.items()}
    value = {
        "created": manifest.created,
        "extras": extras,
        "files": {"bytes": manifest.file_bytes, "count": manifest.files},
        "format": MANIFEST_FORMAT,
        "log": log,
        "marker": emit_marker(manifest.marker).decode("ascii"),
    }
    return canonical.encode(value)


def parse_manifest(data: bytes) -> BackupManifest:
    """Return the manifest in `data`; raise `ArtifactRejected` or `VersionUnsupported`."""
    try:
        value: Any = canonical.decode(data)
        _refuse_newer(value["format"])
        manifest = BackupManifest(
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
            raise ValueError("not canonical")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise rejected("its manifest is not readable") from exc
    return manifest


def extra_limit(name: str) -> int | None:
    """Return the most bytes an extra file of this name may have; None if there is no such file."""
    if name.startswith("policy/"):
        return MAX_POLICY_BYTES if name.removeprefix("policy/") in FILES.values() else None
    return MAX_TORN_BYTES if _TORN.fullmatch(name) else None


def _extra(name: str, size: Any, sha256: Any) -> ExtraFile:
    limit = extra_limit(name)
    torn = _TORN.fullmatch(name)
    if limit is None or not is_digest(sha256) or (torn is not None and torn[1] != sha256):
        raise ValueError("no file of a backup")
    return ExtraFile(_count(size, limit), sha256)


def _count(value: Any, limit: int = MAX_TREE_SIZE) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError("not a count")
    return value


def _fits(manifest: BackupManifest) -> bool:
    room = manifest.segments * MAX_SEGMENT_BYTES
    return len(manifest.root) == 32 and manifest.events > 0 and manifest.log_bytes <= room


def _refuse_newer(found: Any) -> None:
    if isinstance(found, str) and found != MANIFEST_FORMAT and _FORMAT.fullmatch(found):
        raise VersionUnsupported(f"the backup has format {found}, newer than {MANIFEST_FORMAT}")


TRIES: Final = 5
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
Place = tuple[str, str]  # directory, name


@contextmanager
def silent(_: str, __: int | None) -> Iterator[Callable[[int], None]]:
    """Show no progress."""
    yield lambda _: None


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A finished backup and its totals."""

    path: Path
    checkpoint: Checkpoint
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Moment:
    head: LogHead
    checkpoint: Checkpoint
    short_lived: dict[Place, bytes]  # files that the next command may replace or remove


def backup(ws: Workspace, target: Path, *, progress: Progress = silent) -> BackedUp:
    """Write a backup to the new file `target`; raise `WorkspaceBusy` if it must be run again."""
    target = Path(os.path.abspath(target))
    _refuse_target(ws, target)
    settle_if_idle(ws.store)
    moment = _take_moment(ws)
    fold = FileFold()
    with progress("verifying the log, entry", None) as show:
        # A backup of a damaged log would pass for a good one.
        report = verify_log(ws.root / AUDIT, upto=moment.head, visit=fold.feed, progress=show)
    if report.problem is not None or fold.problem is not None or fold.pending:
        raise AuditTampered(str(report.problem or fold.problem or "the log ends inside a change"))
    with new_file(target) as file:
        size = _write(ws, moment, fold, ArchiveWriter(file), progress)
    return BackedUp(target, moment.checkpoint, len(fold.files), size)


def _refuse_target(ws: Workspace, target: Path) -> None:
    found = target.parent.resolve()
    if found == ws.root.resolve() or ws.root.resolve() in found.parents:
        hint = "choose another disk, or another directory at least"
        raise UsageError(
            "a backup cannot be stored inside the workspace that it backs up", hint=hint
        )


def _take_moment(ws: Workspace) -> _Moment:
    store = ws.store
    with store.locked() as journal:
        # Files whose content changes under one name: read now, under the lock.
        places = [(states.LEASES, name) for name in store.names(states.LEASES)]
        places.append((states.BUNDLES, applied.CURRENT))
        accepted = states.directory_of("ap", "accepted")
        places += [(accepted, name) for name in store.names(accepted) if name.endswith(".json")]
        short_lived = {place: store.read_file(*place) for place in places}
        return _Moment(journal.log.head, journal.log.checkpoint(), short_lived)


def _write(
    ws: Workspace, moment: _Moment, fold: FileFold, archive: ArchiveWriter, progress: Progress
) -> int:
    extras = dict(sorted(_extras(ws.root, moment.checkpoint.size)))
    totals = [fold.usage.of(directory) for directory in states.NAMES]
    manifest = BackupManifest(
        ws.marker,
        ws.now(),
        moment.checkpoint.size,
        moment.checkpoint.root,
        sum(len(data) for data in _segments(ws.root, moment.checkpoint.size)),
        len(fold.files),
        sum(size for _, size in totals),
        {name: ExtraFile(len(data), sha256_hex(data)) for name, data in extras.items()},
    )
    text = emit_manifest(manifest)
    assert parse_manifest(text) == manifest, "what is written can be read back"
    archive.add(MANIFEST_NAME, text)
    for number, data in enumerate(_segments(ws.root, moment.checkpoint.size)):
        archive.add(f"{AUDIT}/{segment_name(number)}", data)
    for name, data in extras.items():
        archive.add(name, data)
    with progress("copying files", len(fold.files)) as show:
        for done, (place, digest) in enumerate(fold.files.items(), 1):
            archive.add("/".join(place), _content(ws, moment, place, digest))
            show(done)
    archive.end()
    return manifest.file_bytes


def _segments(root: Path, events: int) -> Iterator[bytes]:
    """Yield the bytes of each segment up to the moment; the last may have grown since."""
    dir_fd = open_directory(root / AUDIT)
    try:
        for segment in range(-(-events // SEGMENT_EVENTS)):
            wanted = min(SEGMENT_EVENTS, events - segment * SEGMENT_EVENTS)
            fd = open_segment(dir_fd, segment)
            try:
                yield _lines(fd, segment, wanted)
            finally:
                os.close(fd)
    finally:
        os.close(dir_fd)


def _lines(fd: int, segment: int, wanted: int) -> bytes:
    lines: list[bytes] = []
    for block in read_blocks(fd, segment=segment):
        lines += block.lines
        if len(lines) >= wanted:
            break
    data = b"".join(line + b"\n" for line in lines[:wanted])
    if len(lines) < wanted or len(data) > MAX_SEGMENT_BYTES:
        raise AuditTampered(f"segment {segment} of the audit log is not what it was")
    return data


def _extras(root: Path, events: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files that are not in the log: policy files, torn bytes."""
    for directory in ("policy", f"{AUDIT}/torn"):
        try:
            fd = os.open(root / directory, _DIRECTORY)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise HandoffTampered(f"{directory} is not a plain directory") from exc
        try:
            for name in os.listdir(fd):
                limit = extra_limit(f"{directory}/{name}")
                if limit is not None and _of_the_moment(name, events):
                    data = read_file(fd, name, max_bytes=limit, mode=None)
                    _refuse_torn(name, data)
                    yield f"{directory}/{name}", data
        finally:
            os.close(fd)


def _refuse_torn(name: str, data: bytes) -> None:
    digest = name.partition("-")[2]
    if is_digest(digest) and sha256_hex(data) != digest:
        raise HandoffTampered(f"torn bytes {name} are not what their name says")


def _of_the_moment(name: str, events: int) -> bool:
    """Tell whether torn bytes came before the moment of the backup."""
    number = name.partition("-")[0]
    return not number.isdigit() or int(number) <= events


def _content(ws: Workspace, moment: _Moment, place: Place, digest: str) -> bytes:
    """Return the content of a file, from its present place."""
    directory, name = place
    taken = moment.short_lived.get(place)
    if taken is not None and sha256_hex(taken) == digest:
        return taken
    for _ in range(TRIES):  # it may move while we look
        for candidate in _candidates(directory, name):
            with suppress(FileNotFoundError):
                data = ws.store.read_file(candidate, name)
                if sha256_hex(data) == digest:
                    return data
    if name in _changed_since(ws.store, moment.head):
        hint = "run it again"
        raise WorkspaceBusy(f"{name} was forgotten or replaced during the backup", hint=hint)
    raise HandoffTampered(f"{name} in {directory} is missing or is not what the log recorded")


def _candidates(directory: str, name: str) -> list[str]:
    states_of_kind = states.ARTIFACT_STATES.get(prefix_of(name), ())
    others = [directory, *states_of_kind, states.QUARANTINE]
    return [found for found in dict.fromkeys(others) if states.NAMES[found].match(name)]


def _changed_since(store: Store, head: LogHead) -> set[str]:
    with store.locked() as journal:
        entries = journal.log.entries(head.seq + 1)
        return {str(entry.data["name"]) for entry in entries if entry.kind == INTENT}
