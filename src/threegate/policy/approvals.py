"""Whether an approval covers exactly this request, here and now.

`check_approval` is pure and runs twice: in the host before a claim, and again inside the box
that executes, which believes nobody.  The rules, in order; the first that fails decides:

 1. request and approval parse;
 2. the approval names this request's digest;
 3. it is for the same lane, with the same limits and network;
 4. it binds the set of external functions that is installed;
 5. the policy sections it binds are those in force;
 6. its signature is good, in the namespace `threegate-approval`, by a key that
    `allowed_signers` allows at this moment, and the approver is whom that key belongs to;
 7. the time lies within its window, the window within what policy allows;
 8. policy still lets a human approve this; a joined Rule of Two was accepted by name;
 9. the executor can enforce the profile of the ring that the request names;
10. no rule of that profile refuses the command, if it is one.

Whether a use is left is the handoff's question: it is spent durably before the run.

SECURITY
    Reads four byte strings that somebody else put together.  If this module is wrong,
    something runs that no human approved.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import make_id
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import (
    GatewayTerms,
    Network,
    RunLimits,
    ToolRequest,
    network_word,
)
from threegate.base.errors import ArtifactRejected, PolicyDenied
from threegate.base.schema import plain_record, shapes_of
from threegate.base.untrusted import Untrusted
from threegate.keys import sshsig
from threegate.keys.sshsig import SignedBytes
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.decide import Execution, may_execute
from threegate.policy.decision import Deny
from threegate.policy.ring.compiler import compile_ring, executor_of, offline, refuse_command
from threegate.policy.ring.executor_profile import ExecutorProfile

NAMESPACE: Final = "threegate-approval"

UNREADABLE: Final = "TG-APR-001"
OTHER_REQUEST: Final = "TG-APR-002"
OTHER_LANE: Final = "TG-APR-003"
OTHER_FUNCTIONS: Final = "TG-APR-004"
OTHER_POLICY: Final = "TG-APR-005"
OTHER_SIGNER: Final = "TG-APR-006"
OUTSIDE_WINDOW: Final = "TG-APR-007"
TOO_GENEROUS: Final = "TG-APR-008"
RULE_OF_TWO: Final = "TG-APR-009"

_LIMIT_SHAPES: Final = shapes_of(RunLimits)


@dataclass(frozen=True, slots=True)
class Presented:
    """Request, approval and signature as bytes, for the check."""

    request: bytes
    approval: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval that covers a request."""

    request: Request
    request_id: str
    approval: Approval
    approval_id: str
    signed: SignedBytes


def check_approval(
    presented: Presented, bundle: Bundle, *, at: int, functions_sha256: str | None
) -> Approved:
    """Return the approved request, or raise `PolicyDenied` or `SignatureRefused`."""
    request, approval = _parse(presented)
    prefix = "tr" if isinstance(request, ToolRequest) else "fr"
    request_id = make_id(prefix, presented.request)
    if approval.request != request_id:
        raise _denied(OTHER_REQUEST, "the approval is for another request")
    _check_lane(request, approval)
    if approval.backend == "monty" and approval.functions_sha256 != functions_sha256:
        raise _denied(OTHER_FUNCTIONS, "the approval binds another set of external functions")
    for section in approval.policy:
        if bundle.section_digest(section.name) != section.sha256:
            raise _denied(OTHER_POLICY, f"the rules of {section.name} changed since the approval")
    signed = _check_signature(presented, approval, bundle, at)
    _check_window(approval, bundle, at)
    if isinstance(request, ToolRequest):
        _check_execution(request, approval, bundle)
    approval_id = make_id("ap", presented.approval)
    return Approved(request, request_id, approval, approval_id, signed)


def _denied(code: str, detail: str) -> PolicyDenied:
    hint = "review the request again with `threegate review`"
    return PolicyDenied(detail, code=code, hint=hint)


def _parse(presented: Presented) -> tuple[Request, Approval]:
    try:
        request = registry.parse(Untrusted(presented.request))
        approval = registry.parse(Untrusted(presented.approval))
    except ArtifactRejected as exc:
        raise _denied(UNREADABLE, f"request or approval does not parse: {exc.message}") from exc
    if not isinstance(request, Request) or not isinstance(approval, Approval):
        raise _denied(UNREADABLE, "not a request and an approval")
    return request, approval


