"""The chain: every way in which a line can fail to be the next one, and its name."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auditlab import WORKSPACE, leaf_hash, root_of
from threegate.audit.chain import LAST, NOTHING_BEFORE, Chain
from threegate.audit.entry import (
    MAX_LINE_BYTES,
    SEGMENT_EVENTS,
    LogBroken,
    LogFault,
    emit_line,
    parse_data,
    time_of,
    unix_of,
)
from threegate.audit.writer import plan_batch
from threegate.base import canonical
from threegate.base.errors import AuditUnavailable, VersionUnsupported

TIME = "2026-11-15T21:50:55Z"
EVENT = ("test.event", {"b": [1, None, True], "a": {"text": 'ä\n"\\ \u2028'}})


def start() -> Chain:
    chain = Chain()
    chain.workspace = WORKSPACE
    return chain


def lines_of(count: int) -> list[bytes]:
    """Return the first `count` lines of a log."""
    plan = plan_batch(start(), [EVENT] * count, time=TIME)
    return b"".join(part.data for part in plan.parts).split(b"\n")[:count]


SEGMENT = lines_of(SEGMENT_EVENTS + 3)


def fed(count: int) -> Chain:
    chain = Chain()
    chain.feed(SEGMENT[:count], segment=0)
    return chain


def reason(line: bytes, *, after: int, segment: int = 0) -> LogFault:
    chain = fed(after)
    with pytest.raises(LogBroken) as caught:
        chain.feed([line], segment=segment)
    assert caught.value.seq == chain.size == after
    assert caught.value.exit_code == 76
    return caught.value.reason


def changed(line: bytes, **fields: Any) -> bytes:
    return canonical.encode({**json.loads(line), **fields})


def test_lines_are_canonical_json_and_chained() -> None:
    prev = NOTHING_BEFORE
    for seq, line in enumerate(SEGMENT):
        value = canonical.decode(line)
        assert list(value) == ["data", "kind", "prev", "seq", "time"]
        assert (value["prev"], value["seq"], value["time"]) == (prev, seq, TIME)
        prev = sha256(line).hexdigest()


def test_a_segment_is_a_header_its_events_and_a_seal() -> None:
    header, seal, second = (json.loads(SEGMENT[seq]) for seq in (0, LAST, SEGMENT_EVENTS))
    assert header["kind"] == second["kind"] == "segment"
    assert header["data"] == {
        "format": "log/1",
        "frontier": [],
        "latest": "",
        "segment": 0,
        "workspace": WORKSPACE,
    }
    covered = sha256(b"".join(line + b"\n" for line in SEGMENT[:LAST])).hexdigest()
    assert (seal["kind"], seal["data"]) == ("seal", {"events": LAST, "sha256": covered})
    root = root_of(leaf_hash(line) for line in SEGMENT[:SEGMENT_EVENTS])
    assert second["data"]["frontier"] == [root.hex()]
    assert second["data"]["latest"] == TIME


def test_chain_arrives_at_digest_time_and_root() -> None:
    chain = Chain()
    for line in SEGMENT[:SEGMENT_EVENTS]:
        chain.feed([line], segment=0)
    chain.feed(SEGMENT[SEGMENT_EVENTS:], segment=1)
    assert chain.head().digest == sha256(SEGMENT[-1]).hexdigest()
    assert chain.tree.root() == root_of(leaf_hash(line) for line in SEGMENT)
    assert (chain.workspace, chain.time) == (WORKSPACE, TIME)


def test_entries_carry_what_the_lines_say() -> None:
    links = Chain().feed(SEGMENT[:3], segment=0)
    entry = list(links.entries())[2]
    assert (entry.seq, entry.time, entry.kind, entry.data) == (2, TIME, *EVENT)
    assert (entry.prev, entry.digest) == tuple(
        sha256(line).hexdigest() for line in (SEGMENT[1], SEGMENT[2])
    )


def test_resuming_at_a_segment_leads_to_the_same_root() -> None:
    chain = Chain(segment=1, prev=sha256(SEGMENT[LAST]).hexdigest(), time=TIME)
    chain.feed(SEGMENT[SEGMENT_EVENTS:], segment=1)
    assert chain.tree.root() == root_of(leaf_hash(line) for line in SEGMENT)
    at_its_word = Chain(segment=1)
    at_its_word.feed(SEGMENT[SEGMENT_EVENTS:], segment=1)
    assert at_its_word.head() == chain.head()


def test_resuming_refuses_a_header_that_follows_something_else() -> None:
    chain = Chain(segment=1, prev="1" * 64, time=TIME)
    with pytest.raises(LogBroken) as caught:
        chain.feed(SEGMENT[SEGMENT_EVENTS:], segment=1)
    assert caught.value.reason is LogFault.CHAIN


LINE = SEGMENT[5]
WRONG: dict[str, tuple[Callable[[], bytes], LogFault]] = {
    "empty": (lambda: b"", LogFault.FORM),
    "text": (lambda: b"hello", LogFault.FORM),
    "nul bytes": (lambda: b"\0" * 300, LogFault.FORM),
    "another number": (lambda: changed(LINE, seq=6), LogFault.ORDER),
    "number as text": (lambda: changed(LINE, seq="5"), LogFault.FORM),
    "another digest": (lambda: changed(LINE, prev="1" * 64), LogFault.CHAIN),
    "upper case digest": (
        lambda: changed(LINE, prev=json.loads(LINE)["prev"].upper()),
        LogFault.FORM,
    ),
    "earlier time": (lambda: changed(LINE, time="2026-11-15T21:50:54Z"), LogFault.TIME),
    "no such day": (lambda: changed(LINE, time="2027-02-30T00:00:00Z"), LogFault.TIME),
    "no such second": (lambda: changed(LINE, time="2027-02-20T00:00:60Z"), LogFault.TIME),
    "time with a space": (lambda: changed(LINE, time="2027-02-20 00:00:00Z"), LogFault.TIME),
    "local time": (lambda: changed(LINE, time="2027-02-20T00:00:00"), LogFault.FORM),
    "header in the middle": (lambda: changed(LINE, kind="segment"), LogFault.KIND),
    "seal in the middle": (lambda: changed(LINE, kind="seal"), LogFault.KIND),
    "kind in capitals": (lambda: changed(LINE, kind="Test"), LogFault.KIND),
    "empty kind": (lambda: changed(LINE, kind=""), LogFault.KIND),
    "long kind": (lambda: changed(LINE, kind="a" * 65), LogFault.KIND),
    "kind with a newline": (lambda: changed(LINE, kind="a\nb"), LogFault.KIND),
    "data is a list": (lambda: changed(LINE, data=[]), LogFault.FORM),
    "data is null": (lambda: changed(LINE, data=None), LogFault.FORM),
    "float": (lambda: changed(LINE, data={"a": 1.5}), LogFault.DATA),
    "nan": (lambda: LINE.replace(b"[1,null", b"[NaN,null"), LogFault.DATA),
    "negative zero": (lambda: LINE.replace(b"[1,null", b"[-0,null"), LogFault.DATA),
    "endless number": (lambda: LINE.replace(b"[1,", b"[" + b"1" * 5000 + b","), LogFault.DATA),
    "space in the data": (lambda: LINE.replace(b'"b":[', b'"b": ['), LogFault.DATA),
    "escape of a plain character": (lambda: LINE.replace(b'"b":', b'"\\u0062":'), LogFault.DATA),
    "lone surrogate": (lambda: LINE.replace(b'"b":[', b'"b":["\\ud800",'), LogFault.DATA),
    "duplicate key": (lambda: LINE.replace(b'"b":', b'"b":0,"b":'), LogFault.DATA),
    "keys out of order": (lambda: LINE.replace(b'"b":', b'"c":0,"b":'), LogFault.DATA),
    "bytes that are no text": (lambda: LINE.replace(b'"b":', b'"\xff":'), LogFault.DATA),
    "two values as data": (lambda: LINE.replace(b',"kind"', b',{},"kind"'), LogFault.DATA),
    "unknown field after the data": (lambda: changed(LINE, extra=1), LogFault.DATA),
    "unknown field at the end": (lambda: changed(LINE, zebra=1), LogFault.FORM),
    "missing field": (lambda: LINE.replace(b',"kind":"test.event"', b""), LogFault.FORM),
    "second data": (lambda: LINE.replace(b'{"data":', b'{"data":{},"data":'), LogFault.DATA),
    "space before": (lambda: b" " + LINE, LogFault.FORM),
    "space behind": (lambda: LINE + b" ", LogFault.FORM),
    "carriage return": (lambda: LINE + b"\r", LogFault.FORM),
    "deep": (lambda: changed(LINE, data={"a": json.loads("[" * 20 + "]" * 20)}), LogFault.DATA),
    "bottomless": (
        lambda: LINE.replace(b"[1,", b"[" * 20_000 + b"]" * 20_000 + b","),
        LogFault.DATA,
    ),
    "too long": (lambda: changed(LINE, data={"a": "x" * MAX_LINE_BYTES}), LogFault.TOO_LONG),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_line_that_is_not_the_next_one_is_named(name: str) -> None:
    assert fed(5).feed([LINE], segment=0).datas, "control"
    make, expected = WRONG[name]
    assert reason(make(), after=5) is expected


def test_numbers_as_data_of_two_lines_do_not_merge() -> None:
    """1 is the beginning of 12: the argument for comparing in bulk holds for objects only."""
    for data in (b"1", b"12", b'"a"', b"[]", b"true"):
        assert (
            reason(LINE.replace(LINE[8 : LINE.index(b',"kind"')], data), after=5) is LogFault.FORM
        )


HEADER = SEGMENT[SEGMENT_EVENTS]
SAYS = json.loads(HEADER)["data"]
HEADERS: dict[str, dict[str, Any]] = {
    "another workspace": {"workspace": "f" * 32},
    "no workspace": {"workspace": None},
    "another segment": {"segment": 2},
    "true for one": {"segment": True},
    "another frontier": {"frontier": ["0" * 64]},
    "no frontier": {"frontier": []},
    "frontier is no list": {"frontier": "x"},
    "frontier of numbers": {"frontier": [7]},
    "a later latest": {"latest": "2036-11-15T21:50:55Z"},
    "an earlier latest": {"latest": "2016-11-15T21:50:55Z"},
    "latest is no time": {"latest": "?"},
    "latest is nothing": {"latest": ""},
    "latest is a number": {"latest": 7},
    "unknown key": {"extra": 1},
    "malformed version": {"format": "log/01"},
    "no version": {"format": 1},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_does_not_open_its_segment_is_refused(name: str) -> None:
    bad = changed(HEADER, data={**SAYS, **HEADERS[name]})
    assert reason(bad, after=SEGMENT_EVENTS, segment=1) is LogFault.HEADER


def test_another_kind_opens_no_segment() -> None:
    bad = changed(HEADER, kind="test.event")
    assert reason(bad, after=SEGMENT_EVENTS, segment=1) is LogFault.HEADER


@pytest.mark.parametrize("name", HEADERS)
def test_a_resumed_chain_is_as_strict_where_it_can_know(name: str) -> None:
    bad = changed(HEADER, data={**SAYS, **HEADERS[name]})
    chain = Chain(segment=1, prev=json.loads(HEADER)["prev"], time=TIME)
    if name in {"another workspace", "another frontier", "a later latest"}:
        chain.feed([bad], segment=1)  # only the segments before it know better
        return
    with pytest.raises(LogBroken) as caught:
        chain.feed([bad], segment=1)
    assert caught.value.reason is LogFault.HEADER


LATER, EARLIER = "2036-11-15T21:50:55Z", "2026-11-16T09:00:00Z"


def test_only_a_clock_entry_may_be_earlier_than_the_one_before() -> None:
    late = plan_batch(fed(5), [EVENT], time=LATER).chain
    with pytest.raises(AuditUnavailable, match="earlier"):
        plan_batch(late, [EVENT], time=EARLIER)
    mended = plan_batch(late, [("clock", {"before": LATER})], time=EARLIER).chain
    assert (mended.time, mended.latest) == (EARLIER, LATER)
    with pytest.raises(AuditUnavailable, match="earlier"):  # the rule holds again from there on
        plan_batch(mended, [EVENT], time=TIME)
    assert plan_batch(mended, [EVENT], time=EARLIER).chain.time == EARLIER, "control"


@pytest.mark.parametrize("before", [EARLIER, TIME, None, 7])
def test_a_clock_entry_says_which_time_it_sets_right(before: object) -> None:
    late = plan_batch(fed(5), [EVENT], time=LATER).chain
    wrong = ("clock", {"before": before})
    with pytest.raises(AuditUnavailable, match="earlier"):
        plan_batch(late, [wrong], time=LATER)
    with pytest.raises(AuditUnavailable, match="earlier"):
        plan_batch(late, [EVENT, wrong], time=LATER)
    plan_batch(late, [EVENT, ("clock", {"before": LATER})], time=LATER)  # control


@pytest.mark.parametrize("before", range(LAST - 3, LAST + 1))
def test_a_clock_may_be_set_back_wherever_a_segment_ends(before: int) -> None:
    plan = plan_batch(start(), [EVENT] * before, time=LATER)
    mended = plan_batch(plan.chain, [("clock", {"before": LATER})], time=EARLIER)
    after = plan_batch(mended.chain, [EVENT] * 2 * SEGMENT_EVENTS, time=EARLIER)
    parts = [*plan.parts, *mended.parts, *after.parts]
    data = b"".join(part.data for part in parts)
    reader = Chain()
    lines = data.split(b"\n")[:-1]
    for first in range(0, len(lines), SEGMENT_EVENTS):
        reader.feed(lines[first : first + SEGMENT_EVENTS], segment=first // SEGMENT_EVENTS)
    assert (reader.head(), reader.latest) == (after.chain.head(), LATER)
    third = json.loads(lines[2 * SEGMENT_EVENTS])
    assert (third["time"], third["data"]["latest"]) == (EARLIER, LATER)


def test_a_newer_format_is_not_guessed_at() -> None:
    chain = fed(SEGMENT_EVENTS)
    with pytest.raises(VersionUnsupported) as caught:
        chain.feed([changed(HEADER, data={**SAYS, "format": "log/2"})], segment=1)
    assert (caught.value.code, caught.value.exit_code) == ("TG-VER-001", 78)


@pytest.mark.parametrize(
    "bad",
    [
        changed(SEGMENT[LAST], kind="test.event"),
        changed(SEGMENT[LAST], data={"events": LAST, "sha256": "0" * 64}),
        changed(SEGMENT[LAST], data={"events": 1, "sha256": json.loads(SEGMENT[LAST])["prev"]}),
        changed(SEGMENT[LAST], data={}),
    ],
)
def test_a_seal_that_does_not_seal_is_refused(bad: bytes) -> None:
    assert reason(bad, after=LAST) is LogFault.SEAL


def test_nothing_stands_after_the_seal() -> None:
    """The next segment's header, in the file of this one."""
    assert reason(HEADER, after=SEGMENT_EVENTS) is LogFault.EXTRA
    chain = Chain()
    with pytest.raises(LogBroken) as caught:
        chain.feed(SEGMENT, segment=0)
    assert (caught.value.reason, caught.value.seq) == (LogFault.EXTRA, SEGMENT_EVENTS)


