"""Messages between the host and CORE: what is said is what is read, and nothing else is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.errors import ProtocolBroken
from threegate.protocol.core import (
    Budget,
    Cited,
    Claimed,
    FetchDraft,
    NotSaid,
    Said,
    Source,
    Task,
    ToolDraft,
    Usage,
    parse_said,
    parse_task,
)
from threegate.untrusted import Untrusted

TASK = Task(
    question="How strong is ice?",
    policy=("CORE may draft requests.",),
    brief=("You answer from the sources.",),
    may_draft=("tool-request",),
    marker="00" * 16,
    model="test",
    budget=Budget(4096, 512, 10, 2, 2, 60_000),
    sources=(Source("packet from example.org", ("Ice broke.", "It was cold.")), Source("x", ())),
)
SAID = Said(
    method="model",
    claims=(Claimed(Untrusted("Ice breaks."), (Cited(1, 1, 1), Cited(1, 2, 1))),),
    drafts=(
        ToolDraft(Untrusted("mean"), Untrusted("1 + 1"), (1,)),
        FetchDraft(Untrusted("more"), (Untrusted("doi:10.5555/12345678"),)),
    ),
    notes=(Untrusted("a note"),),
    shown=(1,),
    left_out=3,
    problems=("the reply was cut off",),
    usage=Usage(3, 1, 100, 20, 900),
)


def test_a_task_is_read_as_it_was_sent() -> None:
    assert parse_task(Untrusted(TASK.to_bytes())) == TASK


def test_what_is_said_is_read_as_it_was_sent() -> None:
    assert parse_said(Untrusted(SAID.to_bytes())) == SAID
    refusal = NotSaid("TG-COR-001", "the model does not answer")
    assert parse_said(Untrusted(refusal.to_bytes())) == refusal


@given(st.binary(max_size=200))
def test_other_bytes_are_no_message(data: bytes) -> None:
    for parse in (parse_task, parse_said):
        with pytest.raises(ProtocolBroken):
            parse(Untrusted(data))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_another_message_or_none(at: int, value: int) -> None:
    data = bytearray(SAID.to_bytes())
    at %= len(data)
    if data[at] == value:
        return
    data[at] = value
    try:
        found = parse_said(Untrusted(bytes(data)))
    except ProtocolBroken:
        return
    assert found != SAID, "two spellings of one message"
    assert found.to_bytes() == bytes(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "extractive"},
        {"shown": (0,)},
        {"left_out": -1},
        {"problems": ("two\nlines",)},
        {"notes": (Untrusted(""),)},
        {"claims": SAID.claims * 501},
        {"drafts": SAID.drafts * 33},
    ],
)
def test_nothing_beyond_the_bounds_is_said(changes: dict[str, object]) -> None:
    assert SAID.to_bytes(), "control: without the change it can be said"
    with pytest.raises(ProtocolBroken):
        replace(SAID, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"question": ""},
        {"marker": "short"},
        {"may_draft": ("approval",)},
        {"brief": ("a\nb",)},
        {"sources": TASK.sources * 1001},
    ],
)
def test_nothing_beyond_the_bounds_is_asked(changes: dict[str, object]) -> None:
    assert TASK.to_bytes(), "control: without the change it can be asked"
    with pytest.raises(ProtocolBroken):
        replace(TASK, **changes)  # type: ignore[arg-type]


def test_a_cite_is_counted_from_one() -> None:
    assert Cited(1, 1, 1).sentence == 1
    with pytest.raises(ProtocolBroken):
        Cited(1, 0, 1)
