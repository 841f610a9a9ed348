"""`threegate init` and `threegate upgrade`: a new workspace, and an old one of an earlier version.

`init` signs the first policy with the key of the first signer.  The directory may hold other files,
so a workspace is built in a private directory inside it and then moved out, entry by entry, the
marker last.  A record of the moves is written first: the next `init` moves back what a killed one
moved, and nothing else.

`upgrade` runs migrations, each from one version to the next in named steps.  A step is announced in
the audit log before it runs and noted when it is done.  After a crash, completed steps are skipped
and the interrupted one is repeated, so every step must be repeatable.  The marker changes when all
steps are done.  Stored artifacts are never rewritten.  The workspace stays locked throughout: an
older program must not write in between.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.audit.entry import time_of
from threegate.audit.log import AuditLog
from threegate.base import canonical
from threegate.base.errors import StorageFailed, UsageError, VersionUnsupported, WorkspaceUnusable
from threegate.base.text import visible
from threegate.handoff import states
from threegate.handoff.disk import held, storage_errors
from threegate.handoff.journal import Journal
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.sync import sync_filesystem
from threegate.host.gate_profiles import program_gates
from threegate.host.keys.operator import Operator
from threegate.host.keys.signatures import Signer
from threegate.host.settings import unix_now
from threegate.host.workspace import applied, workspace
from threegate.host.workspace.workspace import VERSION, Marker, read_marker, write_marker
from threegate.keys.signers import AllowedSigner, Signers, emit
from threegate.policy.compiler import compile_policy, default_files
from threegate.policy.sections import SIGNERS_FILE
from threegate.sandbox.runtime import abandoned, private_directory

_BUILDING: Final = ".threegate-init"
_RECORD: Final = "moving.json"
OURS: Final = (workspace.MARKER, applied.POLICY, states.HANDOFF, states.BUNDLES, AUDIT)


def init_workspace(
    root: Path,
    *,
    operator: Operator,
    principal: str,
    signer: Signer,
    clock: Callable[[], int],
) -> Marker:
    """Make a workspace at `root`; the marker comes last, so a crash leaves none."""
    signers = Signers((AllowedSigner(principal, operator.public),))
    files = {**default_files(), SIGNERS_FILE: emit(signers)}
    bundle = compile_policy(files, gates=program_gates()).bundle()
    now = clock()
    armored = signer.sign(bundle.bundle_bytes(), applied.NAMESPACE)
    marker = workspace.make_marker(created=time_of(now))
    with private_directory(root, _BUILDING) as place:
        Store.create(place.path, workspace=marker.id, clock=clock)
        _write_policy(place.path / applied.POLICY, files)
        store = Store.open(place.path, clock=clock)
        try:
            with store.locked() as journal:
                first_signer = {"fingerprint": operator.public.fingerprint, "principal": principal}
                journal.run("init", applied.acts_to_apply(bundle, armored, at=now), first_signer)
        finally:
            store.close()
        workspace.write_marker(place.path, marker)
        _move_out(place.path, root)
    return marker


def prepare_root(root: Path) -> None:
    """Make the directory, or refuse one that already holds files of a workspace."""
    _settle_unfinished(root)
    if os.path.lexists(root / workspace.MARKER):
        raise UsageError(f"{visible(str(root))} is a workspace already")
    left = [name for name in OURS if os.path.lexists(root / name)]
    if left:
        hint = "init did not make them: move them away, or choose another directory"
        raise UsageError(f"{visible(str(root))} already holds {', '.join(left)}", hint=hint)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(
            f"cannot make {visible(str(root))}: {os.strerror(exc.errno or 0)}"
        ) from exc
    workspace.refuse_foreign(root)
    # Others could replace its content, so later commands would refuse to open it.
    if root.stat().st_mode & 0o022:
        hint = f"chmod go-w {visible(str(root))}, or name a directory that does not exist"
        raise WorkspaceUnusable(f"other accounts can write to {visible(str(root))}", hint=hint)


def _move_out(place: Path, root: Path) -> None:
    """Move a finished workspace to its place, completely or not at all."""
    # The marker moves last: until then the directory is not a workspace.
    names = sorted(os.listdir(place), key=lambda name: name == workspace.MARKER)
    record = {name: _identity(place / name) for name in names}
    with storage_errors("make the workspace"):
        # Durable before the first rename, so that the next `init` can undo a killed one.
        (place / _RECORD).write_bytes(canonical.encode(record))
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_filesystem(fd)
        finally:
            os.close(fd)
        try:
            for name in names:
                if os.path.lexists(root / name):
                    raise FileExistsError(errno.EEXIST, "created by another program meanwhile")
                os.rename(place / name, root / name)
        except BaseException:
            _move_back(place, root)
            raise


def _settle_unfinished(root: Path) -> None:
    """Undo what killed runs of `init` left here; other files are not touched."""
    if not os.path.isdir(root):  # Path.is_dir raises for a name too long
        return
    with storage_errors(f"look at {visible(str(root))}"):
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in abandoned(fd, f"{_BUILDING}-"):
                if not os.path.lexists(root / workspace.MARKER):  # otherwise it was complete
                    _move_back(root / name, root)
                shutil.rmtree(name, dir_fd=fd)
        finally:
            os.close(fd)


def _move_back(place: Path, root: Path) -> None:
    try:
        record = canonical.decode((place / _RECORD).read_bytes())
        if not isinstance(record, dict):
            return
    except (FileNotFoundError, ValueError):  # killed before anything was moved
        return
    for name, known in record.items():
        # An inode number can be reused; with the time of its last change it is unique.
        if name in OURS and os.path.lexists(root / name) and _identity(root / name) == known:
            os.rename(root / name, place / name)


def _identity(path: Path) -> str:
    found = path.lstat()
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}"


def _write_policy(directory: Path, files: dict[str, bytes]) -> None:
    try:
        directory.mkdir(mode=0o700)
        for name, data in files.items():
            (directory / name).write_bytes(data)
    except OSError as exc:
        raise StorageFailed(f"cannot write the policy: {os.strerror(exc.errno or 0)}") from exc


STEP: Final = "upgrade.step"
DONE: Final = "upgrade.done"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Arguments of a step; the workspace is locked and earlier crashes are settled."""

    root: Path
    journal: Journal