@pytest.mark.parametrize("first", [LogFault.DATA, LogFault.CHAIN])
def test_the_first_of_two_problems_is_named(first: LogFault) -> None:
    """Data is read after the links of a block: the earlier entry is still the one named."""
    lines = SEGMENT[:20]
    bad_data, bad_link = (4, 9) if first is LogFault.DATA else (9, 4)
    # The line with bad data is linked to properly, so that only its data is wrong.
    chain = fed(bad_data)
    forged = emit_line("a.b", {}, prev=chain.head().digest, seq=bad_data, time=TIME)
    lines[bad_data] = forged.replace(b"{}", b'{"a":1, "b":2}')
    if first is LogFault.DATA:
        prev = sha256(lines[bad_data]).hexdigest()
        for seq in range(bad_data + 1, bad_link):
            lines[seq] = emit_line("a.b", {}, prev=prev, seq=seq, time=TIME)
            prev = sha256(lines[seq]).hexdigest()
    lines[bad_link] = changed(lines[bad_link], prev="2" * 64)
    chain = Chain()
    with pytest.raises(LogBroken) as caught:
        chain.feed(lines, segment=0)
    assert (caught.value.reason, caught.value.seq) == (first, 4)
    assert chain.tree.root() == root_of(leaf_hash(line) for line in lines[:4])


