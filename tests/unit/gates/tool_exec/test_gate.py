"""The lite gate believes no host, runs what was approved, and takes only the next signed policy."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support import samples
from tests.support.lite import Program, job_for
from tests.support.policies import altered, policy
from tests.support.pushing import after, chain, edited, signed
from tests.support.sshlab import Key
from threegate.base.errors import ProtocolBroken
from threegate.base.greeting import GateReady, GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec import gate
from threegate.gates.tool_exec.final_check import OTHER_INPUTS
from threegate.gates.tool_exec.monty import lane
from threegate.gates.tool_exec.monty.messages import (
    GREETING,
    Adopt,
    CheckCode,
    LiteJob,
    LiteOpening,
    LiteOutcome,
    Prove,
    parse_outcome,
)
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.host.run.warm.executors import Signed
from threegate.host.run.warm.kinds import LiteKind
from threegate.policy.bundle import Bundle
from threegate.sandbox import payload
from threegate.sandbox.channel import END, HEADER, FrameReader, frames
from threegate.sandbox.proofs import LockBroken
from threegate.sandbox.worker import find_worker

RULES = policy().bundle()
PROGRAM = Program("print('ran')\nsum(rows)", inputs={"rows": b"[1, 2]"})


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(str(find_worker().binary)) as opened:
        yield opened


def denied(pool: WorkerPool, job: LiteJob, rules: Bundle = RULES) -> str | None:
    """Return the code of a refusal, after the control that the honest job runs."""
    honest = gate.run(pool, RULES, job_for(PROGRAM, RULES))
    assert (honest.exit, honest.value, honest.stdout) == ("ok", b"3", b"ran\n"), "control"
    outcome = gate.run(pool, rules, job)
    assert (outcome.exit, outcome.stdout, outcome.stderr) == ("refused:approval", b"", b"")
    return outcome.code


# claim TG-C-93
def test_nothing_runs_without_the_approval_of_exactly_this(pool: WorkerPool) -> None:
    job = job_for(PROGRAM, RULES)
    other = job_for(Program("print('other')", inputs=PROGRAM.inputs), RULES)
    stranger = job_for(PROGRAM, RULES, key=Key(b"\x02" * 32))
    assert denied(pool, replace(job, request=other.request)) == "TG-APR-002"
    assert denied(pool, replace(job, request=b"")) == "TG-APR-001"
    assert denied(pool, replace(job, signature=other.signature)) == "TG-KEY-002"
    assert denied(pool, replace(job, signature=b"")) == "TG-KEY-001"
    assert denied(pool, stranger) == "TG-KEY-003"
    functions = samples.digest("others")
    assert denied(pool, job_for(PROGRAM, RULES, functions_sha256=functions)) == "TG-APR-004"
    changed = policy(tool_exec=("wall_ms: 30s", "wall_ms: 31s")).bundle()
    assert denied(pool, job, changed) == "TG-APR-005"


# claim TG-C-93
def test_inputs_are_the_approved_ones(pool: WorkerPool) -> None:
    job = job_for(PROGRAM, RULES)
    for inputs in ((), (("rows", b"[1, 3]"),), (("other", b"[1, 2]"), ("rows", b"[1, 2]"))):
        assert denied(pool, replace(job, inputs=inputs)) == OTHER_INPUTS
    small = policy(tool_exec=("input_bytes: 32MiB", "input_bytes: 5")).bundle()
    assert denied(pool, job_for(PROGRAM, small), small) == OTHER_INPUTS


def spelled(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


# claim TG-C-93
def test_the_gate_has_its_own_clock(pool: WorkerPool) -> None:
    now = int(time.time())
    window: dict[str, Any] = {"not_before": spelled(now - 7200), "not_after": spelled(now - 3600)}
    job = replace(job_for(PROGRAM, RULES, **window), at=now - 5000)
    # A host that says it is earlier is not believed; a replay is judged at its own time.
    assert denied(pool, job) == "TG-APR-007"
    assert gate.run(pool, RULES, replace(job, mode="replay")).value == b"3"
    assert denied(pool, replace(job, mode="replay", at=now)) == "TG-APR-007"


def test_limits_are_the_request_s_and_never_above_policy() -> None:
    job = job_for(PROGRAM, RULES)
    request = gate.approved(RULES, job, now=int(time.time()))
    made = gate.job_for(RULES, request, job)
    asked = request.limits
    assert (made.wall_ms, made.memory_bytes) == (asked.wall_ms, asked.memory_bytes)
    assert (made.output_bytes, made.recursion) == (asked.output_bytes, asked.recursion)
    tight = policy(tool_exec=("wall_ms: 30s", "wall_ms: 2s")).bundle()
    greedy = replace(request, limits=replace(asked, wall_ms=9_999_999))
    assert gate.job_for(tight, greedy, job).wall_ms == 2000


def test_imports_are_the_profile_s_within_the_lane_s() -> None:
    assert {"csv", "math"} <= gate.bounds_for(RULES, "pure").imports
    denying = policy(tool_exec=("denied_imports: []", "denied_imports: [csv]")).bundle()
    assert "csv" not in gate.bounds_for(denying, "pure").imports
    assert "math" in gate.bounds_for(denying, "pure").imports


# claim TG-C-90
def test_a_box_whose_functions_are_not_the_pinned_ones_refuses_to_work() -> None:
    assert gate.open_with(RULES.bundle_bytes()) == RULES, "control"

    def other(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["functions"]["json_loads"]["sha256"] = "0" * 64

    found = gate.open_with(altered(policy(), other).bundle().bundle_bytes())
    assert isinstance(found, GateRefused)
    assert (found.code, "json_loads" in found.message) == ("TG-FUN-001", True)

    def fewer(sections: dict[str, Any]) -> None:
        del sections["tool-exec"]["functions"]["json_loads"]

    assert isinstance(gate.open_with(altered(policy(), fewer).bundle().bundle_bytes()), Bundle)


def test_a_bundle_that_is_none_is_refused_with_its_code() -> None:
    found = gate.open_with(b"{}")
    assert isinstance(found, GateRefused)
    assert found.code.startswith("TG-POL-")


# claim TG-C-93
def test_an_unexpected_error_tells_nothing_of_the_box(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> LiteOutcome:
        raise OSError("/gate/secret is missing")

    monkeypatch.setattr(lane, "run", fail)
    outcome = gate.run(pool, RULES, job_for(PROGRAM, RULES))
    assert outcome == LiteOutcome("crashed", stderr=b"the gate could not run the request")


def test_check_offers_what_policy_offers(pool: WorkerPool) -> None:
    checked = gate.tell(pool, RULES, CheckCode("json_loads('1')", ("json_loads",), (), "pure"))
    assert checked.refusal is None
    refused = gate.tell(pool, RULES, CheckCode("x = 1\nimport os", (), (), "pure"))
    assert refused.refusal is not None
    assert (refused.refusal.construct, refused.refusal.line) == ("import", 2)
    with pytest.raises(ProtocolBroken, match="profile"):
        gate.tell(pool, RULES, CheckCode("1", (), (), "python"))
    with pytest.raises(ProtocolBroken, match="function"):
        gate.tell(pool, RULES, CheckCode("1", ("eval",), (), "pure"))


_START = (
    "import os, sys; os.dup2(1, 3); os.dup2(2, 1)\n"
    "from threegate.gates.tool_exec import gate\n"
    "made = gate.WorkerPool\n"
    "gate.WorkerPool = lambda: made(sys.argv[1])\n"
    "exec(sys.argv[2])\n"
    "gate.serve()\n"
)


def served(*messages: bytes, slip: str = "") -> tuple[int, list[bytes], bytes]:
    """Return how a gate ended that was sent these bytes, its answers, and its stderr."""
    command = [sys.executable, "-c", _START, str(find_worker().binary), slip]
    ended = subprocess.run(command, input=b"".join(messages), capture_output=True, check=False)
    answers, held = [], b""
    for kind, piece in FrameReader().feed(ended.stdout):
        held += piece
        if kind == END:
            answers.append(held)
            held = b""
    assert not held
    return ended.returncode, answers, ended.stderr


OPENING = frames(LiteOpening(RULES.bundle_bytes()).to_bytes())


def test_serves_until_the_host_is_done() -> None:
    jobs = [job_for(Program(f"print({n})\n{n} * 2"), RULES) for n in range(3)]
    code, answers, err = served(OPENING, *(frames(job.to_bytes()) for job in jobs))
    assert (code, err) == (os.EX_OK, b"")
    assert isinstance(GREETING.parse(Untrusted(answers[0])), GateReady)
    outcomes = [parse_outcome(Untrusted(answer)) for answer in answers[1:]]
    assert [outcome.value for outcome in outcomes] == [b"0", b"2", b"4"]
    assert served() == (os.EX_OK, [], b""), "a host that says nothing is told nothing"


@pytest.mark.parametrize(
    ("messages", "answers"),
    [
        ([frames(b"")], 0),
        ([b"\xff" * 100], 0),
        ([HEADER.pack(1, 5) + b"abc"], 0),
        ([frames(job_for(PROGRAM, RULES).to_bytes())], 0),  # a job before the rules
        ([OPENING, OPENING], 1),
        ([OPENING, frames(b"{}\n")], 1),
        ([OPENING, HEADER.pack(1, 9)], 1),
    ],
)
# claim TG-C-93
def test_a_host_that_breaks_the_protocol_is_not_served(messages: list[bytes], answers: int) -> None:
    code, found, err = served(*messages)
    assert (code, len(found), err) == (payload.EX_PROTOCOL, answers, b""), "and not a word"


def test_a_slip_of_the_gate_s_own_ends_it_without_a_word() -> None:
    check = frames(CheckCode("1", (), (), "pure").to_bytes())
    slip = "def check(*_, **__): raise OSError('/gate/secret is missing')\ngate.check = check"
    code, answers, err = served(OPENING, check)
    assert (code, len(answers), err) == (os.EX_OK, 2, b""), "control: it answers"
    code, answers, err = served(OPENING, check, slip=slip)
    assert (code, len(answers), err) == (payload.EX_SOFTWARE, 1, b""), "its greeting, and no more"


def test_rules_it_cannot_work_under_are_refused_and_it_ends() -> None:
    code, answers, err = served(frames(LiteOpening(b"{}").to_bytes()), OPENING)
    assert (code, len(answers), err) == (os.EX_OK, 1, b"")
    assert isinstance(GREETING.parse(Untrusted(answers[0])), GateRefused)


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
        found = gate.enforced(one.bundle, Prove((), {}), gate.bounds_for)
        assert found == LiteKind().expected(one.bundle), "control: an honest box"
    digests = [LiteKind().expected(one.bundle).rings["pure"] for one in (FIRST, SECOND, THIRD)]
    assert len(set(digests)) == 3, "control: each policy reads otherwise"
    # A box that took the new bundle and goes on to check programs by the one before.
    old = lambda _bundle, name: gate.bounds_for(FIRST.bundle, name)  # noqa: E731
    lying = gate.enforced(SECOND.bundle, Prove((), {}), old)
    assert (lying.generation, lying.policy) == (2, SECOND.bundle.digest)
    assert lying != LiteKind().expected(SECOND.bundle)


def test_a_lock_that_does_not_hold_is_no_answer() -> None:
    # Outside every box the first act that must be impossible is possible.
    with pytest.raises(LockBroken):
        gate.enforced(FIRST.bundle, Prove(("alone",), {}), gate.bounds_for)
