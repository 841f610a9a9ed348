"""What a new policy would change, and every capability it widens."""

from collections.abc import Iterator

from threegate.policy.bundle import Compiled
from threegate.policy.change import Change
from threegate.policy.sections import GATES, SECTIONS, SIGNERS
from threegate.policy.sections.gates import compare_gates
from threegate.policy.sections.signers import compare_signers


def diff(old: Compiled, new: Compiled) -> list[Change]:
    """Return every difference between two policies, widening ones first."""
    order = ("widens", "changes", "narrows")
    return sorted(_changes(old, new), key=lambda change: order.index(change.effect))


def _changes(old: Compiled, new: Compiled) -> Iterator[Change]:
    for section in SECTIONS:
        before, after = old.sections[section.name], new.sections[section.name]
        yield from section.record.compare(before, after, (section.name,), section.name)
    yield from compare_signers(old.sections[SIGNERS], new.sections[SIGNERS])
    yield from compare_gates(old.sections[GATES], new.sections[GATES])
