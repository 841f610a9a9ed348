"""The operator signs what time it is: the way back from entries made by a wrong clock.

One command by a clock that is years ahead leaves entries in the future.  Until then nothing
can be signed, because a clock behind the log could bring back what has expired.  A log entry
of kind `clock` holds the operator's signature over the right time and over the entry before
it.  The log goes on from that time.  The same entry confirms a clock that is far ahead of the
last entry because nobody used the workspace for a while.

SECURITY
    A maker of such an entry can set the time back.  So the key is judged at the later
    of the two times: one that has expired by the log cannot say that it has not.  A revoked key
    signs nothing, whatever the time.  When the time goes back, every unspent approval ends
    first.  If this module is wrong, an expired key or approval counts again.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from threegate.audit.entry import Entry, unix_of
from threegate.base import canonical
from threegate.base.errors import AuditTampered, SignatureRefused, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import revoke_all
from threegate.host.keys.signatures import Signer
from threegate.keys import sshsig
from threegate.keys.signers import Signers
from threegate.keys.sshsig import SignedBytes

if TYPE_CHECKING:  # which asks here whether the clock was set by somebody who may
    from threegate.host.workspace.workspace import Workspace

NAMESPACE: Final = "threegate-clock"
FORMAT: Final = "clock/1"
UNSIGNED: Final = "TG-CLK-003"


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the clock and the log are apart."""

    last: str  # time of the last entry
    now: str
    later: int  # entries with a later time than now

    @property
    def is_back(self) -> bool:
        """Tell whether the log would go back."""
        return self.now < self.last


def difference(ws: "Workspace") -> Difference | None:
    """Return how clock and log differ; None if nothing needs the operator's word."""
    with ws.store.locked() as journal:
        log, now = journal.log, ws.now()
        if not ws.is_clock_wrong():
            return None
        later = sum(entry.time > now for entry in log.entries())
        return Difference(log.head.time, now, later)


def set_clock(ws: "Workspace", signer: Signer) -> Entry:
    """Sign that the clock is right and let the log go on from its time.

    Raises `SignatureRefused` unless a signer of the applied policy signs.
    """
    now = ws.now()
    if now < ws.store.journal.log.head.time:
        # Before the signature: what has expired by the log must not come back with the time.
        revoke_all(ws.store)
    with ws.store.locked() as journal:
        head = journal.log.head
    said = _Said(ws.marker.id, head.seq + 1, head.digest, head.time, now)
    armored = signer.sign(said.message, NAMESPACE)
    signed = said.check(armored, ws.bundle.signers)
    data = {
        "before": head.time,
        "signature": armored.decode("ascii"),
        "signer": signed.fingerprint,
    }
    with ws.store.locked() as journal:
        if journal.log.head != head:
            raise UsageError("another command wrote to the log meanwhile; give the command again")
        return journal.set_clock(data, time=now)


def check_entry(entry: Entry, *, workspace: str, signers: Signers) -> None:
    """Raise `AuditTampered` unless a signer signed a clock entry."""
    # The chain has compared `before` with the time of the entry before.
    said = _Said(workspace, entry.seq, entry.prev, str(entry.data.get("before")), entry.time)
    try:
        if set(entry.data) != {"before", "signature", "signer"}:
            raise SignatureRefused("it is not one the host writes")
        armored = str(entry.data["signature"]).encode("ascii", "replace")
        said.check(armored, signers, past=True)
    except SignatureRefused as exc:
        detail = f"audit log entry {entry.seq} sets the clock without a signature that counts"
        raise AuditTampered(f"{detail}: {exc.message}", code=UNSIGNED) from exc


@dataclass(frozen=True, slots=True)
class _Said:
    """What is signed: the time, and the place in the log of one workspace where it is said."""

    workspace: str
    entry: int
    prev: str
    before: str
    now: str

    @property
    def message(self) -> bytes:
        return canonical.encode({"format": FORMAT, **asdict(self)})

    def check(self, armored: bytes, signers: Signers, *, past: bool = False) -> SignedBytes:
        return sshsig.verify(
            self.message,
            Untrusted(armored),
            namespace=NAMESPACE,
            signers=signers,
            # Else a key that has expired could say that it is earlier, and count again.
            at=unix_of(max(self.before, self.now)),
            past=past,
        )
