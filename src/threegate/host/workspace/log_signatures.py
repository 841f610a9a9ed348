"""The operator's signatures on the log: checkpoints of its content, corrections of its clock.

A checkpoint (`audit/checkpoints/`) protects against an attacker who can write the workspace only if
a copy is kept elsewhere: `export_checkpoint` writes one with everything that `ssh-keygen` needs to
check it without our code.

A clock entry repairs a log whose last entries came from a wrong clock.  One command under a clock
that is years ahead leaves entries in the future, and until then nothing can be signed, because a
clock behind the log could revive what has expired.  An entry of kind `clock` holds the operator's
signature over the right time and over the entry before it, and the log continues from that time.
The same entry confirms a clock that is far ahead of the last entry because the workspace was not
used for a while.

SECURITY
    Reads checkpoint files that may have been changed, or copied back from outside.  Each is
    compared byte for byte with the root of a log of that size.
    The author of a clock entry can set the time back.  So the key is judged at the later of the two
    times: a key that has expired by the log cannot claim that it has not.  A revoked key signs
    nothing, at any time.  When the time goes back, every unspent approval ends first.  If
    this module is wrong, an expired key or approval counts again.
"""

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.audit.entry import Entry, unix_of
from threegate.base import canonical
from threegate.base.errors import AuditTampered, SignatureRefused, StorageFailed, UsageError
from threegate.base.limits import MAX_SIGNATURE_BYTES
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import revoke_all
from threegate.handoff.journal import Put
from threegate.handoff.states import CHECKPOINTS
from threegate.host.atomic_file import sync_directory, write_durably
from threegate.host.keys.signatures import Signer
from threegate.keys import sshsig
from threegate.keys.signers import Signers, emit
from threegate.keys.sshsig import SignedBytes

if TYPE_CHECKING:  # that module imports this one to check clock entries
    from threegate.host.workspace.workspace import Workspace


CHECKPOINT_NAMESPACE: Final = "threegate-checkpoint"
_NAME: Final = re.compile(r"checkpoint-(0|[1-9][0-9]{0,15})\.txt\Z")
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint and its signature, in the workspace or elsewhere."""

    name: str
    text: bytes
    signature: bytes | None

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the parsed checkpoint; raises `ArtifactRejected`."""
        return parse_checkpoint(Untrusted(self.text))


def name_of(size: int) -> str:
    """Return the file name of the checkpoint at `size` entries."""
    return f"checkpoint-{size}.txt"


def make_checkpoint(ws: "Workspace", signer: Signer) -> KeptCheckpoint:
    """Sign the present state of the log, record the checkpoint and store it."""
    ws.refuse_wrong_clock()
    with ws.store.locked() as journal:
        checkpoint = journal.log.checkpoint()
    text = emit_checkpoint(checkpoint)
    at = ws.clock()
    armored = signer.sign(text, CHECKPOINT_NAMESPACE)  # may wait for a human: not under the lock
    signed = check_checkpoint(text, armored, ws.bundle.signers, at=at)
    name = name_of(checkpoint.size)
    acts = [Put(CHECKPOINTS, f"{name}.sig", armored), Put(CHECKPOINTS, name, text)]
    with ws.store.locked() as journal:
        if os.path.lexists(ws.root / CHECKPOINTS / name):
            raise UsageError("another command made this checkpoint meanwhile")
        journal.run("checkpoint", acts, {"signer": signed.fingerprint})
    return KeptCheckpoint(name, text, armored)


def check_checkpoint(
    text: bytes, armored: bytes, signers: Signers, *, at: int, past: bool = False
) -> SignedBytes:
    """Return who signed a checkpoint, or raise `SignatureRefused`."""
    return sshsig.verify(
        text, Untrusted(armored), namespace=CHECKPOINT_NAMESPACE, signers=signers, at=at, past=past
    )


def prepare_export(ws: "Workspace", target: Path) -> Path:
    """Create the directory for an export and return it: called before anything is signed."""
    resolved = target.resolve()
    if resolved == ws.root or ws.root in resolved.parents:
        hint = "choose a directory on another disk or machine"
        raise UsageError("a checkpoint inside the workspace proves nothing", hint=hint)
    try:
        resolved.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(f"cannot make {visible(str(resolved))}") from exc
    return resolved


def export_checkpoint(ws: "Workspace", kept: KeptCheckpoint, target: Path) -> list[Path]:
    """Write a checkpoint and how to check it into a directory outside the workspace."""
    resolved = prepare_export(ws, target)
    stem = kept.name.removesuffix(".txt")
    principal = _principal(kept, ws.bundle.signers)
    files = {
        kept.name: kept.text,
        f"{kept.name}.sig": kept.signature or b"",
        f"{stem}.signers": emit(ws.bundle.signers),
        f"{stem}.README": _readme(stem, principal).encode("ascii"),
    }
    for name, data in files.items():
        _write(resolved / name, data)
    return [resolved / name for name in files]


def stored_checkpoints(root: Path) -> Iterator[KeptCheckpoint]:
    """Yield the checkpoints kept in a workspace, smallest first."""
    directory = root / CHECKPOINTS
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    sizes = sorted(int(match[1]) for match in map(_NAME.match, names) if match)
    for size in sizes:
        yield read_kept(directory / name_of(size))


