"""Frames of a guest: read exactly, or refused; and the agent speaks the same protocol."""

import contextlib
import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.guest_messages import FileAhead, GuestExit, GuestFacts, GuestTask
from threegate.host.images.choice import Sources
from threegate.host.run.heavy.lane import NOTHING
from threegate.policy.ring.executor_profile import RingViolation

AGENT = Sources.usual().agent / "__main__.py"
NONCE = "0" * 32
FACTS = {
    "cpus": 1,
    "environment": 0,
    "interfaces": [["lo", False]],
    "memory_kib": 200_000,
    "mounts": [["/", "overlay", "ro"]],
    "resolver": False,
    "ring": "0" * 64,
    "ring_proved": ["exec"],
    "routes": 0,
}


def body(value: object) -> Untrusted[bytes]:
    return Untrusted(canonical.encode(value))


@given(st.binary(max_size=300))
def test_any_body_is_read_or_refused(data: bytes) -> None:
    for parse in (
        lambda raw: guest.parse_facts(raw, NONCE),
        lambda raw: guest.parse_ready(raw, NONCE),
        guest.parse_file,
        guest.parse_exit,
        guest.parse_violation,
    ):
        with contextlib.suppress(ProtocolBroken):
            parse(Untrusted(data))


@given(st.binary(min_size=5, max_size=5))
def test_a_header_is_bounded_before_its_body_is_read(head: bytes) -> None:
    try:
        kind, length = guest.parse_header(head)
    except ProtocolBroken:
        return
    assert kind in guest.FROM_GUEST
    assert length <= guest.MAX_FRAME_BYTES


def test_facts_are_those_that_were_asked_for() -> None:
    found = guest.parse_facts(body({"facts": FACTS, "nonce": NONCE}), NONCE)
    assert found == GuestFacts(
        1,
        0,
        (("lo", False),),
        200_000,
        (("/", "overlay", "ro"),),
        resolver=False,
        ring="0" * 64,
        ring_proved=("exec",),
        routes=0,
    )
    with pytest.raises(ProtocolBroken, match="not to our question"):
        guest.parse_facts(body({"facts": FACTS, "nonce": "1" * 32}), NONCE)


@pytest.mark.parametrize(
    "change",
    [
        {"cpus": "1"},
        {"cpus": True},
        {"cpus": -1},
        {"resolver": 0},
        {"interfaces": [["lo"]]},
        {"interfaces": [["lo", 1]]},
        {"interfaces": [["l o", False]]},
        {"mounts": [["/", "overlay"]]},
        {"mounts": [["/", "overlay", "r\u202eo"]]},
        {"mounts": [["/", "overlay", "ro"]] * 65},
        {"ring": "0" * 63},
        {"ring": None},
        {"ring_proved": "exec"},
        {"ring_proved": ["e x"]},
        {"more": 1},
    ],
)
def test_other_facts_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolBroken):
        guest.parse_facts(body({"facts": FACTS | change, "nonce": NONCE}), NONCE)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a/b", "-x", ".x", "x" * 129, "x\n"])
def test_a_file_with_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ProtocolBroken):
        guest.parse_file(body({"bytes": 1, "name": name}))
    assert guest.parse_file(body({"bytes": 1, "name": "x.csv"})) == FileAhead(1, "x.csv")


def test_an_exit_has_a_code_or_a_signal() -> None:
    assert guest.parse_exit(body({"code": 3, "oom": False, "signal": 0})) == GuestExit(
        3, oom=False, signal=0
    )
    for value in ({"code": 1, "oom": False, "signal": 9}, {"code": 0, "oom": 0, "signal": 0}):
        with pytest.raises(ProtocolBroken):
            guest.parse_exit(body(value))


def test_a_violation_names_a_rule_and_holds_nothing_a_reader_would_not_see() -> None:
    right = {"argument": "requests", "line": 3, "rule": "denied_imports"}
    assert guest.parse_violation(body(right)) == RingViolation("denied_imports", "requests", 3)
    for change in (
        {"rule": "other"},
        {"argument": ""},
        {"argument": "x" * 201},
        {"argument": "a\u202eb"},
        {"argument": "a\nb"},
        {"line": -1},
        {"line": True},
        {"more": 1},
    ):
        with pytest.raises(ProtocolBroken):
            guest.parse_violation(body(right | change))


def test_the_agent_speaks_the_same_protocol() -> None:
    spec = importlib.util.spec_from_file_location("agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    names = ("WARM", "HELLO", "JOB", "READY", "FACTS", "STDOUT", "STDERR", "FILE", "DATA", "EXIT")
    for name in (*names, "VIOLATION", "PORT_NAME"):
        assert getattr(agent, name) == getattr(guest, name), name
    assert agent.prepare_places.__globals__["IN_SERIAL"] == guest.IN_SERIAL
    assert agent.HEADER.format == guest.HEADER.format
    assert agent.PIECE_BYTES <= guest.MAX_FRAME_BYTES
    task = GuestTask((), 1, inputs=True, outputs=("x",), processes=2, recursion=9, ring=NOTHING)
    source = "".join(path.read_text("utf-8") for path in AGENT.parent.glob("*.py"))
    head = guest.HEADER.size
    frame = task.frames(b"pass", now_ns=1)
    _, length = guest.HEADER.unpack(frame[:head])
    for key in canonical.decode(frame[head : head + length]):
        assert f'job["{key}"]' in source or f"job['{key}']" in source, f"{key} is not read"
    file, data = guest.input_frame("table", 3), guest.frame(guest.DATA, b"abc")
    assert canonical.decode(file[head:]) == {"bytes": 3, "name": "table"}
    assert (guest.HEADER.unpack(data[:head]), data[head:]) == ((guest.DATA, 3), b"abc")
    for key in ("bytes", "name"):
        assert f'message["{key}"]' in source or f"message['{key}']" in source
    assert frame.endswith(b"pass")
