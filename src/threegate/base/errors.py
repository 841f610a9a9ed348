"""Every error ThreeGate raises: one family, a stable code, an exit code, a hint.

The class says who must act: the sender of an artifact, the author of a rule, the
operator of the machine.  Only the code crosses a gate; the reading side looks the
text up on its own side.  Messages are one line of our own words; foreign text in
them goes through `threegate.base.text.quote` first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

EX_INTERRUPTED = 130  # as a shell shows a program that was interrupted
EX_TAMPERED = 76  # sysexits calls it EX_PROTOCOL: the other side broke the rules


class ThreeGateError(Exception):
    """Base of the family; never raised itself."""

    code: str = "TG-BUG-001"
    exit_code: ClassVar[int] = os.EX_SOFTWARE
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else type(self).code
        self.hint = hint if hint is not None else self.default_hint


class UsageError(ThreeGateError):
    """The command line asks for something that does not exist."""

    code, exit_code = "TG-USE-001", 2


class ArtifactRejected(ThreeGateError):
    """The sender must change the artifact; the code names the rule it broke."""

    code, exit_code = "TG-ART-001", os.EX_DATAERR  # 65


class GateUnavailable(ThreeGateError):
    """The operator must repair the machine: a gate, a sandbox or a tool is missing."""

    code, exit_code = "TG-GATE-001", os.EX_UNAVAILABLE  # 69


class ProtocolBroken(GateUnavailable):
    """The other side of a gate sent something that is not a message of the protocol."""

    code = "TG-PRO-001"
    default_hint = "nothing of it was used; `threegate doctor` tests the sandboxes on this machine"


class WorkspaceUnusable(GateUnavailable):
    """The workspace cannot be used from here: not there, not ours, or on a network disk."""

    code = "TG-WS-001"


class WorkspaceBusy(GateUnavailable):
    """Another process held the workspace lock for longer than a transition takes."""

    code = "TG-WS-002"
    default_hint = "another threegate command is running in this workspace; try again"


class StorageFailed(ThreeGateError):
    """Disk or log could not be written: nothing was done."""

    code, exit_code = "TG-DSK-001", os.EX_IOERR  # 74


@contextmanager
def disk_errors(act: str) -> Iterator[None]:
    """Say in our words what the disk would not do."""
    try:
        yield
    except OSError as exc:
        raise StorageFailed(f"cannot {act}: {os.strerror(exc.errno or 0)}") from exc


class WorkspaceReadOnly(StorageFailed):
    """The workspace is on a read-only file system and the command would change it."""

    code = "TG-DSK-003"
    default_hint = "copy it with `cp -a`; `audit verify`, lists, `show` and `report` work here"


class QuotaExceeded(StorageFailed):
    """A quota or the disk has no room for what the act would leave behind."""

    code = "TG-DSK-002"


class AuditUnavailable(StorageFailed):
    """The audit log cannot be written, so nothing may happen."""

    code = "TG-AUD-001"


class WaitingForHuman(ThreeGateError):
    """Nothing is wrong; a human has to decide first."""

    code, exit_code = "TG-ASK-001", os.EX_TEMPFAIL  # 75


class HandoffTampered(ThreeGateError):
    """A file in the workspace is not what the host wrote."""

    code, exit_code = "TG-HND-001", EX_TAMPERED
    default_hint = "`threegate audit verify` lists every difference; nothing was changed"


class AuditTampered(ThreeGateError):
    """The audit log is not what the host wrote."""

    code, exit_code = "TG-AUD-002", EX_TAMPERED
    default_hint = "`threegate audit verify` names the first broken entry; nothing was changed"


class PolicyDenied(ThreeGateError):
    """A rule, or the absence of one, says no."""

    code, exit_code = "TG-POL-001", os.EX_NOPERM  # 77


class SignatureRefused(PolicyDenied):
    """A signature is missing, wrong, or by somebody who may not sign this."""

    code = "TG-KEY-001"


class ClockRefused(PolicyDenied):
    """The clock is behind the audit log, or far ahead of it, so nothing may be dated by it."""

    code = "TG-CLK-001"
    default_hint = "set the clock; if it is right and the log is not, `threegate audit clock`"


class PolicyInvalid(PolicyDenied):
    """The policy cannot be read, so it denies everything."""

    code, exit_code = "TG-POL-002", os.EX_CONFIG  # 78
    default_hint = "`threegate policy check` shows file and line"


class VersionUnsupported(PolicyInvalid):
    """A format newer than this program: an older one must not guess."""

    code = "TG-VER-001"
    default_hint = "install a newer threegate; this one changed nothing"
