"""Messages of the heavy lane: one spelling, strict both ways."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base import wire
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.messages import (
    Channels,
    GivenInput,
    GuestFailed,
    GuestPrepared,
    GuestShape,
    HeavyCut,
    HeavyJob,
    HeavyOutcome,
    Prepare,
    Probe,
    Probed,
    parse_outcome,
)
from threegate.host.run.heavy.lane import NOTHING

ENDS = Channels(10, 11)
JOB = HeavyJob(
    ENDS,
    GuestShape(1, 2**28),
    60,
    (GivenInput("a", 3), GivenInput("b", 0)),
    12,
    b"{}",
    b"r",
    b"a",
    b"s",
)
OUTCOME = HeavyOutcome(
    "error",
    exit_code=-9,
    stdout=b"out",
    stderr=b"err",
    cut=HeavyCut(stderr=True),
    files=(("a.csv", b"1"), ("b", b"")),
    probes=("guest-cpus", "guest-memory"),
)


PREPARE, PROBE = Prepare(ENDS, ("json",), NOTHING, 9), Probe(ENDS, NOTHING, 9, GuestShape(2, 2**27))


@pytest.mark.parametrize("ask", [PREPARE, PROBE, JOB])
def test_every_ask_has_one_spelling(ask: tool_heavy.HeavyAsk) -> None:
    assert tool_heavy.parse_ask(Untrusted(ask.to_bytes())) == ask


def test_every_answer_has_one_spelling() -> None:
    for prepared in (GuestPrepared(("json",)), GuestFailed("no guest")):
        assert tool_heavy.parse_prepared(Untrusted(prepared.to_bytes())) == prepared
    for probed in (Probed(("guest-cpus", "guest-memory")), GuestFailed("no guest")):
        assert tool_heavy.parse_probed(Untrusted(probed.to_bytes())) == probed
    for outcome in (
        OUTCOME,
        HeavyOutcome("ok", exit_code=0),
        HeavyOutcome("crashed", stderr=b"why", note="the virtual machine stopped: guest-panicked"),
        HeavyOutcome("refused:approval", code="TG-APR-001", message="no"),
    ):
        assert parse_outcome(Untrusted(outcome.to_bytes())) == outcome


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for parse in (
        tool_heavy.parse_ask,
        tool_heavy.parse_prepared,
        tool_heavy.parse_probed,
        parse_outcome,
    ):
        with pytest.raises(ProtocolBroken):
            parse(Untrusted(data))


@pytest.mark.parametrize(
    "change",
    [
        {"disk": 0},
        {"inputs": ()},
        {"inputs": (GivenInput("b", 0), GivenInput("a", 3))},
        {"inputs": (GivenInput("a", 0), GivenInput("a", 3))},
        {"seconds": 0},
        {"signature": bytes(5000)},
    ],
)
def test_a_job_that_breaks_a_rule_is_never_built(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(JOB, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["landlock"], "not one of the known"),
        (["engine-landlock:write", "guest-cpus"], "not one of the known"),
        (["guest-cpu"], "not one of the known"),
        ([1], "not a string"),
        ([["guest-cpus"]], "not a string"),
        (["guest-cpus", "guest-cpus"], "holds an item twice"),
        (["guest-cpus"] * (len(tool_heavy.PROBES) + 1), "items, not 0 to"),
    ],
)
def test_an_owned_gate_cannot_say_what_confined_a_run(names: list[object], reason: str) -> None:
    said: dict[str, object] = {
        "code": None,
        "cut": [False, False],
        "exit": "ok",
        "exit_code": 0,
        "files": [],
        "message": None,
        "note": None,
        "probes": ["guest-cpus"],
        "violations": [],
    }

    def sent(kind: str, fields: dict[str, object], parts: int) -> Untrusted[bytes]:
        return Untrusted(wire.pack(tool_heavy.PROTOCOL, kind, fields, [b""] * parts))

    assert parse_outcome(sent("outcome", said, 3)).probes == ("guest-cpus",), "control"
    with pytest.raises(ProtocolBroken, match=reason):
        parse_outcome(sent("outcome", said | {"probes": names}, 3))
    with pytest.raises(ProtocolBroken, match=reason):
        tool_heavy.parse_probed(sent("probed", {"probes": names}, 0))


@pytest.mark.parametrize("ends", [(3, 10), (10, 10), (10, 1024), (True, 10)])
def test_channels_are_two_descriptors_of_their_own(ends: tuple[int, int]) -> None:
    with pytest.raises(ProtocolBroken):
        Channels(*ends)


@pytest.mark.parametrize("nonce", ["0" * 31, "0" * 33, "G" * 32, 0, None])
def test_a_greeting_has_the_nonce_of_one(nonce: object) -> None:
    assert Channels(10, 11, "0" * 32).greeted == "0" * 32, "control"
    with pytest.raises(ProtocolBroken):
        Channels(10, 11, nonce)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"exit": "fine"},
        {"exit": "ok"},  # with the code of a signal
        {"exit": "limit:time"},  # with an exit code
        {"exit_code": 256},
        {"exit_code": True},
        {"files": (("b", b""), ("a", b""))},
        {"files": (("a", b""), ("a", b""))},
        {"files": (("../a", b""),)},
        {"probes": ("guest-memory", "guest-cpus")},
        {"code": "TG-APR-001", "message": "no"},
        {"exit": "refused:guest", "exit_code": None},  # with output
    ],
)
def test_an_outcome_that_breaks_a_rule_is_never_built(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(OUTCOME, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "note"),
    [("ok", "fine"), ("error", "fine"), ("limit:time", "fine"), ("refused:approval", "fine")],
)
# claim TG-C-242
def test_a_note_of_the_gate_is_about_a_machine_that_stopped(state: str, note: str) -> None:
    assert HeavyOutcome("crashed", note=note).note == note, "control"
    more = {"code": "TG-APR-001", "message": "no"} if state.startswith("refused") else {}
    number = {"ok": 0, "error": 1}.get(state)
    with pytest.raises(ProtocolBroken, match="what did not crash"):
        HeavyOutcome(state, number, note=note, **more)  # type: ignore[arg-type]
    for text in ("", "two\nlines", "<b>", "\x1b[1m", "x" * 201):
        with pytest.raises(ProtocolBroken, match="note"):
            HeavyOutcome("crashed", note=text)
