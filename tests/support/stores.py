"""Stores to attack: real directories, a real log, a clock that stands still."""

import os
from collections.abc import Callable
from pathlib import Path

from threegate.artifacts.ids import sha256_hex
from threegate.audit.verify import verify_log
from threegate.handoff import states
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold, Finding, verify_files

NOW = "2026-11-15T12:00:00Z"
UNIX_NOW = 1_794_744_000


def clock() -> int:
    return UNIX_NOW


def make_store(root: Path) -> None:
    """Make an empty store at `root`."""
    root.mkdir(mode=0o700, parents=True)
    Store.create(root, workspace="0" * 32, clock=clock)


def adopt(root: Path, action: Callable[[Store], None]) -> None:
    """Run an action in a process of its own, so that its claims are dead afterwards."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action(Store.open(root, clock=clock))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the preparation failed"


def files_of(root: Path) -> frozenset[str]:
    """Return every file of the store with its directory and digest; leases without."""
    return frozenset(
        f"{directory}/{name} {_digest(root / directory / name)}"
        for directory in states.NAMES
        for name in os.listdir(root / directory)
    )


def _digest(path: Path) -> str:
    return "" if path.parent.name == "leases" else sha256_hex(path.read_bytes())


def findings(root: Path) -> list[Finding]:
    """Return every difference between log and disk; the log itself must verify."""
    fold = FileFold()
    report = verify_log(root / AUDIT, visit=fold.feed)
    assert report.problem is None, report.problem
    store = Store.open(root, clock=clock)
    try:
        return list(verify_files(store.directories, fold))
    finally:
        store.close()


def audited(root: Path) -> frozenset[str]:
    """Open the store, which settles what a crash left; check everything; return its files."""
    store = Store.open(root, clock=clock)
    with store.locked():
        pass
    store.close()
    assert findings(root) == []
    return files_of(root)
