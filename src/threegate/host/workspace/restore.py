"""`threegate restore`: a backup becomes a new workspace, or nothing changes.

The log comes first and is verified as a whole; it then says which file must come next, where it
belongs and what it must contain.  The restored files are verified once more from the disk, as
`audit verify` does.  All this happens in a directory next to the target: the workspace appears
there complete, by one rename.

SECURITY
    Reads files from any origin.  Names are never taken from the file, only compared with the one
    name that must come next.  A backup that somebody else forged can be consistent: only a
    checkpoint kept elsewhere, or the signers that the result names, tell it from one's own.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.ids import is_id, sha256_hex
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.entry import MAX_SEGMENT_BYTES, SEGMENT_EVENTS
from threegate.audit.segment import OPEN_MODE, SEALED_MODE, make_directory, segment_name
from threegate.audit.verify import verify_log
from threegate.base.errors import AuditTampered, HandoffTampered, UsageError
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.approvals import revoke_all
from threegate.handoff.disk import Directories, create_file, make_directories, storage_errors
from threegate.handoff.journal import MAX_FILE_BYTES
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.sync import sync_filesystem
from threegate.handoff.verify import FileFold
from threegate.host.settings import unix_now
from threegate.host.workspace import applied
from threegate.host.workspace.archive import ArchiveReader, rejected
from threegate.host.workspace.backup import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    BackupManifest,
    Progress,
    parse_manifest,
    silent,
)
from threegate.host.workspace.log_signatures import KeptCheckpoint
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import refuse_foreign, write_marker
from threegate.keys.signers import AllowedSigner
from threegate.sandbox.runtime import private_directory

RESTORED: Final = "restored"  # kind of the log entry
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored workspace and its signers."""

    root: Path
    workspace: str
    made: str  # when the backup was made, according to the backup
    checkpoint: Checkpoint
    files: int
    signers: tuple[AllowedSigner, ...]


def restore(
    source: Path,
    root: Path,
    *,
    checkpoints: Sequence[KeptCheckpoint] = (),
    clock: Callable[[], int] = unix_now,
    progress: Progress = silent,
) -> Restored:
    """Make the workspace `root`, which must not exist, from a backup.

    `checkpoints` kept elsewhere must be of its history.  Raises `ArtifactRejected`,
    `AuditTampered` or `HandoffTampered`, and then leaves nothing behind.
    """
    root = Path(os.path.abspath(root))
    with _open_source(source) as file:
        archive = ArchiveReader(file)
        manifest = parse_manifest(archive.next(MANIFEST_NAME, max_bytes=MAX_MANIFEST_BYTES))
        with _new_directory(root) as place:
            # The log first: it names the files that must follow, with their digests.
            fold = _restore_log(archive, manifest, place, checkpoints, progress)
            _restore_extras(archive, manifest, place)
            _restore_files(archive, manifest, place, fold, progress)
            archive.end()
            _verify(place, checkpoints, clock, progress)
            signers = _record(place, manifest, clock)
            # The marker last: a directory without it is not a workspace.
            write_marker(place, manifest.marker)
    made, workspace = manifest.created, manifest.marker.id
    return Restored(root, workspace, made, manifest.checkpoint, len(fold.files), signers)


@contextmanager
def _open_source(source: Path) -> Iterator[BinaryIO]:
    try:
        # O_NONBLOCK: opening a FIFO would wait for its writer for ever.
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        why = (exc.strerror or "unreadable").lower()
        raise UsageError(f"cannot read {visible(str(source))}: {why}") from exc
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{visible(str(source))} is not a file")
    with os.fdopen(fd, "rb") as file:
        yield file


@contextmanager
def _new_directory(root: Path) -> Iterator[Path]:
    """Yield a directory beside `root`, which becomes `root` at the end, or is removed.

    A killed restore leaves it under a name of its own; the next restore there removes it.
    """
    _refuse_existing(root)
    with private_directory(root.parent, ".threegate-restore") as made:
        refuse_foreign(made.path)
        yield made.path
        _refuse_existing(root)  # it may have been created meanwhile
        with storage_errors(f"make {visible(str(root))}"):
            os.rename(made.path, root)
            sync_filesystem(made.fd)


def _refuse_existing(root: Path) -> None:
    if os.path.lexists(root):
        raise UsageError(f"{visible(str(root))} is already there; restore makes a new directory")


