"""`threegate key list|add|rotate|revoke`: the signers of a workspace, changed by a current signer.

The operator chooses the first signer explicitly at `init`.  Every later change is a change of
policy: signed by a current signer, recorded, stored.  An earlier signature is judged by the window
that its key had at that time.

SECURITY
    Reads public keys that the operator names.  If this module is wrong, a stranger's key approves,
    or nobody can approve any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import SignatureRefused, UsageError
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import approvals_by_request
from threegate.host.keys.operator import Operator, remember
from threegate.host.keys.signatures import Signer
from threegate.host.policy.changes import change_signers, refuse_last_signer
from threegate.host.settings import Settings
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig
from threegate.keys.public import KEY_TYPES, MAX_PUBLIC_LINE_BYTES, PublicKey, parse_public_line
from threegate.keys.signers import ANY_NAMESPACE, AllowedSigner, Signers
from threegate.policy.bundle import Bundle

MIN_SHORT_CHARS: Final = 8
_PREFIX: Final = "SHA256:"
_PROBE: Final = b"threegate: proof that this key can sign, before another one is closed\n"


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One signer in a listing."""

    principal: str
    fingerprint: str
    key_type: str
    namespaces: tuple[str, ...]
    valid_after: int | None
    valid_before: int | None
    state: str  # current | not yet | expired | revoked


def list_keys(ws: Workspace) -> list[KeyLine]:
    """Return every signer in force, in file order, with what its key may do now."""
    return [_line(entry, ws.clock()) for entry in ws.bundle.signers.entries]


def _line(entry: AllowedSigner, now: int) -> KeyLine:
    return KeyLine(
        entry.principal,
        entry.key.fingerprint,
        entry.key.key_type,
        entry.namespaces,
        entry.valid_after,
        entry.valid_before,
        state_of(entry, now),
    )


def state_of(entry: AllowedSigner, now: int) -> str:
    """Return whether a signer may sign now: current, not yet, expired or revoked."""
    if entry.revoked:
        return "revoked"
    if entry.valid_before is not None and now > entry.valid_before:
        return "expired"
    if entry.valid_after is not None and now < entry.valid_after:
        return "not yet"
    return "current"


def read_public(text: str, *, cwd: Path) -> PublicKey:
    """Return the key in a public key line, or in the public key file that `text` names."""
    if text.startswith(tuple(f"{kind} " for kind in KEY_TYPES)):
        return parse_public_line(Untrusted(text.encode("utf-8", "surrogateescape")))
    path = cwd / Path(text).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PUBLIC_LINE_BYTES + 1)
    except (OSError, ValueError) as exc:
        hint = "give a line `ssh-ed25519 AAAA...`, or the path of a .pub file"
        raise UsageError(f"cannot read the key file {visible(str(path))}", hint=hint) from exc
    return parse_public_line(Untrusted(data))


def find_key(signers: Signers, text: str) -> AllowedSigner:
    """Return the signer with this fingerprint, or the one that starts so; raise `UsageError`."""
    wanted = text.removeprefix(_PREFIX)
    found = [
        entry
        for entry in signers.entries
        if entry.key.fingerprint.removeprefix(_PREFIX).startswith(wanted)
    ]
    if len(wanted) < MIN_SHORT_CHARS or not found:
        hint = "`threegate key list` shows all"
        raise UsageError(f"no signer has the key {quote(text)}", hint=hint)
    if len(found) > 1:
        raise UsageError(f"{quote(text)} is the start of {len(found)} keys; give more of it")
    return found[0]


def add(
    ws: Workspace,
    signer: Signer,
    *,
    principal: str,
    key: PublicKey,
    valid_after: int | None = None,
    valid_before: int | None = None,
    namespaces: Sequence[str] = ANY_NAMESPACE,
) -> Bundle:
    """Allow one more key; raise `UsageError` for one that is known, revoked or not."""
    refuse_listed(ws, key)
    entry = AllowedSigner(principal, key, tuple(namespaces), valid_after, valid_before)
    return _change(ws, ws.bundle.signers.add(entry), signer, op="key-add")


def refuse_listed(ws: Workspace, key: PublicKey) -> None:
    """Raise `UsageError` for a key that is known, revoked or not."""
    known = ws.bundle.signers.find(key)
    if known is not None:
        state = state_of(known, ws.clock())
        raise UsageError(f"key {key.fingerprint} is listed already ({state})")


def open_approvals(ws: Workspace) -> int:
    """Return how many approvals have uses left: each change of signers ends them all."""
    return sum(len(found) for found in approvals_by_request(ws.store).values())


def revoke(ws: Workspace, signer: Signer, *, fingerprint: str, since: int) -> Bundle:
    """Refuse every signature of a key made at `since` or later; an earlier end stays."""
    entry = find_key(ws.bundle.signers, fingerprint)
    return _change(ws, without_key(ws, entry, since), signer, op="key-revoke")


def without_key(ws: Workspace, entry: AllowedSigner, since: int) -> Signers:
    """Return the signers once a key is revoked; raise if nothing changes or nobody is left."""
    signers = ws.bundle.signers.revoke(entry.key.fingerprint, since=since)
    if signers == ws.bundle.signers:
        raise UsageError(f"key {entry.key.fingerprint} is revoked since then already")
    # Judged a second later, when the revocation already holds.
    refuse_last_signer(signers, max(since, ws.clock() + 1))
    return signers


def rotate(
    ws: Workspace,
    settings: Settings,
    signer: Signer,
    *,
    old: str,
    new: Operator,
    new_signer: Signer,
) -> Bundle:
    """Put `new` in the place of the key `old`, whose window ends now, in one signed change.

    The new key proves first that it can sign: a key nobody holds must not close the last
    one that somebody does.  From now on the new key is the one this user signs with.
    """
    now, signers = ws.clock(), ws.bundle.signers
    entry = find_key(signers, old)
    # Rotating an expired or revoked key would revive its rights.
    entry.refuse(namespace=_one_namespace(entry), at=now)
    if signers.find(new.public) is not None:
        raise UsageError(f"key {new.public.fingerprint} is listed already")
    follower = AllowedSigner(entry.principal, new.public, entry.namespaces, valid_after=now)
    _prove(new_signer, follower, now)
    closed = signers.with_window(
        entry.key.fingerprint, valid_after=entry.valid_after, valid_before=now
    )
    bundle = _change(ws, closed.add(follower), signer, op="key-rotate")
    remember(settings, new)
    return bundle


def _one_namespace(entry: AllowedSigner) -> str:
    return applied.NAMESPACE if entry.namespaces == ANY_NAMESPACE else entry.namespaces[0]


def _prove(signer: Signer, entry: AllowedSigner, now: int) -> None:
    namespace = _one_namespace(entry)
    armored = signer.sign(_PROBE, namespace)
    try:
        sshsig.verify(
            _PROBE, Untrusted(armored), namespace=namespace, signers=Signers((entry,)), at=now
        )
    except SignatureRefused as exc:
        detail = f"the new key cannot sign: {exc.message}"
        raise SignatureRefused(detail, code=exc.code, hint="nothing was changed") from exc


def _change(ws: Workspace, signers: Signers, signer: Signer, *, op: str) -> Bundle:
    refuse_last_signer(signers, ws.clock() + 1)
    return change_signers(ws, signers, signer, op=op)
