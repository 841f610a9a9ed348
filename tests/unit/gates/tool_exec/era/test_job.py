"""One job, heard from a guest that may say anything: counted before it is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.job import JobBounds, Over, Taken

BOUNDS = JobBounds(wall_ms=1000, output_bytes=10, disk_bytes=8, files={"a": 5, "b": 8})


def body(value: object) -> Untrusted[bytes]:
    return Untrusted(canonical.encode(value))


def file(name: str, size: int) -> tuple[int, Untrusted[bytes]]:
    return guest.FILE, body({"bytes": size, "name": name})


def data(text: bytes) -> tuple[int, Untrusted[bytes]]:
    return guest.DATA, Untrusted(text)


def heard(*frames: tuple[int, Untrusted[bytes]]) -> Taken:
    taken = Taken(BOUNDS)
    for frame in frames:
        taken.take(*frame)
    return taken


def test_streams_and_files_come_together() -> None:
    out, err = (guest.STDOUT, Untrusted(b"out")), (guest.STDERR, Untrusted(b"err"))
    taken = heard(out, err, file("a", 3), data(b"ab"), data(b"c"), file("b", 0))
    outcome = taken.outcome("ok", 0)
    assert (outcome.stdout, outcome.stderr) == (b"out", b"err")
    assert outcome.files == (("a", b"abc"), ("b", b""))
    assert taken.outcome("limit:time").files == (), "of a job that did not end no file is kept"


def test_output_is_cut_at_its_limit_over_both_streams() -> None:
    taken = heard((guest.STDOUT, Untrusted(b"12345678")))
    with pytest.raises(Over, match="limit:output"):
        taken.take(guest.STDERR, Untrusted(b"1234"))
    outcome = taken.outcome("limit:output")
    assert (outcome.stdout, outcome.stderr) == (b"12345678", b"12")
    assert (outcome.cut.stdout, outcome.cut.stderr) == (False, True)


@pytest.mark.parametrize(
    "frames",
    [
        [file("a", 6)],
        [file("a", 5), data(b"12345"), file("b", 4)],
        [file("b", 9)],
        [file("b", 2**40 + 1)],  # a sparse one: the job is told its limit, and is no liar
        [file("b", 2**63 - 1)],
    ],
)
def test_files_are_refused_before_a_byte_of_them_is_kept(
    frames: list[tuple[int, Untrusted[bytes]]],
) -> None:
    with pytest.raises(Over, match="limit:disk"):
        heard(*frames)


@pytest.mark.parametrize(
    "frames",
    [
        [file("c", 1)],
        [file("b", 2**63)],  # no file has this size
        [file("a", 0), file("a", 0)],
        [data(b"x")],
        [file("a", 1), data(b"xy")],
        [file("a", 2), data(b"")],
        [file("a", 2), (guest.STDOUT, Untrusted(b"x"))],
        [file("a", 0), (guest.STDOUT, Untrusted(b"x"))],
        [file("a", 1), (guest.EXIT, body({"code": 0, "oom": False, "signal": 0}))],
        [(guest.FACTS, Untrusted(b"{}"))],
    ],
)
def test_frames_out_of_place_break_the_protocol(
    frames: list[tuple[int, Untrusted[bytes]]],
) -> None:
    with pytest.raises(ProtocolBroken):
        heard(*frames)


@given(st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=12)), max_size=20))
def test_whatever_is_said_nothing_beyond_the_bounds_is_kept(
    frames: list[tuple[int, bytes]],
) -> None:
    taken = Taken(BOUNDS)
    try:
        for kind, raw in frames:
            taken.take(kind, Untrusted(raw))
    except (ProtocolBroken, Over):
        pass
    assert len(taken.stdout) + len(taken.stderr) <= BOUNDS.output_bytes
    assert sum(map(len, taken.files.values())) <= BOUNDS.disk_bytes