def _check_lane(request: Request, approval: Approval) -> None:
    backend = request.backend if isinstance(request, ToolRequest) else "fetch"
    if approval.backend != backend:
        raise _denied(OTHER_LANE, "the approval is for another lane")
    if isinstance(request, ToolRequest):
        if approval.limits != request.limits:
            raise _denied(OTHER_LANE, "the approval is for other limits")
        if approval.network != request.network:
            raise _denied(OTHER_LANE, "the approval is for another network")


def _check_signature(
    presented: Presented, approval: Approval, bundle: Bundle, at: int
) -> SignedBytes:
    armored = Untrusted(presented.signature)
    signed = sshsig.verify(
        presented.approval, armored, namespace=NAMESPACE, signers=bundle.signers, at=at
    )
    if signed.principal != approval.approver:
        raise _denied(OTHER_SIGNER, "the approver is not whom the signing key belongs to")
    return signed


def _check_window(approval: Approval, bundle: Bundle, at: int) -> None:
    begin, end = unix_of(approval.not_before), unix_of(approval.not_after)
    if not begin <= at <= end:
        state = "not valid yet" if at < begin else "expired"
        raise _denied(OUTSIDE_WINDOW, f"the approval is {state}")
    longest = bundle.integer("handoff", "approval", "max_lifetime_seconds")
    most = bundle.integer("handoff", "approval", "max_uses")
    if end - begin > longest or approval.max_uses > most:
        raise _denied(TOO_GENEROUS, "the approval lasts longer or has more uses than policy allows")


def execution_of(request: ToolRequest) -> Execution:
    """Return a tool request as far as policy judges it."""
    argv = [argument.open_for_validation() for argument in request.argv]
    return Execution(
        backend=request.backend,
        limits=plain_record(_LIMIT_SHAPES, request.limits),
        profile=request.profile,
        integrity=request.integrity,
        confidentiality=request.confidentiality,
        functions=frozenset(request.functions),
        binaries=frozenset(argv[:1]),
        **_network(request.network),
    )


def command_of(request: ToolRequest) -> tuple[str, ...]:
    """Return the words of a command, for the rules."""
    return tuple(word.open_for_validation() for word in request.argv)


def _network(network: Network) -> dict[str, Any]:
    word = network_word(network)
    if not isinstance(network, GatewayTerms):
        return {"network": word}
    sizes = {"up_bytes": network.up_bytes, "down_bytes": network.down_bytes}
    return {"network": word, "hosts": frozenset(network.hosts), **sizes}


def executor_for(request: ToolRequest) -> str:
    """Return the kind of executor that would run a request."""
    return executor_of(request.backend, command=bool(request.argv))


def ring_for(policy: Compiled, request: ToolRequest) -> ExecutorProfile:
    """Return the profile of a request, without a network that it does not ask for.

    Raises `ProfileRejected`.
    """
    ring = compile_ring(policy, executor_for(request), request.profile)
    return offline(ring) if request.network == "none" else ring


def joins_three(request: ToolRequest) -> bool:
    """Tell whether a request joins external input, confidential data and a network.

    Input that a run receives through a network is external, no matter who wrote the request.
    """
    return request.confidentiality == "confidential" and request.network != "none"


def _check_execution(request: ToolRequest, approval: Approval, bundle: Bundle) -> None:
    decision = may_execute(bundle, execution_of(request))
    if isinstance(decision, Deny):
        raise decision.error("the run is")
    kind = executor_for(request)
    compile_ring(bundle, kind, request.profile)
    if request.argv:
        refuse_command(bundle, kind, request.profile, command_of(request))
    if joins_three(request) != (approval.rule_of_two == "accepted"):
        raise _denied(RULE_OF_TWO, "the approval does not speak of the Rule of Two as it stands")


def unix_of(text: str) -> int:
    """Return the seconds of an artifact's time."""
    return int(datetime.fromisoformat(text).timestamp())
