"""Several requests in one command: what is about one of them, and what is about all."""

import pytest

from threegate.base.errors import (
    ClockRefused,
    GateUnavailable,
    HandoffTampered,
    PolicyDenied,
    SignatureRefused,
    ThreeGateError,
    UsageError,
    WaitingForHuman,
)
from threegate.handoff.store import MISPLACED, OTHER_CONTENT
from threegate.host.review.approval import NOT_WAITING
from threegate.host.review.requests import POLICY_MOVED, decide_each, report_tampered, worst

ABOUT_ONE = [
    UsageError("no such request"),
    PolicyDenied("a rule says no"),
    PolicyDenied("it was decided", code=NOT_WAITING),
    HandoffTampered("it is elsewhere", code=MISPLACED),
    HandoffTampered("it is not what its name says", code=OTHER_CONTENT),
]
ABOUT_ALL = [
    PolicyDenied("the policy changed", code=POLICY_MOVED),
    SignatureRefused("not a signer"),
    ClockRefused("the clock is wrong"),
    HandoffTampered("a directory is not ours"),
    GateUnavailable("no ssh-keygen"),
    WaitingForHuman("nobody to ask"),
]


def decided(error: ThreeGateError) -> tuple[list[str], list[ThreeGateError], list[int]]:
    done: list[str] = []
    named: list[ThreeGateError] = []

    def decide(request_id: str) -> None:
        if request_id == "b":
            raise error
        done.append(request_id)

    return done, named, decide_each("abc", decide, named.append)


@pytest.mark.parametrize("error", ABOUT_ONE, ids=lambda one: one.message)
def test_what_is_about_one_is_named_and_the_others_go_on(error: ThreeGateError) -> None:
    assert decided(error) == (["a", "c"], [error], [error.exit_code])


@pytest.mark.parametrize("error", ABOUT_ALL, ids=lambda one: one.message)
def test_what_is_about_all_stops(error: ThreeGateError) -> None:
    with pytest.raises(type(error)) as caught:
        decided(error)
    assert caught.value is error


def test_the_exit_code_is_the_worst() -> None:
    assert (worst([]), worst([0, 2]), worst([77, 2]), worst([2, 76, 77])) == (0, 2, 77, 76)


def test_every_meddled_one_is_named() -> None:
    named: list[ThreeGateError] = []
    error = HandoffTampered("x", code=MISPLACED)
    assert (report_tampered({"tr-1": error}, named.append), named) == (76, [error])
    assert report_tampered({}, named.append) == 0
