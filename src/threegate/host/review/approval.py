"""An approval: drafted, signed, checked as an executor will check it, stored, and exported.

An approval takes its fields from the sheet alone, and the sheet holds the bytes it was made
from.  Signing may take minutes.  The state of the request, the policy and the clock are therefore
checked again after the signature.

The statement inside an approval says in plain words what it permits.  It is signed, and people
without this program read it, so it holds no foreign text: only names, numbers, digests and hosts
of strict grammars.

SECURITY
    Asks the operator's key for a signature.  If this module is wrong, the operator signs
    something they were not shown, or an approval is stored that no executor would accept.
    An export writes new files only, where the operator says: the signed bytes, unchanged, and
    the signers in force.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.ids import make_id, prefix_of, short
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import time_of
from threegate.base.errors import (
    PolicyDenied,
    SignatureRefused,
    StorageFailed,
    ThreeGateError,
    UsageError,
)
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals
from threegate.host.keys.signatures import UNKNOWN, Signer, kind_of
from threegate.host.output import counted
from threegate.host.review import parts
from threegate.host.review.requests import POLICY_MOVED, WAITING, expiry_of, read_request
from threegate.host.review.sheet import ReviewSheet
from threegate.host.workspace import applied
from threegate.host.workspace.places import refuse_absent
from threegate.host.workspace.workspace import Workspace
from threegate.keys.public import PublicKey
from threegate.keys.signers import emit
from threegate.policy.approvals import NAMESPACE, RULE_OF_TWO, Presented, check_approval
from threegate.policy.bundle import Bundle, functions_sha256
from threegate.policy.leaves import SECONDS

# -- the statement in an approval --------------------------------------------------------

MAX_NAMED: Final = 8


def statement(sheet: ReviewSheet, *, uses: int, begin: int, end: int) -> str:
    """Return what an approval of `sheet` permits."""
    return "\n".join(_lines(sheet, uses, begin, end))


def _lines(sheet: ReviewSheet, uses: int, begin: int, end: int) -> Iterator[str]:
    often = "once" if uses == 1 else f"{uses} times"
    when = f"from {time_of(begin)} to {time_of(end)}"
    if sheet.tool is not None:
        what = "command" if sheet.tool.argv else "code"
        yield f"Run the {what} of {sheet.id} {often}, {when}, in the lane {sheet.lane}."
        yield from _tool(sheet.tool)
    if sheet.fetch is not None:
        count = counted(len(sheet.fetch.references), "reference")
        yield f"Ask for the {count} of {sheet.id} {often}, {when}: {sheet.fetch.want}."
        yield f"Hosts that are asked: {_named(_hosts(sheet.fetch))}."
    labels = sheet.labels
    yield f"Integrity: {labels.integrity}. Confidentiality: {labels.confidentiality}."
    yield _rule_of_two(sheet.rule_of_two)
    yield "It covers these bytes under these rules; any change of either voids it."


def _hosts(fetch: parts.Fetch) -> list[str]:
    asked = (one for reference in fetch.references for one in reference.asks)
    return sorted({one.host for one in asked if one.verdict != "deny"})


def _tool(tool: parts.Tool) -> Iterator[str]:
    if tool.code is not None:
        yield f"The code has {tool.code.bytes} bytes and the SHA-256 {tool.code.sha256}."
    limits = ", ".join(f"{one.words} {one.shown[0]}" for one in tool.limits)
    yield f"At most: {limits}."
    inputs = [f"{one.name} ({one.bytes} bytes)" for one in tool.inputs]
    yield f"Inputs: {_named(inputs)}."
    yield f"External functions: {_named([one.name for one in tool.functions])}."
    yield f"Files it may leave: {_named([name for name, _ in tool.outputs])}."
    if tool.gateway is None:
        yield f"Network: {tool.network}."
    else:
        way = tool.gateway
        yield f"Network: through the gateway, to {_named(list(way.hosts))} and no other host."
        yield f"At most {way.up} leave and {way.down} come."


def _rule_of_two(two: parts.RuleOfTwo) -> str:
    if two.joined:
        return "Rule of Two: external input, confidential data and network together, accepted."
    return "Rule of Two: external input, confidential data and network do not come together."


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more if names else "none"


# Finds the operator's key when it is needed, not before.
Signing = Callable[[Workspace], tuple[Signer, PublicKey]]

NONCE_BYTES: Final = 16
NOT_WAITING: Final = "TG-APR-012"
OTHER_BYTES: Final = "TG-APR-013"
_AGAIN: Final = "look at it again with `threegate review show {}`"


@dataclass(frozen=True, slots=True)
class Terms:
    """How often and how long an approval is valid; without a length of time, policy's default."""

    uses: int = 1
    seconds: int | None = None
    accept_rule_of_two: bool = False

    @classmethod
    def read(cls, uses: str, lifetime: str | None, *, accept_rule_of_two: bool) -> "Terms":
        """Return terms as people write them, such as 3 and 30m; raise `UsageError`."""
        if not (uses.isascii() and uses.isdigit() and len(uses) < 6):
            raise UsageError("the number of uses is not a number")
        try:
            seconds = SECONDS.parse(lifetime) if lifetime else None
        except ValueError as exc:
            detail = f"{quote(lifetime or '')} is not a length of time"
            raise UsageError(detail, hint="like 30m, 2h or 1d") from exc
        return cls(int(uses), seconds, accept_rule_of_two)


