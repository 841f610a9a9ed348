"""An approval for somebody else: three files that OpenSSH alone can check.

SECURITY
    Writes where the operator says, new files only.  What is exported is what was signed,
    byte for byte, with the signers that are in force.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import prefix_of, short
from threegate.base.errors import StorageFailed, UsageError
from threegate.base.text import visible
from threegate.host.workspace.places import refuse_absent
from threegate.host.workspace.workspace import Workspace
from threegate.keys.signers import emit
from threegate.policy.approvals import NAMESPACE

APPROVAL: Final = "approval.md"
SIGNATURE: Final = "approval.md.sig"
SIGNERS: Final = "allowed_signers"


@dataclass(frozen=True, slots=True)
class Exported:
    """Where an approval was written, and the command that checks it there."""

    directory: Path
    names: tuple[str, ...]
    command: str


def export(ws: Workspace, approval_id: str, directory: Path) -> Exported:
    """Write approval, signature and signers into `directory`, which is made if need be."""
    if prefix_of(approval_id) != "ap":
        hint = (
            "an approval's id starts with ap-; `threegate audit graph` of a request names its own"
        )
        raise UsageError(f"{short(approval_id)} is not an approval", hint=hint)
    refuse_absent(ws.store, approval_id)
    approval, place = ws.store.read(approval_id), ws.store.locate(approval_id)
    assert isinstance(approval, Approval)
    assert place is not None
    files = {
        APPROVAL: ws.store.read_bytes(approval_id),
        SIGNATURE: ws.store.read_file(place, f"{approval_id}.sig"),
        SIGNERS: emit(ws.bundle.signers),
    }
    _write(directory, files)
    return Exported(directory, tuple(files), verifying(approval.approver))


def verifying(approver: str) -> str:
    """Return the command that checks an exported approval, without this program."""
    who = f"-f {SIGNERS} -I {approver} -n {NAMESPACE}"
    return f"ssh-keygen -Y verify {who} -s {SIGNATURE} < {APPROVAL}"


def _write(directory: Path, files: dict[str, bytes]) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = [name for name in files if os.path.lexists(directory / name)]
        if taken:
            where = visible(str(directory / taken[0]))
            raise UsageError(f"{where} is already there", hint="name another directory")
        for name, data in files.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(directory / name, flags, 0o644), "wb") as file:
                file.write(data)
    except (OSError, ValueError) as exc:
        why = (getattr(exc, "strerror", None) or "no such name").lower()
        raise StorageFailed(f"cannot write to {visible(str(directory))}: {why}") from exc
