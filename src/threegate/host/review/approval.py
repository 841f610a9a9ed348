"""A human's yes: made, signed, checked as an executor will check it, and only then kept.

What an approval names is taken from the sheet alone, and the sheet holds the bytes it was
made from.  Between showing and keeping, somebody may have decided, changed the policy or
the clock: each of these is looked at again after the signature, which may take minutes.

SECURITY
    Asks the operator's key for a signature.  If this module is wrong, the operator signs
    something they were not shown, or an approval is kept that no executor would accept.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.ids import make_id, prefix_of, short
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import time_of
from threegate.base.errors import PolicyDenied, SignatureRefused, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals
from threegate.host.keys.signatures import UNKNOWN, Signer, kind_of
from threegate.host.review.requests import POLICY_MOVED, WAITING, expiry_of, read_request
from threegate.host.review.sheet import Sheet
from threegate.host.review.statement import statement
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.keys.public import PublicKey
from threegate.policy.approvals import NAMESPACE, RULE_OF_TWO, Presented, check_approval
from threegate.policy.bundle import Bundle
from threegate.policy.functions import functions_sha256
from threegate.policy.units import SECONDS

# Finds the operator's key when it is needed, not before.
Signing = Callable[[Workspace], tuple[Signer, PublicKey]]

NONCE_BYTES: Final = 16
NOT_WAITING: Final = "TG-APR-012"
OTHER_BYTES: Final = "TG-APR-013"
_AGAIN: Final = "look at it again with `threegate review show {}`"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the approver grants beyond yes; None takes what policy gives."""

    uses: int = 1
    seconds: int | None = None
    accept_rule_of_two: bool = False


@dataclass(frozen=True, slots=True)
class GivenApproval:
    """An approval that was kept."""

    id: str
    request: str
    approval: Approval
    fingerprint: str


def approve(
    ws: Workspace,
    sheet: Sheet,
    signer: Signer,
    key: PublicKey,
    terms: Terms | None = None,
    *,
    given: str = UNKNOWN,
) -> GivenApproval:
    """Sign and keep an approval of exactly what `sheet` shows.

    `given` says how the yes was given: `--yes`, `terminal` or `console`.  The log keeps that and
    what protects the key; it is what this process saw, not a proof that a human was there.
    `key` is the public half of the key that `signer` signs with.  Raises `PolicyDenied`,
    `SignatureRefused` or `ClockRefused`; then nothing was kept.
    """
    terms = terms or Terms()
    refuse(ws, sheet, terms)
    approver = signer_named(ws, key)
    approval = draft(ws.bundle, sheet, terms, approver=approver, now=ws.clock())
    data = registry.emit(approval)
    signature = signer.sign(data, NAMESPACE)
    # The human may have taken minutes to touch a token: look at everything again.
    _refuse_changed(ws, sheet)
    ws.refuse_wrong_clock()
    checked = check_approval(
        Presented(sheet.data, data, signature),
        ws.bundle,
        at=ws.clock(),
        functions_sha256=functions_sha256(ws.bundle),
    )
    detail = {
        "approver": approver,
        "given": given,
        "key": checked.signed.fingerprint,
        "key_kind": kind_of(signer),
        "uses": approval.max_uses,
    }
    approval_id = _keep(ws, sheet, data, signature, detail)
    return GivenApproval(approval_id, sheet.id, approval, checked.signed.fingerprint)


def _keep(
    ws: Workspace, sheet: Sheet, data: bytes, signature: bytes, detail: dict[str, object]
) -> str:
    try:
        return approvals.approve(
            ws.store, request_id=sheet.id, approval=data, signature=signature, detail=detail
        )
    except UsageError as exc:
        raise _not_waiting(sheet.id) from exc


def refuse(ws: Workspace, sheet: Sheet, terms: Terms) -> None:
    """Raise what stands against an approval, before anybody is asked to sign."""
    ws.refuse_wrong_clock()
    _refuse_changed(ws, sheet)
    if ws.clock() >= expiry_of(sheet.request, ws.bundle):
        hint = "ask again: a new request waits anew"
        raise PolicyDenied(f"{short(sheet.id)} waited too long", code=NOT_WAITING, hint=hint)
    refuse_terms(ws.bundle, terms)
    _refuse_denied(sheet)
    if sheet.rule_of_two.joined:
        _refuse_joined(sheet, terms)