def _restore_log(
    archive: ArchiveReader,
    manifest: BackupManifest,
    root: Path,
    checkpoints: Sequence[KeptCheckpoint],
    progress: Progress,
) -> FileFold:
    make_directory(root / AUDIT)
    left = manifest.log_bytes
    for number in range(manifest.segments):
        name = segment_name(number)
        data = archive.next(f"{AUDIT}/{name}", max_bytes=min(left, MAX_SEGMENT_BYTES))
        left -= len(data)
        sealed = (number + 1) * SEGMENT_EVENTS <= manifest.events
        _write(root / AUDIT / name, data, mode=SEALED_MODE if sealed else OPEN_MODE)
    fold = FileFold()
    given = [manifest.checkpoint, *(kept.checkpoint for kept in checkpoints)]
    with progress("verifying the log, entry", manifest.events) as show:
        report = verify_log(root / AUDIT, checkpoints=given, visit=fold.feed, progress=show)
    problem = report.problem or fold.problem
    if problem is not None:
        raise AuditTampered(f"the log in the backup: {problem}", hint="nothing was restored")
    if report.events != manifest.events or fold.pending or left:
        raise AuditTampered("the log in the backup does not end where it says", hint="")
    return fold


def _restore_extras(archive: ArchiveReader, manifest: BackupManifest, root: Path) -> None:
    with storage_errors("make directories"):
        for directory in (applied.POLICY, f"{AUDIT}/torn"):
            (root / directory).mkdir(mode=0o700, exist_ok=True)
    for name, extra in manifest.extras.items():
        data = archive.next(name, max_bytes=extra.bytes)
        if len(data) != extra.bytes or sha256_hex(data) != extra.sha256:
            raise HandoffTampered(f"{name} is not what the manifest says", hint="")
        _write(root / name, data, mode=0o600 if name.startswith(applied.POLICY) else 0o444)


def _restore_files(
    archive: ArchiveReader, manifest: BackupManifest, root: Path, fold: FileFold, progress: Progress
) -> None:
    make_directories(root)
    directories = Directories.open(root)
    left = manifest.file_bytes
    try:
        with progress("restoring files", len(fold.files)) as show:
            for done, ((directory, name), digest) in enumerate(fold.files.items(), 1):
                limit = min(left, MAX_FILE_BYTES)
                data = archive.next(f"{directory}/{name}", max_bytes=limit)
                left -= len(data)
                _refuse_content(name, data, digest)
                with storage_errors(f"write {name}"):
                    os.close(create_file(directories.fd(directory), name, data))
                show(done)
        with storage_errors("write the workspace"):
            sync_filesystem(directories.fd(states.BUNDLES))
    finally:
        directories.close()
    if left or len(fold.files) != manifest.files:
        raise rejected("its manifest counts other files than its log")


def _refuse_content(name: str, data: bytes, digest: str) -> None:
    named = states.content_digest_in(name)
    if sha256_hex(data) != digest or named not in (None, digest):
        detail = f"{name} in the backup is not what its log recorded"
        raise HandoffTampered(detail, hint="nothing was restored")
    stem = name.removesuffix(".md")
    # An entry in the log does not make it an artifact: the author of a backup wrote both.
    if is_id(stem) and registry.id_of(registry.parse(Untrusted(data))) != stem:
        raise HandoffTampered(f"{name} in the backup is of another kind", hint="")


def _verify(
    root: Path, checkpoints: Sequence[KeptCheckpoint], clock: Callable[[], int], progress: Progress
) -> None:
    report = verify_workspace(root, given=list(checkpoints), clock=clock, progress=progress)
    for finding in (*report.findings, *report.strays):
        where = f"{finding.directory}/{finding.name}"
        detail = f"what was restored does not verify: {where} {finding.problem}"
        raise HandoffTampered(detail, hint="nothing was restored")


def _record(
    root: Path, manifest: BackupManifest, clock: Callable[[], int]
) -> tuple[AllowedSigner, ...]:
    """Record in the log that its history continues from a backup; return its signers."""
    store = Store.open(root, clock=clock)
    try:
        entry = {"events": manifest.events, "root": manifest.root.hex()}
        with store.locked() as journal:
            signers = applied.read_current(store).signers.entries
            journal.log.append([(RESTORED, entry)], ends=True)
        revoke_all(store)  # a use that was spent after the backup must not be available again
    finally:
        store.close()
    return signers


def _write(path: Path, data: bytes, *, mode: int) -> None:
    with storage_errors(f"write {path.name}"):
        fd = os.open(path, _NEW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(fd, mode)