def test_data_cannot_spread_over_two_lines() -> None:
    """Joined with a comma these two would be canonical JSON; apart they are not."""
    assert parse_data([b'{"a":[{},{}]}', b'{"b":1}']) == [{"a": [{}, {}]}, {"b": 1}]
    assert parse_data([b'{"a":[{}', b'{}]},{"b":1}']) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_what_is_read(data: dict[str, Any]) -> None:
    """Lone surrogates have no spelling; everything else comes back."""
    chain = fed(5)
    try:
        plan = plan_batch(chain, [("a.b", data)], time=TIME)
    except AuditUnavailable as exc:
        assert exc.code == "TG-AUD-003"
        with pytest.raises(UnicodeEncodeError):
            json.dumps(data, ensure_ascii=False).encode()
        return
    line = plan.parts[0].data[:-1]
    assert canonical.decode(line)["data"] == data
    assert list(fed(5).feed([line], segment=0).entries()) == list(plan.entries)


@given(st.lists(st.binary(max_size=400), max_size=5))
def test_any_lines_are_followed_or_broken(lines: list[bytes]) -> None:
    chain = Chain()
    try:
        assert len(chain.feed(lines, segment=0).datas) == len(lines) == 0
    except LogBroken as exc:
        assert exc.seq == chain.size == 0