@dataclass(frozen=True, slots=True)
class TermBounds:
    """The terms that policy gives and allows."""

    usual_seconds: int
    max_uses: int
    max_seconds: int

    @classmethod
    def of(cls, bundle: Bundle) -> "TermBounds":
        """Return the bounds of a policy."""
        names = ("lifetime_seconds", "max_uses", "max_lifetime_seconds")
        return cls(*(bundle.integer("handoff", "approval", name) for name in names))


@dataclass(frozen=True, slots=True)
class GivenApproval:
    """An approval that was kept."""

    id: str
    request: str
    approval: Approval
    fingerprint: str


def approve(
    ws: Workspace,
    sheet: ReviewSheet,
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
    # The key is checked before the human is asked to touch a token for nothing.
    approver = signer_named(ws, key)
    approval = draft(ws.bundle, sheet, terms, approver=approver, now=ws.clock())
    data = registry.emit(approval)
    signature = signer.sign(data, NAMESPACE)
    # The human may have taken minutes to touch a token: check everything again (TOCTOU).
    _refuse_changed(ws, sheet)
    ws.refuse_wrong_clock()
    # The executor's own check: an approval that it would refuse is never kept.
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
    ws: Workspace, sheet: ReviewSheet, data: bytes, signature: bytes, detail: dict[str, object]
) -> str:
    try:
        return approvals.approve(
            ws.store, request_id=sheet.id, approval=data, signature=signature, detail=detail
        )
    except UsageError as exc:
        raise _not_waiting(sheet.id) from exc


def refuse(ws: Workspace, sheet: ReviewSheet, terms: Terms) -> None:
    """Raise the reason against an approval, before anybody is asked to sign."""
    ws.refuse_wrong_clock()
    _refuse_changed(ws, sheet)
    if ws.clock() >= expiry_of(sheet.request, ws.bundle):
        hint = "ask again with a new request"
        raise PolicyDenied(f"{short(sheet.id)} waited too long", code=NOT_WAITING, hint=hint)
    refuse_terms(ws.bundle, terms)
    _refuse_denied(sheet)
    if sheet.rule_of_two.joined:
        _refuse_joined(sheet, terms)


def objection(ws: Workspace, sheet: ReviewSheet) -> str:
    """Return why no approval of `sheet` is possible, with its code; nothing if one is."""
    try:
        refuse(ws, sheet, Terms(accept_rule_of_two=True))
    except ThreeGateError as exc:
        return f"{exc.message} [{exc.code}]"
    return ""


def signer_named(ws: Workspace, key: PublicKey) -> str:
    """Return whom a key belongs to; raise `SignatureRefused` unless it may approve now."""
    entry = ws.bundle.signers.find(key)
    if entry is None:
        hint = "`threegate key list` shows who may sign"
        detail = f"key {key.fingerprint} is not in allowed_signers"
        raise SignatureRefused(detail, code="TG-KEY-003", hint=hint)
    entry.refuse(namespace=NAMESPACE, at=ws.clock())
    return entry.principal


def draft(bundle: Bundle, sheet: ReviewSheet, terms: Terms, *, approver: str, now: int) -> Approval:
    """Return the approval to sign: what `sheet` shows, under the policy it was judged by."""
    usual = TermBounds.of(bundle).usual_seconds
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
    registry.parse(Untrusted(registry.emit(made)))  # sign only bytes that the parser accepts
    return made


def _refuse_changed(ws: Workspace, sheet: ReviewSheet) -> None:
    """Refuse when the request or the policy is not what the sheet shows any more."""
    data, _, state = read_request(ws, sheet.id)
    if state not in WAITING:
        raise _not_waiting(sheet.id, state)
    if data != sheet.data:
        hint = _AGAIN.format(short(sheet.id))
        detail = f"{short(sheet.id)} is not what was shown"
        raise PolicyDenied(detail, code=OTHER_BYTES, hint=hint)
    with ws.store.locked():
        # Under the lock: another command may be putting a policy in force.
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
    path, bounds = ("handoff", "approval"), TermBounds.of(bundle)
    if not 1 <= terms.uses <= bounds.max_uses:
        where = bundle.ref(*path, "max_uses")
        raise UsageError(f"{terms.uses} uses, {where} allows 1 to {bounds.max_uses}")
    if terms.seconds is not None and not 1 <= terms.seconds <= bounds.max_seconds:
        where = bundle.ref(*path, "max_lifetime_seconds")
        asked, longest = SECONDS.show(terms.seconds), SECONDS.show(bounds.max_seconds)
        raise UsageError(f"a lifetime of {asked}, {where} allows 1s to {longest}")


def _refuse_denied(sheet: ReviewSheet) -> None:
    for one in sheet.verdicts:
        if one.verdict == "deny":
            by = f" by {one.rule}" if one.rule else ""
            hint = f"`threegate policy explain {short(sheet.id)}` shows every rule that was tried"
            detail = f"{short(sheet.id)} is denied{by}: {one.reason}"
            raise PolicyDenied(detail, hint=hint)


def _refuse_joined(sheet: ReviewSheet, terms: Terms) -> None:
    joined = f"{short(sheet.id)} joins external input, confidential data and network"
    if not sheet.rule_of_two.allowed:
        hint = "policy/tool-exec.policy.md says `rule_of_two: refuse`"
        raise PolicyDenied(joined, code=RULE_OF_TWO, hint=hint)
    if not terms.accept_rule_of_two:
        hint = "add --accept-rule-of-two if you mean it"
        raise PolicyDenied(joined, code=RULE_OF_TWO, hint=hint)


# -- exports that OpenSSH alone can check ----------------------------------------------------

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
