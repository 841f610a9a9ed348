"""`threegate upgrade`: bring an older workspace to the version of this program, step by step.

A migration leads from one version to the next in named steps.  Each is announced in the
audit log before it runs and noted when it is done; run again after a crash, the done ones
are left out and the interrupted one is repeated, so a step must bear being run twice.  The
marker changes when all steps are done.  Stored artifacts are never rewritten.

The workspace is locked all the while: an older program must not write in between.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.audit.log import AuditLog
from threegate.base.errors import VersionUnsupported, WorkspaceUnusable
from threegate.handoff.disk import held
from threegate.handoff.journal import Journal
from threegate.handoff.store import Store
from threegate.host.settings import unix_now
from threegate.host.workspace.workspace import VERSION, Marker, read_marker, write_marker

STEP: Final = "upgrade.step"
DONE: Final = "upgrade.done"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What a step may use; the workspace is locked and every earlier crash is settled."""

    root: Path
    journal: Journal


@dataclass(frozen=True, slots=True)
class Step:
    """One change that can be repeated: run twice, it leaves what it leaves run once."""

    name: str
    run: Callable[[Upgrade], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """The way to the next version; `prepare` makes directories that opening asks for."""

    to: int
    summary: str
    steps: tuple[Step, ...]
    prepare: Callable[[Path], None] | None = None


@dataclass(frozen=True, slots=True)
class Upgraded:
    """From where to where, and which steps ran now; none if there was nothing to do."""

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
        hint = "use an older threegate to bring it half-way"
        raise VersionUnsupported(f"no way from workspace version {marker.version}", hint=hint)
    assert found.to == marker.version + 1, "versions are not skipped"
    return found


def _settle(root: Path, marker: Marker, migrations: Migrations, clock: Callable[[], int]) -> None:
    """Record the end of a migration that a crash kept from the log, but not from the marker."""
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
    """Return which steps of the migration from `start` are done, and `DONE` if all is."""
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