@dataclass(frozen=True, slots=True)
class Step:
    """One idempotent change: running it twice has the same result as running it once."""

    name: str
    run: Callable[[Upgrade], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """The steps to the next version; `prepare` makes directories that opening requires."""

    to: int
    summary: str
    steps: tuple[Step, ...]
    prepare: Callable[[Path], None] | None = None


@dataclass(frozen=True, slots=True)
class Upgraded:
    """Versions before and after, and the steps that ran; empty if there was nothing to do."""

    before: int
    after: int
    steps: tuple[str, ...]


Migrations = Mapping[int, Migration]  # by the version they start from

# There is one version so far.  A migration stays here for as long as its start is supported.
MIGRATIONS: Final[Migrations] = {}


def upgrade(
    root: Path,
    migrations: Migrations = MIGRATIONS,
    *,
    clock: Callable[[], int] = unix_now,
    progress: Callable[[str], None] | None = None,
) -> Upgraded:
    """Bring the workspace up to date; raise `VersionUnsupported` for one we do not know."""
    newest = max([VERSION, *(migration.to for migration in migrations.values())])
    with _only_one(root):
        marker = read_marker(root, newest=newest)
        _settle(root, marker, migrations, clock)
        before, steps = marker.version, list[str]()
        while marker.version < newest:
            migration = _next(marker, migrations)
            if progress is not None:
                progress(f"version {marker.version} to {migration.to}: {migration.summary}")
            steps += _migrate(root, marker, migration, clock)
            marker = read_marker(root, newest=newest)
    return Upgraded(before, marker.version, tuple(steps))


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        raise WorkspaceUnusable(f"cannot look at {root}") from exc
    try:
        with held(fd):
            yield
    finally:
        os.close(fd)


def _next(marker: Marker, migrations: Migrations) -> Migration:
    found = migrations.get(marker.version)
    if found is None:
        hint = "upgrade with an older threegate first"
        raise VersionUnsupported(
            f"cannot upgrade from workspace version {marker.version}", hint=hint
        )
    assert found.to == marker.version + 1, "versions are not skipped"
    return found


def _settle(root: Path, marker: Marker, migrations: Migrations, clock: Callable[[], int]) -> None:
    """Record the end of a migration whose marker was written before a crash."""
    finished = [item for item in migrations.items() if item[1].to == marker.version]
    if finished:
        ((start, migration),) = finished
        with _locked(root, clock) as journal:
            done = _recorded(journal.log, start)
            if done and DONE not in done:
                _record_end(journal.log, start, migration)


def _migrate(
    root: Path, marker: Marker, migration: Migration, clock: Callable[[], int]
) -> list[str]:
    if migration.prepare is not None:
        migration.prepare(root)
    ran = []
    with _locked(root, clock) as journal:
        done = _recorded(journal.log, marker.version)
        for step in migration.steps:
            if step.name not in done:
                _run(step, Upgrade(root, journal), marker.version, migration)
                ran.append(step.name)
        write_marker(root, Marker(marker.id, marker.created, migration.to))
        _record_end(journal.log, marker.version, migration)
    return ran


def _run(step: Step, context: Upgrade, start: int, migration: Migration) -> None:
    data = {"from": start, "step": step.name, "to": migration.to}
    context.journal.log.append([(STEP, {**data, "state": "started"})])
    step.run(context)
    context.journal.log.append([(STEP, {**data, "state": "done"})])


def _record_end(log: AuditLog, start: int, migration: Migration) -> None:
    log.append([(DONE, {"from": start, "to": migration.to})])


def _recorded(log: AuditLog, start: int) -> set[str]:
    """Return the completed steps of the migration from `start`, and `DONE` if it ended."""
    done: set[str] = set()
    for entry in log.entries():
        if entry.kind not in (STEP, DONE) or entry.data.get("from") != start:
            continue
        if entry.kind == DONE:
            done.add(DONE)
        elif entry.data.get("state") == "done":
            done.add(str(entry.data.get("step")))
    return done


@contextmanager
def _locked(root: Path, clock: Callable[[], int]) -> Iterator[Journal]:
    store = Store.open(root, clock=clock)
    try:
        with store.locked() as journal:
            yield journal
    finally:
        store.close()
