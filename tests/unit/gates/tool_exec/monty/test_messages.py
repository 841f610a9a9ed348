"""Messages of the lite lane: any bytes parse or are refused; one spelling each."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import REFUSAL
from threegate.artifacts.limits import MAX_CODE_CHARS
from threegate.base import canonical, limits
from threegate.base.errors import ProtocolBroken
from threegate.base.greeting import GateReady, GateRefused
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import (
    GREETING,
    MAX_CODE_BYTES,
    PROTOCOL,
    Adopt,
    CheckCode,
    CodeChecked,
    Enforced,
    LiteCut,
    LiteJob,
    LiteOpening,
    LiteOutcome,
    Prove,
    RefusalFound,
    parse_ask,
    parse_checked,
    parse_enforced,
    parse_opening,
    parse_outcome,
)

Message = (
    LiteOpening
    | GateReady
    | GateRefused
    | LiteJob
    | CheckCode
    | LiteOutcome
    | CodeChecked
    | Adopt
    | Prove
    | Enforced
)
PARSERS: dict[type, Callable[[Untrusted[bytes]], Message]] = {
    LiteOpening: parse_opening,
    GateReady: GREETING.parse,
    GateRefused: GREETING.parse,
    LiteJob: parse_ask,
    CheckCode: parse_ask,
    LiteOutcome: parse_outcome,
    CodeChecked: parse_checked,
    Adopt: parse_ask,
    Prove: parse_ask,
    Enforced: parse_enforced,
}
tries = st.lists(st.sampled_from(["alone", "call:ptrace", "limit:cpu 600"])).map(tuple)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
name_sets = st.sets(names, max_size=4).map(lambda found: tuple(sorted(found)))
sentences = st.text(min_size=1, max_size=40).filter(
    lambda text: FORBIDDEN.search(text) is None and not set(text) & {"\n", "\t"}
)
refusals = st.none() | st.builds(
    RefusalFound, construct=sentences, line=st.integers(1, 1_000_000), reason=sentences
)
messages = st.one_of(
    st.builds(LiteOpening, st.binary()),
    st.builds(
        GateReady,
        st.just(PROTOCOL),
        st.dictionaries(
            st.from_regex("[a-z][a-z-]{0,9}", fullmatch=True), st.sampled_from(["1.4.0", "x"])
        ),
    ),
    st.builds(
        GateRefused, protocol=st.just(PROTOCOL), code=st.just("TG-FUN-001"), message=sentences
    ),
    st.builds(
        LiteJob,
        mode=st.sampled_from(["run", "replay"]),
        at=st.integers(0, 2**53 - 1),
        request=st.binary(),
        approval=st.binary(),
        signature=st.binary(),
        inputs=st.dictionaries(names, st.binary(), max_size=4).map(
            lambda found: tuple(sorted(found.items()))
        ),
    ),
    st.builds(
        CheckCode,
        code=st.text(st.characters(codec="utf-8")),
        functions=name_sets,
        inputs=name_sets,
        profile=st.just("pure"),
    ),
    st.builds(
        LiteOutcome,
        exit=st.just("ok"),
        value=st.binary(),
        stdout=st.binary(),
        stderr=st.binary(),
        cut=st.builds(LiteCut, stdout=st.booleans()),
        cpu_ms=st.integers(0, 2**40),
    ),
    st.builds(LiteOutcome, exit=st.just("refused:import"), refusal=refusals),
    st.builds(CodeChecked, refusals, st.lists(refusals.filter(bool), max_size=3).map(tuple)),
    st.builds(Adopt, st.binary(), st.binary(max_size=limits.MAX_SIGNATURE_BYTES)),
    st.builds(Prove, tries, st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))),
    st.builds(
        Enforced,
        generation=st.integers(1, 2**53 - 1),
        policy=st.just("0" * 64),
        rings=st.dictionaries(st.sampled_from("abc"), st.just("1" * 64)),
        tried=tries,
    ),
)


def again(message: Message) -> Message:
    return PARSERS[type(message)](Untrusted(message.to_bytes()))


@given(messages)
def test_any_message_comes_back_with_the_same_bytes(message: Message) -> None:
    parsed = again(message)
    assert parsed == message
    assert parsed.to_bytes() == message.to_bytes()


def header(**changes: Any) -> bytes:
    fields = {"at": 1, "inputs": ["a"], "mode": "run"}
    head: dict[str, Any] = {"kind": "job", "parts": [1, 1, 1, 1], "protocol": PROTOCOL}
    head |= {"fields": fields} | changes
    return canonical.encode(head) + b"\nrasi"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no header"),
        (b"{}\n", "not a message"),
        (b" " * limits.MAX_HEADER_BYTES + b"\n", "no header"),
        (b"[" * 60_000 + b"\n", "not canonical"),
        (header(protocol="tool-lite/2"), "not a message"),
        (header(kind=7), "not a message"),
        (header(fields=[]), "not a message"),
        (header(kind="opening"), "not the message that is due"),
        (header(kind="outcome"), "not the message that is due"),
        (header(parts=[1, 1, 1]), "do not fill"),
        (header(parts=[1, 1, 1, 2]), "do not fill"),
        (header(parts=[-1, 2, 2, 1]), "without a length"),
        (header(parts=[True, 1, 1, 1]), "without a length"),
        (header(parts=[4]), "approval is missing"),
        (header(parts=[0] * 68 + [4]), "too many parts"),
        (header(parts="4"), "too many parts"),
        (header(fields={"at": 1, "inputs": ["a"]}), "unexpected fields"),
        (
            header(fields={"at": 1, "inputs": ["a"], "mode": "try"}),
            "mode is not one of the known values",
        ),
        (header(fields={"at": -1, "inputs": ["a"], "mode": "run"}), "at is not"),
        (header(fields={"at": True, "inputs": ["a"], "mode": "run"}), "at is not"),
        (header(fields={"at": 1, "inputs": ["a.b"], "mode": "run"}), "not a Python identifier"),
        (header(fields={"at": 1, "inputs": [1], "mode": "run"}), "not a string"),
        (header(fields={"at": 1, "inputs": "a", "mode": "run"}), "not a list"),
        (header() + b"x", "do not fill"),
    ],
)
def test_what_is_no_job_is_refused(data: bytes, reason: str) -> None:
    assert isinstance(parse_ask(Untrusted(header())), LiteJob), "control"
    with pytest.raises(ProtocolBroken, match=reason):
        parse_ask(Untrusted(data))


@pytest.mark.parametrize(
    "fields",
    [
        {"exit": "done"},
        {"exit": "limit:UP"},
        {"exit": "ok\n"},
        {"exit": "error", "value": b"1"},
        {"exit": "ok", "stdout": b"x" * (limits.MAX_STREAM_BYTES + 1)},
        {"exit": "ok", "cut": (False, 1, False)},
        {"exit": "ok", "calls": (("sha256_hex", 0),)},
        {"exit": "ok", "calls": (("b", 1), ("a", 1))},
        {"exit": "ok", "calls": (("a", 1), ("a", 1))},
        {"exit": "ok", "cpu_ms": -1},
        {"exit": "ok", "refusal": REFUSAL},
        {"exit": "error", "code": "TG-APR-001", "message": "no"},
        {"exit": "refused:approval"},
        {"exit": "refused:approval", "code": "TG-APR-001"},
        {"exit": "refused:approval", "code": "TG-APR-1", "message": "no"},
        {"exit": "refused:approval", "code": "TG-APR-001", "message": "a\nb"},
        {"exit": "refused:approval", "code": "TG-APR-001", "message": "\u202eno"},
        {"exit": "refused:approval", "code": "TG-APR-001", "message": "no", "stdout": b"ran"},
    ],
)
def test_an_outcome_that_contradicts_itself_cannot_be_built(fields: dict[str, Any]) -> None:
    assert LiteOutcome("ok", b"1").value == b"1", "control"
    with pytest.raises(ProtocolBroken):
        LiteOutcome(**fields)


@pytest.mark.parametrize(
    ("construct", "line", "reason"),
    [
        ("", 1, "x"),
        ("x", 0, "x"),
        ("x", 1_000_001, "x"),
        ("x", True, "x"),
        ("x", 1, "x" * 501),
        ("\x1b[2J", 1, "x"),
    ],
)
def test_a_refusal_fits_the_artifact_it_will_stand_in(
    construct: str, line: int, reason: str
) -> None:
    with pytest.raises(ProtocolBroken):
        RefusalFound(construct, line, reason)


def test_a_host_that_sends_too_much_is_not_listened_to() -> None:
    with pytest.raises(ProtocolBroken, match="too large"):
        LiteJob("run", 1, b"x" * (limits.MAX_REQUEST_BYTES + 1), b"", b"", ())
    with pytest.raises(ProtocolBroken, match="limit"):
        GREETING.parse(Untrusted(b"x" * (limits.MAX_HEADER_BYTES + 1)))


def test_any_code_of_a_request_can_be_checked() -> None:
    assert MAX_CODE_BYTES >= MAX_CODE_CHARS