@given(st.integers(0, len(LINE)), st.integers(0, 12), st.binary(max_size=12))
def test_an_edited_line_is_another_entry_or_none(at: int, removed: int, added: bytes) -> None:
    """Whatever an edited line still says, it is canonical and has the right number and link."""
    edited = LINE[:at] + added.replace(b"\n", b"") + LINE[at + removed :]
    chain = fed(5)
    try:
        chain.feed([edited], segment=0)
    except LogBroken:
        return
    value = canonical.decode(edited)
    assert (value["seq"], value["prev"]) == (5, fed(5).digest)


@given(st.binary(max_size=60))
def test_data_in_a_well_formed_line_is_canonical_or_refused(data: bytes) -> None:
    middle = LINE.index(b',"kind"')
    line = b'{"data":' + data.replace(b"\n", b"") + LINE[middle:]
    chain = fed(5)
    try:
        chain.feed([line], segment=0)
    except LogBroken:
        return
    canonical.decode(line)


class TestPlan:
    def test_fills_seals_and_goes_on(self) -> None:
        plan = plan_batch(start(), [EVENT] * 2500, time=TIME)
        assert [(part.segment, part.sealed) for part in plan.parts] == [
            (0, True),
            (1, True),
            (2, False),
        ]
        assert [entry.kind for entry in plan.entries] == ["test.event"] * 2500
        assert plan.chain.size == 2500 + 3 + 2

    def test_seals_with_the_batch_that_fills_the_segment(self) -> None:
        plan = plan_batch(fed(10), [EVENT] * (LAST - 10), time=TIME)
        assert [part.sealed for part in plan.parts] == [True]
        assert plan.chain.position == 0

    def test_writes_a_seal_that_a_crash_tore_off(self) -> None:
        plan = plan_batch(fed(LAST), [EVENT], time=TIME)
        assert [part.sealed for part in plan.parts] == [True, False]
        assert plan.parts[0].data == SEGMENT[LAST] + b"\n"

    def test_leaves_the_chain_as_it_was(self) -> None:
        chain = fed(5)
        before = (chain.head(), chain.tree.root(), chain.seal())
        plan_batch(chain, [EVENT] * 2000, time=TIME)
        assert (chain.head(), chain.tree.root(), chain.seal()) == before

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            ("a.b", {"a": 1.0}),
            ("a.b", {"a": float("nan")}),
            ("a.b", {"a": b"bytes"}),
            ("a.b", {"a": {1, 2}}),
            ("a.b", {"a": (1, 2)}),
            ("a.b", {1: "a"}),
            ("a.b", {True: "a"}),
            ("a.b", {"a": "\ud800"}),
            ("a.b", {"a": "x" * MAX_LINE_BYTES}),
            ("a.b", {"a": json.loads("[" * 20 + "]" * 20)}),
            ("seal", {}),
            ("segment", {}),
            ("A", {}),
            ("", {}),
            ("a\n", {}),
            ('a","kind":"b', {}),
            ("\ud800", {}),
        ],
    )
    def test_an_event_the_log_cannot_hold_stops_the_batch(
        self, kind: str, data: dict[str, Any]
    ) -> None:
        assert plan_batch(fed(5), [EVENT], time=TIME).entries, "control"
        with pytest.raises(AuditUnavailable) as caught:
            plan_batch(fed(5), [EVENT, (kind, data)], time=TIME)
        assert (caught.value.code, caught.value.exit_code) == ("TG-AUD-003", 74)

    def test_data_that_holds_itself_is_refused(self) -> None:
        loop: dict[str, Any] = {}
        loop["loop"] = loop
        with pytest.raises(AuditUnavailable) as caught:
            plan_batch(fed(5), [("a.b", loop)], time=TIME)
        assert caught.value.code == "TG-AUD-003"

    def test_the_longest_line_fits_and_one_byte_more_does_not(self) -> None:
        room = (
            MAX_LINE_BYTES - 1 - len(emit_line("a.b", {"a": ""}, prev="0" * 64, seq=5, time=TIME))
        )
        plan = plan_batch(fed(5), [("a.b", {"a": "x" * room})], time=TIME)
        assert len(plan.parts[0].data) == MAX_LINE_BYTES
        with pytest.raises(AuditUnavailable):
            plan_batch(fed(5), [("a.b", {"a": "x" * (room + 1)})], time=TIME)

    def test_entries_do_not_change_with_what_the_caller_does_next(self) -> None:
        data = {"list": [1]}
        plan = plan_batch(fed(5), [("a.b", data)], time=TIME)
        data["list"].append(2)
        assert plan.entries[0].data == {"list": [1]}


@pytest.mark.parametrize("seconds", [0, 951_782_400, 1_794_780_000, 253_402_300_799])
def test_times_round_trip(seconds: int) -> None:
    assert unix_of(time_of(seconds)) == seconds


@pytest.mark.parametrize("seconds", [-(10**12), 253_402_300_800, 10**20])
def test_a_time_without_a_spelling_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match=r"year|time"):
        time_of(seconds)
