"""Checkpoints of the log: made, signed by the operator, kept in `audit/checkpoints/`.

A checkpoint helps against whoever can write the workspace only if a copy is elsewhere:
`export` writes one with everything `ssh-keygen` needs to check it without our code.

SECURITY
    Reads checkpoint files that may have been changed, or brought back from outside.  Each
    is compared byte for byte with what a log of that size has as its root.
"""

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.base.errors import SignatureRefused, StorageFailed, UsageError
from threegate.base.limits import MAX_SIGNATURE_BYTES
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.handoff.journal import Put
from threegate.handoff.states import CHECKPOINTS
from threegate.host.keys.signatures import Signer
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig
from threegate.keys.signers import Signers, emit
from threegate.keys.sshsig import SignedBytes

NAMESPACE: Final = "threegate-checkpoint"
_NAME: Final = re.compile(r"checkpoint-(0|[1-9][0-9]{0,15})\.txt\Z")
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint and its signature, as they lie somewhere."""

    name: str
    text: bytes
    signature: bytes | None

    @property
    def checkpoint(self) -> Checkpoint:
        """Return what it says; raises `ArtifactRejected`."""
        return parse_checkpoint(Untrusted(self.text))


def name_of(size: int) -> str:
    """Return the file name of the checkpoint at `size` entries."""
    return f"checkpoint-{size}.txt"


def make_checkpoint(ws: Workspace, signer: Signer) -> Kept:
    """Sign what the log looks like now, record that and keep it."""
    ws.refuse_wrong_clock()
    with ws.store.locked() as journal:
        checkpoint = journal.log.checkpoint()
    text = emit_checkpoint(checkpoint)
    at = ws.clock()
    armored = signer.sign(text, NAMESPACE)  # may wait for a human: not under the lock
    signed = check_signature(text, armored, ws.bundle.signers, at=at)
    name = name_of(checkpoint.size)
    acts = [Put(CHECKPOINTS, f"{name}.sig", armored), Put(CHECKPOINTS, name, text)]
    with ws.store.locked() as journal:
        if os.path.lexists(ws.root / CHECKPOINTS / name):
            raise UsageError("another command made this checkpoint meanwhile")
        journal.run("checkpoint", acts, {"signer": signed.fingerprint})
    return Kept(name, text, armored)


def check_signature(
    text: bytes, armored: bytes, signers: Signers, *, at: int, past: bool = False
) -> SignedBytes:
    """Return who signed a checkpoint, or raise `SignatureRefused`."""
    return sshsig.verify(
        text, Untrusted(armored), namespace=NAMESPACE, signers=signers, at=at, past=past
    )


def prepare_export(ws: Workspace, target: Path) -> Path:
    """Return the directory for an export, made if need be: before anybody signs anything."""
    resolved = target.resolve()
    if resolved == ws.root or ws.root in resolved.parents:
        hint = "choose a directory on another disk or machine"
        raise UsageError("a checkpoint inside the workspace proves nothing", hint=hint)
    try:
        resolved.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(f"cannot make {visible(str(resolved))}") from exc
    return resolved


def export(ws: Workspace, kept: Kept, target: Path) -> list[Path]:
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


def stored(root: Path) -> Iterator[Kept]:
    """Yield the checkpoints kept in a workspace, smallest first."""
    directory = root / CHECKPOINTS
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    sizes = sorted(int(match[1]) for match in map(_NAME.match, names) if match)
    for size in sizes:
        yield read_kept(directory / name_of(size))


def read_kept(path: Path, signature: Path | None = None) -> Kept:
    """Return a checkpoint from a file and its signature from another, or from `PATH.sig`."""
    beside = path.with_name(f"{path.name}.sig")
    text = _read(path)
    if signature is None and not os.path.lexists(beside):
        return Kept(path.name, text, None)
    return Kept(path.name, text, _read(signature or beside))


def _principal(kept: Kept, signers: Signers) -> str:
    if kept.signature is None:
        raise SignatureRefused("the checkpoint is not signed")
    entry = signers.find(sshsig.parse_signature(Untrusted(kept.signature)).key)
    if entry is None:
        raise SignatureRefused("the checkpoint is signed by nobody known", code="TG-KEY-003")
    return entry.principal


def _readme(stem: str, principal: str) -> str:
    return f"""\
What the audit log of this workspace looked like: its id, its number of entries, its root.
Anybody with OpenSSH can check who signed it, without ThreeGate:

    ssh-keygen -Y verify -f {stem}.signers -I {principal} -n {NAMESPACE} \\
        -s {stem}.txt.sig < {stem}.txt

Whether the log still has this history:

    threegate audit verify --checkpoint {stem}.txt --signature {stem}.txt.sig
"""


def _read(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            # No checkpoint and no signature is longer; what is longer is refused when parsed.
            return file.read(MAX_SIGNATURE_BYTES + 1)
    except OSError as exc:
        why = (exc.strerror or "unreadable").lower()
        raise UsageError(f"cannot read {visible(str(path))}: {why}") from exc


def _write(path: Path, data: bytes) -> None:
    """Write a new file that is there as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            _write_durably(temporary, data)
            os.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as exc:
        why = (exc.strerror or "no room").lower()
        raise StorageFailed(f"cannot write {visible(str(path))}: {why}") from exc


def _write_durably(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)  # left by a crash
    fd = os.open(path, _NEW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, 0o444)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def size_in(name: str) -> int | None:
    """Return the number of entries in the name of a checkpoint file, if it is one."""
    match = _NAME.match(name)
    return int(match[1]) if match else None
