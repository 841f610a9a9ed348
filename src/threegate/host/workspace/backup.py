"""`threegate backup`: one tar file that holds a workspace at one moment.

The moment is the end of the log, taken under the lock for milliseconds.  The log only
grows, so its beginning can be copied while others write; a file that moved on since is
copied from where it lies now, for its name and the log say what it must hold.  `restore`
puts it where that moment's log says.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from threegate.artifacts.ids import is_digest, prefix_of, sha256_hex
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.entry import MAX_SEGMENT_BYTES, SEGMENT_EVENTS, LogHead
from threegate.audit.segment import open_directory, open_segment, read_blocks, segment_name
from threegate.audit.verify import verify_log
from threegate.base.errors import AuditTampered, HandoffTampered, UsageError, WorkspaceBusy
from threegate.base.text import visible
from threegate.handoff import states
from threegate.handoff.disk import read_file, storage_errors
from threegate.handoff.records import INTENT
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold
from threegate.host.workspace import applied
from threegate.host.workspace.archive import ArchiveWriter
from threegate.host.workspace.backup_manifest import (
    NAME,
    Extra,
    Manifest,
    emit_manifest,
    extra_limit,
    parse_manifest,
)
from threegate.host.workspace.signers_file import settle_if_idle
from threegate.host.workspace.workspace import Workspace

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
    """What a backup holds."""

    path: Path
    checkpoint: Checkpoint
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Moment:
    head: LogHead
    checkpoint: Checkpoint
    short_lived: dict[Place, bytes]  # what the next command may replace or remove


def backup(ws: Workspace, target: Path, *, progress: Progress = silent) -> BackedUp:
    """Write a backup to the new file `target`; raise `WorkspaceBusy` if it must be run again."""
    target = Path(os.path.abspath(target))
    _refuse_target(ws, target)
    settle_if_idle(ws)
    moment = _take_moment(ws)
    fold = FileFold()
    with progress("verifying the log, entry", None) as show:
        report = verify_log(ws.root / AUDIT, upto=moment.head, visit=fold.feed, progress=show)
    if report.problem is not None or fold.problem is not None or fold.pending:
        raise AuditTampered(str(report.problem or fold.problem or "the log ends in a change"))
    with _new_file(target) as file:
        size = _write(ws, moment, fold, ArchiveWriter(file), progress)
    return BackedUp(target, moment.checkpoint, len(fold.files), size)


def _refuse_target(ws: Workspace, target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError(f"{visible(str(target))} is already there")
    found = target.parent.resolve()
    if found == ws.root.resolve() or ws.root.resolve() in found.parents:
        hint = "choose another disk, or another directory at least"
        raise UsageError("a backup does not lie in what it is a backup of", hint=hint)


@contextmanager
def _new_file(target: Path) -> Iterator[BinaryIO]:
    """Give the file its name once it is whole and on the disk."""
    temporary = target.with_name(f".{target.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with storage_errors(f"write {visible(str(target))}"):
        temporary.unlink(missing_ok=True)  # left by a crash
        fd = os.open(temporary, flags, 0o600)
    try:
        with storage_errors(f"write {visible(str(target))}"), os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with storage_errors(f"write {visible(str(target))}"):
            temporary.rename(target)
            _sync_directory(target.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _take_moment(ws: Workspace) -> _Moment:
    store = ws.store
    with store.locked() as journal:
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
    manifest = Manifest(
        ws.marker,
        ws.now(),
        moment.checkpoint.size,
        moment.checkpoint.root,
        sum(len(data) for data in _segments(ws.root, moment.checkpoint.size)),
        len(fold.files),
        sum(size for _, size in totals),
        {name: Extra(len(data), sha256_hex(data)) for name, data in extras.items()},
    )
    text = emit_manifest(manifest)
    assert parse_manifest(text) == manifest, "what is written can be read back"
    archive.add(NAME, text)
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
    """Yield name and content of what the log does not tell of: policy files, torn bytes."""
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
    """Return the content of a file, from wherever it lies by now."""
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
