"""Changes of policy and signers: always signed by a current signer.

Both take the same path: compile the files, compare them with the applied bundle, sign the new
bundle with a key that the *current* bundle allows, record it, and store it by digest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from threegate.base.errors import (
    PolicyInvalid,
    SignatureRefused,
    ThreeGateError,
    UsageError,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff.disk import storage_errors
from threegate.host.atomic_file import write_durably
from threegate.host.gate_profiles import program_gates
from threegate.host.keys.signatures import Signer
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig
from threegate.keys.signers import Signers, emit
from threegate.policy.bundle import Bundle, Compiled, diff
from threegate.policy.compiler import compile_policy, load_policy
from threegate.policy.nodes import plain
from threegate.policy.sections import FILES, GATES, SIGNERS_FILE

POLICY: Final = applied.POLICY


def edited(ws: Workspace) -> Compiled:
    """Return what the files in `policy/` and the gates of this program say now."""
    applied.settle_if_idle(ws.store)
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
        # The signers in force judge the change: the new files cannot add their own signer.
        signers=ws.bundle.signers,
        at=at,
    )
    detail = {"generation": bundle.generation, "signer": signed.fingerprint, **_widened(ws, bundle)}
    with ws.store.locked() as journal:
        # Signing may take minutes: another command may have applied a policy since.
        if applied.read_current(ws.store).digest != ws.bundle.digest:
            raise UsageError("the policy was changed by another command meanwhile; look again")
        journal.run(op, applied.acts_to_apply(bundle, armored, at=at), detail)
    return bundle


def _widened(ws: Workspace, bundle: Bundle) -> Mapping[str, list[str]]:
    widened = [change.path for change in diff(ws.bundle, bundle) if change.effect == "widens"]
    return {"widens": widened[:64]}


def change_signers(ws: Workspace, signers: Signers, signer: Signer, *, op: str) -> Bundle:
    """Put another list of signers in force, leaving every other rule as it is applied."""
    with applied.only_one(ws.root):
        return _change_signers(ws, signers, signer, op=op)


def _change_signers(ws: Workspace, signers: Signers, signer: Signer, *, op: str) -> Bundle:
    applied.settle(ws.store)
    files = _policy_files(ws.root / POLICY)
    if files[SIGNERS_FILE] != emit(ws.bundle.signers):
        hint = "apply it first with `threegate policy apply`"
        raise UsageError("allowed_signers was edited and not applied", hint=hint)
    # The signed profiles stay: a key must be revocable before a new version is reviewed.
    signed = plain(ws.bundle.sections[GATES])
    compiled = compile_policy({**files, SIGNERS_FILE: emit(signers)}, gates=signed)
    others = [
        change for change in diff(ws.bundle, compiled) if not change.path.startswith("signers")
    ]
    if others:
        hint = "`threegate policy diff` shows it; apply it first"
        raise UsageError("the policy was edited and not applied", hint=hint)
    # Written before the change: after a crash `settle` publishes or removes it.
    pending = applied.pending_file(ws.root)
    with storage_errors(f"write {SIGNERS_FILE}"):
        write_durably(pending, emit(signers))
    try:
        bundle = apply_policy(ws, compiled, signer, op=op)
    except ThreeGateError:
        pending.unlink(missing_ok=True)
        raise
    applied.publish(pending)
    return bundle


def _policy_files(directory: Path) -> dict[str, bytes]:
    # Refuses links, files of other users and anything that does not compile.
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