def read_kept(path: Path, signature: Path | None = None) -> KeptCheckpoint:
    """Return a checkpoint from a file and its signature from another, or from `PATH.sig`."""
    beside = path.with_name(f"{path.name}.sig")
    text = _read(path)
    if signature is None and not os.path.lexists(beside):
        return KeptCheckpoint(path.name, text, None)
    return KeptCheckpoint(path.name, text, _read(signature or beside))


def _principal(kept: KeptCheckpoint, signers: Signers) -> str:
    if kept.signature is None:
        raise SignatureRefused("the checkpoint is not signed")
    entry = signers.find(sshsig.parse_signature(Untrusted(kept.signature)).key)
    if entry is None:
        raise SignatureRefused("the checkpoint is signed by an unknown key", code="TG-KEY-003")
    return entry.principal


def _readme(stem: str, principal: str) -> str:
    return f"""\
What the audit log of this workspace looked like: its id, its number of entries, its root.
Anybody with OpenSSH can check who signed it, without ThreeGate:

    ssh-keygen -Y verify -f {stem}.signers -I {principal} -n {CHECKPOINT_NAMESPACE} \\
        -s {stem}.txt.sig < {stem}.txt

Whether the log still has this history:

    threegate audit verify --checkpoint {stem}.txt --signature {stem}.txt.sig
"""


def _read(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            # Checkpoints and signatures are never longer; the parser refuses a longer file.
            return file.read(MAX_SIGNATURE_BYTES + 1)
    except OSError as exc:
        why = (exc.strerror or "unreadable").lower()
        raise UsageError(f"cannot read {visible(str(path))}: {why}") from exc


def _write(path: Path, data: bytes) -> None:
    """Write a new file, complete or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            write_durably(temporary, data, mode=0o444)
            os.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as exc:
        why = (exc.strerror or "no room").lower()
        raise StorageFailed(f"cannot write {visible(str(path))}: {why}") from exc


def size_in(name: str) -> int | None:
    """Return the number of entries in the name of a checkpoint file, if it is one."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


CLOCK_NAMESPACE: Final = "threegate-clock"
CLOCK_FORMAT: Final = "clock/1"
CLOCK_UNSIGNED: Final = "TG-CLK-003"


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """How far the clock and the log are apart."""

    last: str  # time of the last entry
    now: str
    later: int  # entries with a later time than now

    @property
    def is_back(self) -> bool:
        """Tell whether the log would go back."""
        return self.now < self.last


def clock_difference(ws: "Workspace") -> ClockDifference | None:
    """Return how clock and log differ; None if no correction is needed."""
    with ws.store.locked() as journal:
        log, now = journal.log, ws.now()
        if not ws.is_clock_wrong():
            return None
        later = sum(entry.time > now for entry in log.entries())
        return ClockDifference(log.head.time, now, later)


def set_clock(ws: "Workspace", signer: Signer) -> Entry:
    """Sign that the clock is right and let the log go on from its time.

    Raises `SignatureRefused` unless a signer of the applied policy signs.
    """
    now = ws.now()
    if now < ws.store.journal.log.head.time:
        # Before the signature: approvals that have expired by the log must not become valid again.
        revoke_all(ws.store)
    with ws.store.locked() as journal:
        head = journal.log.head
    said = _ClockStatement(ws.marker.id, head.seq + 1, head.digest, head.time, now)
    armored = signer.sign(said.message, CLOCK_NAMESPACE)
    signed = said.check(armored, ws.bundle.signers)
    data = {
        "before": head.time,
        "signature": armored.decode("ascii"),
        "signer": signed.fingerprint,
    }
    with ws.store.locked() as journal:
        if journal.log.head != head:
            raise UsageError("another command wrote to the log meanwhile; run the command again")
        return journal.set_clock(data, time=now)


def check_clock_entry(entry: Entry, *, workspace: str, signers: Signers) -> None:
    """Raise `AuditTampered` unless a signer signed a clock entry."""
    # The chain has compared `before` with the time of the entry before.
    said = _ClockStatement(
        workspace, entry.seq, entry.prev, str(entry.data.get("before")), entry.time
    )
    try:
        if set(entry.data) != {"before", "signature", "signer"}:
            raise SignatureRefused("it is not an entry that the host writes")
        armored = str(entry.data["signature"]).encode("ascii", "replace")
        said.check(armored, signers, past=True)
    except SignatureRefused as exc:
        detail = f"audit log entry {entry.seq} sets the clock without a signature that counts"
        raise AuditTampered(f"{detail}: {exc.message}", code=CLOCK_UNSIGNED) from exc


@dataclass(frozen=True, slots=True)
class _ClockStatement:
    """The signed statement: the time, and the position in the log of one workspace."""

    workspace: str
    entry: int
    prev: str
    before: str
    now: str

    @property
    def message(self) -> bytes:
        return canonical.encode({"format": CLOCK_FORMAT, **asdict(self)})

    def check(self, armored: bytes, signers: Signers, *, past: bool = False) -> SignedBytes:
        return sshsig.verify(
            self.message,
            Untrusted(armored),
            namespace=CLOCK_NAMESPACE,
            signers=signers,
            # Otherwise an expired key could set the time back and become valid again.
            at=unix_of(max(self.before, self.now)),
            past=past,
        )
