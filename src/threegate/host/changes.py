"""Changing what is in force: policy and signers, always signed by a current signer.

One way in for both: compile the files, compare with the applied bundle, sign the new
bundle with a key the *current* bundle allows, record it, keep it by digest.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threegate.errors import (
    PolicyInvalid,
    SignatureRefused,
    StorageFailed,
    ThreeGateError,
    UsageError,
    WorkspaceBusy,
)
from threegate.handoff.disk import storage_errors
from threegate.handoff.lock import WAIT_SECONDS, held
from threegate.host import applied, workspace
from threegate.host.gates import program_gates
from threegate.host.signing import Signer
from threegate.host.workspace import Workspace
from threegate.keys import sshsig
from threegate.keys.limits import MAX_SIGNERS_BYTES
from threegate.keys.signers import Signers, emit
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.compiler import compile_policy, load_policy
from threegate.policy.diff import diff
from threegate.policy.nodes import plain
from threegate.policy.sections import FILES, GATES, SIGNERS_FILE
from threegate.untrusted import Untrusted

POLICY: Final = workspace.POLICY


def edited(ws: Workspace) -> Compiled:
    """Return what the files in `policy/` and the gates of this program say now."""
    settle_signers_file(ws)
    return load_policy(ws.root / POLICY, gates=program_gates())


def apply_policy(ws: Workspace, compiled: Compiled, signer: Signer, *, op: str) -> Bundle:
    """Put `compiled` in force; raise `SignatureRefused` unless a current signer signs it."""
    ws.refuse_wrong_clock()
    bundle = compiled.bundle(generation=ws.bundle.generation + 1, previous=ws.bundle.digest)
    if not compiled.signers.entries:
        raise PolicyInvalid("allowed_signers is empty: nobody could ever approve anything")
    at = ws.clock()
    armored = signer.sign(bundle.bundle_bytes(), applied.NAMESPACE)
    signed = sshsig.verify(
        bundle.bundle_bytes(),
        Untrusted(armored),
        namespace=applied.NAMESPACE,
        signers=ws.bundle.signers,
        at=at,
    )
    detail = {"generation": bundle.generation, "signer": signed.fingerprint, **_widened(ws, bundle)}
    with ws.store.locked() as journal:
        if applied.read_current(ws.store).digest != ws.bundle.digest:
            raise UsageError("the policy was changed by another command meanwhile; look again")
        journal.run(op, applied.acts_to_apply(bundle, armored, at=at), detail)
    return bundle


def _widened(ws: Workspace, bundle: Bundle) -> Mapping[str, list[str]]:
    widened = [change.path for change in diff(ws.bundle, bundle) if change.effect == "widens"]
    return {"widens": widened[:64]}


def change_signers(ws: Workspace, signers: Signers, signer: Signer, *, op: str) -> Bundle:
    """Put another list of signers in force, leaving every other rule as it is applied."""
    with _only_one(ws.root):
        return _change_signers(ws, signers, signer, op=op)


def _change_signers(ws: Workspace, signers: Signers, signer: Signer, *, op: str) -> Bundle:
    _settle_file(ws)
    files = _policy_files(ws.root / POLICY)
    if files[SIGNERS_FILE] != emit(ws.bundle.signers):
        hint = "apply it first with `threegate policy apply`"
        raise UsageError("allowed_signers was edited and not applied", hint=hint)
    # The signed boxes stay: a key must be revocable before a new version is looked at.
    signed = plain(ws.bundle.sections[GATES])
    compiled = compile_policy({**files, SIGNERS_FILE: emit(signers)}, gates=signed)
    others = [
        change for change in diff(ws.bundle, compiled) if not change.path.startswith("signers")
    ]
    if others:
        hint = "`threegate policy diff` shows it; apply it first"
        raise UsageError("the policy was edited and not applied", hint=hint)
    pending = _pending_file(ws.root)
    with storage_errors(f"write {SIGNERS_FILE}"):
        _write_durably(pending, emit(signers))
    try:
        bundle = apply_policy(ws, compiled, signer, op=op)
    except ThreeGateError:
        pending.unlink(missing_ok=True)
        raise
    _publish(pending)
    return bundle


def settle_signers_file(ws: Workspace) -> None:
    """Complete a change of signers that was put in force before its file could be renamed.

    Else the file would show the list before the change, and applying it, as an edit of
    the operator's, would undo a revocation.
    """
    if ws.read_only:
        return
    try:
        with _only_one(ws.root, wait_seconds=0):
            _settle_file(ws)
    except WorkspaceBusy:
        return  # a change is under way


@contextmanager
def _only_one(root: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Keep other changes of signers out; not the workspace, for a human has to sign."""
    with storage_errors(f"open {POLICY}"):
        fd = os.open(root / POLICY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with held(fd, wait_seconds=wait_seconds):
            yield
    finally:
        os.close(fd)


def _settle_file(ws: Workspace) -> None:
    pending = _pending_file(ws.root)
    data = _read_pending(pending)
    if not data:
        return
    with ws.store.locked():
        # Not `ws.bundle`: the change may have come after this workspace was opened.
        in_force = emit(applied.read_current(ws.store).signers)
    if data == in_force:
        _publish(pending)
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


def _pending_file(root: Path) -> Path:
    return root / POLICY / f".{SIGNERS_FILE}.new"


def _write_durably(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


def _publish(pending: Path) -> None:
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


def _policy_files(directory: Path) -> dict[str, bytes]:
    # Refuses links, strangers and whatever does not compile.
    load_policy(directory, gates=program_gates())
    return {name: (directory / name).read_bytes() for name in FILES.values()}


def refuse_last_signer(signers: Signers, at: int) -> None:
    """Raise `SignatureRefused` if nobody could sign the next change."""
    for entry in signers.entries:
        try:
            entry.refuse(namespace=applied.NAMESPACE, at=at)
        except SignatureRefused:
            continue
        return
    raise SignatureRefused("nobody could sign the next change", hint="add another key first")
