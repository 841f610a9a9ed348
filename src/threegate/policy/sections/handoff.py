"""`handoff.policy.md`: limits of the handoff's states, and of approvals."""

from typing import Final

from threegate.policy.leaves import BYTES, SECONDS, Number
from threegate.policy.nodes import PolicyReason, RuleReader
from threegate.policy.schema import RuleField, RuleRecord
from threegate.policy.sections.section import Rules, RuleSection, block_of

NAME_OF_SECTION: Final = "handoff"

# Every directory of the handoff has a quota; one that is missing here could grow for ever.
STATES: Final = {
    "packets": ("accepted",),
    "requests": ("draft", "held", "approved", "claimed", "done", "denied", "expired"),
    "results": ("accepted",),
    "analyses": ("accepted",),
    "approvals": ("accepted", "spent", "revoked"),
}

QUOTA: Final = RuleRecord(
    (
        RuleField("files", Number(0, 10_000_000), "files"),
        RuleField("bytes", Number(0, 2**44, BYTES), "bytes"),
    )
)


def _quotas() -> RuleRecord:
    kinds = [
        RuleField(kind, RuleRecord(tuple(RuleField(state, QUOTA, state) for state in states)), kind)
        for kind, states in STATES.items()
    ]
    shared = (
        RuleField("quarantine", QUOTA, "quarantine"),
        RuleField("blobs", QUOTA, "raw bytes by digest"),
    )
    return RuleRecord((*kinds, *shared))


APPROVAL: Final = RuleRecord(
    (
        RuleField(
            "lifetime_seconds", Number(1, 31_536_000, SECONDS), "lifetime if none is asked for"
        ),
        RuleField("max_lifetime_seconds", Number(1, 31_536_000, SECONDS), "longest lifetime"),
        RuleField("max_uses", Number(1, 1_000), "most uses of one approval"),
    )
)

RECORD: Final = RuleRecord(
    (
        RuleField("quotas", _quotas(), "quotas"),
        RuleField(
            "held_expiry_seconds", Number(60, 31_536_000, SECONDS), "time a request may wait"
        ),
        RuleField("approval", APPROVAL, "approvals"),
        RuleField(
            "reserve_bytes",
            Number(2**20, 2**40, BYTES, widens="down"),
            "space kept free before a claim",
        ),
        RuleField(
            "clock_tolerance_seconds",
            Number(0, 3_600, SECONDS),
            "how far the clock may be behind the log",
        ),
    )
)


def _check(rules: Rules, reader: RuleReader) -> None:
    approval = block_of(rules, "approval")
    usual, longest = approval["lifetime_seconds"], approval["max_lifetime_seconds"]
    assert isinstance(usual, int)
    assert isinstance(longest, int)
    if usual > longest:
        path = (NAME_OF_SECTION, "approval", "lifetime_seconds")
        raise reader.fail_at(
            PolicyReason.CONFLICT, path, "lifetime_seconds above max_lifetime_seconds"
        )


SECTION: Final = RuleSection(NAME_OF_SECTION, "handoff.policy.md", RECORD, _check)
