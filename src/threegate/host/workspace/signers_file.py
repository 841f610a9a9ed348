"""The file `allowed_signers` of a workspace: replaced only by the list that is in force.

SECURITY
    If a crash came between a change and its file, the old file would read as an edit by the
    operator, and applying it would undo a revocation.  So the change is completed first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from threegate.base.errors import StorageFailed, WorkspaceBusy
from threegate.handoff.disk import WAIT_SECONDS, held, storage_errors
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import POLICY, Workspace
from threegate.keys.public import MAX_SIGNERS_BYTES
from threegate.keys.signers import emit
from threegate.policy.sections import SIGNERS_FILE


def settle_if_idle(ws: Workspace) -> None:
    """Complete a change of signers that was put in force before its file could be renamed.

    Else the file would show the list before the change, and applying it, as an edit of
    the operator's, would undo a revocation.
    """
    if ws.read_only:
        return
    try:
        with only_one(ws.root, wait_seconds=0):
            settle(ws)
    except WorkspaceBusy:
        return  # a change is under way


@contextmanager
def only_one(root: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Keep other changes of signers out; not the workspace, for a human has to sign."""
    with storage_errors(f"open {POLICY}"):
        fd = os.open(root / POLICY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with held(fd, wait_seconds=wait_seconds):
            yield
    finally:
        os.close(fd)


def settle(ws: Workspace) -> None:
    """Publish the pending list if it is the one in force, else remove it."""
    pending = pending_file(ws.root)
    data = _read_pending(pending)
    if not data:
        return
    with ws.store.locked():
        # Not `ws.bundle`: the change may have come after this workspace was opened.
        in_force = emit(applied.read_current(ws.store).signers)
    if data == in_force:
        publish(pending)
    else:
        pending.unlink(missing_ok=True)  # the change it was written for did not happen


def _read_pending(path: Path) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            return file.read(MAX_SIGNERS_BYTES + 1)  # one byte more is no list of signers
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise StorageFailed(f"cannot read {path.name} in {POLICY}") from exc


def pending_file(root: Path) -> Path:
    """Return where the next list is written before it is in force."""
    return root / POLICY / f".{SIGNERS_FILE}.new"


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


def publish(pending: Path) -> None:
    """Replace the operator's file by the pending one."""
    try:
        pending.replace(pending.with_name(SIGNERS_FILE))
        fd = os.open(pending.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as exc:
        hint = "`threegate policy show --source allowed_signers` prints what is in force"
        raise StorageFailed(
            "the change is in force, but the file could not be written", hint=hint
        ) from exc
