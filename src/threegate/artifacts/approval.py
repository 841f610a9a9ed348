"""Approval: a human's yes to exact bytes, under exact rules, for a while.

The artifact is signed as a whole by the operator's SSH key; the signature lies beside it.
The executor compares every field with what it is about to do.

SECURITY
    Reads bytes that claim to be an approval.  Parsing proves nothing about who wrote
    them: only the signature does.  If this module is wrong, an approval could be read
    as one for something else.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts import limits as bounds
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import NO_NETWORK, GatewayTerms, Network, RunLimits
from threegate.base.forms import DIGEST, NONCE, TIME
from threegate.base.limits import MAX_APPROVAL_BYTES
from threegate.base.schema import Choice, Either, Integer, Named, Nullable, Pattern, Record, spec
from threegate.base.untrusted import Untrusted

POLICY_SECTIONS: Final = ("fetch", "signers", "tool-exec")
# The policy sections that decide each kind of act; a change in one voids the approval.
BOUND_SECTIONS: Final = {
    "fetch": ("fetch", "signers"),
    "monty": ("signers", "tool-exec"),
    "era": ("signers", "tool-exec"),
}


@dataclass(frozen=True, slots=True)
class PolicySection:
    """The rules in force when the human said yes."""

    name: str = spec(Choice(*POLICY_SECTIONS), "policy section")
    sha256: str = spec(DIGEST, "digest of its compiled rules")


@dataclass(frozen=True, slots=True)
class Approval:
    """A human's yes."""

    request: str = spec(id_of("fr", "tr"), "the request, by its digest")
    backend: str = spec(Choice("fetch", "monty", "era"), "the lane that may act on it")
    limits: RunLimits | None = spec(
        Nullable(Record(RunLimits)), "the limits of a tool request, null for a fetch request"
    )
    functions_sha256: str | None = spec(
        Nullable(DIGEST), "digest of the external-function set, null where there is none"
    )
    network: Network = spec(
        Either(Choice(NO_NETWORK), Record(GatewayTerms)),
        "the network the run may have, hosts and bytes included",
    )
    rule_of_two: str = spec(
        Choice("not-triggered", "accepted"),
        "`accepted`: the human saw that it joins external input, confidential data and network",
    )
    policy: tuple[PolicySection, ...] = spec(
        Named(Record(PolicySection), len(POLICY_SECTIONS), least=2),
        "the sections that decide this kind of act",
    )
    approver: str = spec(
        Pattern(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}", "a principal of allowed_signers"),
        "who signs",
    )
    nonce: str = spec(NONCE, "makes every approval a different one")
    not_before: str = spec(TIME, "valid from")
    not_after: str = spec(TIME, "valid until")
    max_uses: int = spec(Integer(1, bounds.MAX_USES), "how often it may be spent")
    statement: Untrusted[str] = section(
        BodySection("Statement", bounds.MAX_PURPOSE_CHARS, 1),
        "the explanation shown to the human",
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this approval speaks of."""
        return (self.request,)


def _check(approval: Approval) -> None:
    if approval.not_before >= approval.not_after:
        raise reject(ArtifactReason.INCONSISTENT, "not_after is not later than not_before")
    # An approval of one kind must not be readable as one of the other kind.
    is_fetch = approval.request.startswith("fr-")
    if is_fetch != (approval.backend == "fetch") or is_fetch != (approval.limits is None):
        raise reject(
            ArtifactReason.INCONSISTENT, "request, backend and limits are of different kinds"
        )
    # With a section missing, a change of its rules would not void the approval.
    if tuple(item.name for item in approval.policy) != BOUND_SECTIONS[approval.backend]:
        raise reject(
            ArtifactReason.INCONSISTENT, "policy does not name the sections that decide this"
        )
    if (approval.functions_sha256 is not None) != (approval.backend == "monty"):
        raise reject(
            ArtifactReason.INCONSISTENT, "functions_sha256 goes with monty, and only with it"
        )
    if approval.backend != "era" and approval.network != "none":
        raise reject(ArtifactReason.INCONSISTENT, "only the era lane can have a network")


FORMAT: Final = Format(
    Approval,
    prefix="ap",
    version=1,
    title="Approval",
    max_bytes=MAX_APPROVAL_BYTES,
    check=_check,
)
