"""Rules that reach a box while it waits: only the next ones, whole, and read back by trying."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.policies import altered
from tests.support.pushing import after, chain, edited, signed
from tests.support.sshlab import Key
from threegate.base.greeting import GateRefused
from threegate.gates.tool_exec import gate, pushed
from threegate.gates.tool_exec.monty.messages import Adopt, Prove
from threegate.host.run.warm.kinds import Signed
from threegate.host.run.warm.lite import LiteKind
from threegate.policy.bundle import Bundle
from threegate.sandbox.proofs import LockBroken

FIRST, SECOND, THIRD = chain(3)
NOW = 1_800_000_000


def asked(given: Signed) -> Adopt:
    return Adopt(given.bundle.bundle_bytes(), given.armored)


def adopted(start: Signed, given: Signed) -> Bundle | str:
    """Return what a box works under afterwards, or the code of its refusal."""
    found = gate.adopted(start.bundle, asked(given), now=NOW)
    return found.code if isinstance(found, GateRefused) else found


# claim TG-C-313
def test_a_box_takes_the_next_signed_policy_and_no_other() -> None:
    taken = adopted(FIRST, SECOND)
    assert isinstance(taken, Bundle), "control"
    assert taken.digest == SECOND.bundle.digest
    assert adopted(SECOND, FIRST) == "TG-PSH-001", "an older one"
    assert adopted(SECOND, SECOND) == "TG-PSH-001", "the same"
    assert adopted(FIRST, THIRD) == "TG-PSH-002", "not the next one"
    fork = signed(replace(SECOND.bundle, previous="0" * 64))
    assert adopted(FIRST, fork) == "TG-PSH-002"
    stranger = signed(SECOND.bundle, Key(b"\x02" * 32))
    assert adopted(FIRST, stranger) == "TG-KEY-003"
    assert adopted(FIRST, Signed(SECOND.bundle, THIRD.armored)) == "TG-KEY-002"


# claim TG-C-314
def test_a_bundle_that_is_none_and_functions_it_has_not_are_refused() -> None:
    half = asked(SECOND).bundle[:-100]
    found = gate.adopted(FIRST.bundle, Adopt(half, SECOND.armored), now=NOW)
    assert isinstance(found, GateRefused)
    assert found.code == "TG-POL-016"

    def other(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["functions"]["sha256_hex"]["sha256"] = "0" * 64

    pinned = after(FIRST.bundle, altered(edited(), other))
    assert adopted(FIRST, signed(pinned)) == "TG-FUN-001"
    control = after(FIRST.bundle, altered(edited(), lambda _: None))
    assert isinstance(adopted(FIRST, signed(control)), Bundle), "control"


# claim TG-C-312
def test_what_is_read_back_is_what_programs_meet() -> None:
    for one in (FIRST, SECOND, THIRD):
        found = pushed.enforced(one.bundle, Prove((), {}), gate.bounds_for)
        assert found == LiteKind().expected(one.bundle), "control: an honest box"
    digests = [LiteKind().expected(one.bundle).rings["pure"] for one in (FIRST, SECOND, THIRD)]
    assert len(set(digests)) == 3, "control: each policy reads otherwise"
    # A box that took the new bundle and goes on to check programs by the one before.
    old = lambda _bundle, name: gate.bounds_for(FIRST.bundle, name)  # noqa: E731
    lying = pushed.enforced(SECOND.bundle, Prove((), {}), old)
    assert (lying.generation, lying.policy) == (2, SECOND.bundle.digest)
    assert lying != LiteKind().expected(SECOND.bundle)


def test_a_lock_that_does_not_hold_is_no_answer() -> None:
    # Outside every box the first act that must be impossible is possible.
    with pytest.raises(LockBroken):
        pushed.enforced(FIRST.bundle, Prove(("alone",), {}), gate.bounds_for)