def signer_named(ws: Workspace, key: PublicKey) -> str:
    """Return whom a key belongs to; raise `SignatureRefused` unless it may approve now."""
    entry = ws.bundle.signers.find(key)
    if entry is None:
        hint = "`threegate key list` shows who may sign"
        detail = f"key {key.fingerprint} is not in allowed_signers"
        raise SignatureRefused(detail, code="TG-KEY-003", hint=hint)
    entry.refuse(namespace=NAMESPACE, at=ws.clock())
    return entry.principal


def draft(bundle: Bundle, sheet: Sheet, terms: Terms, *, approver: str, now: int) -> Approval:
    """Return the approval to sign: what `sheet` shows, under the policy it was judged by."""
    usual = bundle.integer("handoff", "approval", "lifetime_seconds")
    end = now + (usual if terms.seconds is None else terms.seconds)
    request, monty = sheet.request, sheet.lane == "monty"
    made = Approval(
        request=make_id(prefix_of(sheet.id), sheet.data),
        backend=sheet.lane,
        limits=request.limits if isinstance(request, ToolRequest) else None,
        functions_sha256=functions_sha256(bundle) if monty else None,
        network=request.network if isinstance(request, ToolRequest) else "none",
        rule_of_two="accepted" if sheet.rule_of_two.joined else "not-triggered",
        policy=tuple(
            PolicySection(name, bundle.section_digest(name)) for name in BOUND_SECTIONS[sheet.lane]
        ),
        approver=approver,
        nonce=secrets.token_hex(NONCE_BYTES),
        not_before=time_of(now),
        not_after=time_of(end),
        max_uses=terms.uses,
        statement=Untrusted(statement(sheet, uses=terms.uses, begin=now, end=end)),
    )
    registry.parse(Untrusted(registry.emit(made)))  # what would not be read is not signed
    return made


def _refuse_changed(ws: Workspace, sheet: Sheet) -> None:
    """Refuse when the request or the policy is not what the sheet shows any more."""
    data, _, state = read_request(ws, sheet.id)
    if state not in WAITING:
        raise _not_waiting(sheet.id, state)
    if data != sheet.data:
        hint = _AGAIN.format(short(sheet.id))
        detail = f"{short(sheet.id)} is not what was shown"
        raise PolicyDenied(detail, code=OTHER_BYTES, hint=hint)
    with ws.store.locked():
        in_force = applied.read_current(ws.store).digest
    if sheet.policy != in_force or ws.bundle.digest != in_force:
        hint = _AGAIN.format(short(sheet.id))
        raise PolicyDenied("the policy changed meanwhile", code=POLICY_MOVED, hint=hint)


def _not_waiting(request_id: str, state: str = "not waiting") -> PolicyDenied:
    hint = _AGAIN.format(short(request_id))
    detail = f"{short(request_id)} was decided already: it is {state}"
    return PolicyDenied(detail, code=NOT_WAITING, hint=hint)


def refuse_terms(bundle: Bundle, terms: Terms) -> None:
    """Raise `UsageError` unless policy lets an approval be for so many uses and so long."""
    path = ("handoff", "approval")
    most, longest = bundle.integer(*path, "max_uses"), bundle.integer(*path, "max_lifetime_seconds")
    if not 1 <= terms.uses <= most:
        where = bundle.ref(*path, "max_uses")
        raise UsageError(f"{terms.uses} uses, {where} allows 1 to {most}")
    if terms.seconds is not None and not 1 <= terms.seconds <= longest:
        where = bundle.ref(*path, "max_lifetime_seconds")
        asked = SECONDS.show(terms.seconds)
        raise UsageError(f"a lifetime of {asked}, {where} allows 1s to {SECONDS.show(longest)}")


def _refuse_denied(sheet: Sheet) -> None:
    for one in sheet.verdicts:
        if one.verdict == "deny":
            by = f" by {one.rule}" if one.rule else ""
            hint = f"`threegate policy explain {short(sheet.id)}` shows every rule that was tried"
            detail = f"{short(sheet.id)} is denied{by}: {one.reason}"
            raise PolicyDenied(detail, hint=hint)


def _refuse_joined(sheet: Sheet, terms: Terms) -> None:
    joined = f"{short(sheet.id)} joins external input, confidential data and network"
    if not sheet.rule_of_two.allowed:
        hint = "policy/tool-exec.policy.md says `rule_of_two: refuse`"
        raise PolicyDenied(joined, code=RULE_OF_TWO, hint=hint)
    if not terms.accept_rule_of_two:
        hint = "add --accept-rule-of-two if that is meant"
        raise PolicyDenied(joined, code=RULE_OF_TWO, hint=hint)
