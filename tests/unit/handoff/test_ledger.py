"""Where the log put a name: found however far back, and only by changes that happened."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.workspaces import NOW, approve, clock, make_store, take
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.audit.entry import SEGMENT_EVENTS, Entry
from threegate.base.errors import AuditTampered
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.journal import MAX_BATCH, Act, Move, Put, Remove
from threegate.handoff.ledger import Ledger
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED
from threegate.handoff.store import Store

HELD, APPROVED = (states.directory_of("tr", state) for state in ("held", "approved"))
ACCEPTED, SPENT = (states.directory_of("ap", state) for state in ("accepted", "spent"))
REQUEST = f"tr-{'1' * 64}.md"
SIGNATURE = f"ap-{'2' * 64}.sig"
USES = f"ap-{'2' * 64}.uses.json"
Event = tuple[str, dict[str, Any]]


def batch(first: int, *acts: Act, kind: str = OUTCOME, **more: Any) -> list[Event]:
    """Return the entries of a change whose first one has this number."""
    last = first + len(acts) - 1
    return [
        *((INTENT, act.intent()) for act in acts),
        (kind, {"first": first, "last": last, **more}),
    ]


def chained(events: Sequence[Event], times: Sequence[str] | None = None) -> list[Entry]:
    given = times or [NOW] * len(events)
    return [
        Entry(seq, given[seq], kind, data, f"digest {seq - 1}", f"digest {seq}")
        for seq, (kind, data) in enumerate(events)
    ]


def fed(events: Sequence[Event], start: int = 0) -> Ledger:
    """Return a ledger that saw the entries from `start` on and can read those before."""
    entries = chained(events)
    ledger = Ledger(lambda number: iter(entries[number:]))
    for entry in entries[start:]:
        ledger.feed(entry)
    return ledger


def put(directory: str, name: str, data: bytes = b"x") -> Put:
    return Put(directory, name, data)


def test_the_last_change_counts() -> None:
    events = [*batch(0, put(HELD, REQUEST)), *batch(2, Move(HELD, APPROVED, REQUEST))]
    assert fed(events[:2]).place(REQUEST) == (HELD, sha256_hex(b"x"))
    assert fed(events).place(REQUEST) == (APPROVED, sha256_hex(b"x"))
    assert fed(events).place(f"tr-{'9' * 64}.md") is None


@pytest.mark.parametrize(
    ("kind", "more", "happened"),
    [
        (OUTCOME, {}, True),
        (RECOVERED, {"direction": "forward"}, True),
        (RECOVERED, {"direction": "back"}, False),
    ],
)
def test_what_was_undone_did_not_happen(kind: str, more: dict[str, str], happened: bool) -> None:
    events = [
        *batch(0, put(HELD, REQUEST)),
        *batch(2, Move(HELD, APPROVED, REQUEST), kind=kind, **more),
    ]
    found = fed(events).place(REQUEST)
    assert found is not None
    assert found[0] == (APPROVED if happened else HELD)


def test_what_was_only_announced_did_not_happen() -> None:
    events = batch(0, put(HELD, REQUEST))
    assert fed([*events, (INTENT, Move(HELD, APPROVED, REQUEST).intent())]).place(REQUEST) == (
        HELD,
        sha256_hex(b"x"),
    )


def test_intents_outside_of_what_the_outcome_names_did_not_happen() -> None:
    events = [
        *batch(0, put(HELD, REQUEST)),
        (INTENT, Move(HELD, APPROVED, REQUEST).intent()),
        (INTENT, put(ACCEPTED, SIGNATURE).intent()),
        (OUTCOME, {"first": 3, "last": 3}),
    ]
    ledger = fed(events)
    assert ledger.place(REQUEST) == (HELD, sha256_hex(b"x"))
    assert ledger.place(SIGNATURE) == (ACCEPTED, sha256_hex(b"x"))


def test_removed_is_nowhere_but_not_unheard_of() -> None:
    ledger = fed([*batch(0, put(HELD, REQUEST)), *batch(2, Remove(HELD, REQUEST))])
    assert ledger.place(REQUEST) is None
    assert ledger.mentions(REQUEST, since=NOW)
    assert not ledger.mentions(SIGNATURE, since=NOW)


@pytest.mark.parametrize("first", [True, False])
def test_a_file_replaced_elsewhere_in_one_change_is_there(first: bool) -> None:
    acts: list[Act] = [Remove(ACCEPTED, USES), put(SPENT, USES, b"new")]
    events = [*batch(0, put(ACCEPTED, USES, b"old")), *batch(2, *(acts if first else acts[::-1]))]
    for start in (0, 2):
        assert fed(events, start).place(USES) == (SPENT, sha256_hex(b"new"))


def test_content_is_that_of_the_last_put_however_often_it_moved() -> None:
    events = [
        *batch(0, put(ACCEPTED, USES, b"old")),
        *batch(2, put(ACCEPTED, USES, b"new")),
        *batch(4, Move(ACCEPTED, SPENT, USES)),
    ]
    for start in (0, 2, 4):
        assert fed(events, start).place(USES) == (SPENT, sha256_hex(b"new"))


def test_the_name_of_an_artifact_says_its_content_so_nobody_reads_on() -> None:
    events = [*batch(0, put(HELD, REQUEST)), *batch(2, Move(HELD, APPROVED, REQUEST))]
    ledger = fed(events, 2)
    assert ledger.place(REQUEST) == (APPROVED, "1" * 64)
    assert ledger.reaches == 2
    assert ledger.place(f"tr-{'9' * 64}.md") is None
    assert ledger.reaches == 0, "control: for a name unheard of it reads to the beginning"


def test_change_whose_beginning_was_not_seen_is_read_as_a_whole() -> None:
    acts = [put(HELD, REQUEST), put(ACCEPTED, SIGNATURE), put(ACCEPTED, USES)]
    for start in range(4):
        ledger = fed(batch(0, *acts), start)
        for name in (REQUEST, SIGNATURE, USES):
            assert ledger.place(name) is not None, (start, name)
    undone = batch(0, *acts, kind=RECOVERED, direction="back")
    for start in range(4):
        assert fed(undone, start).place(REQUEST) is None


def test_entries_fed_again_change_nothing() -> None:
    events = [*batch(0, put(HELD, REQUEST)), *batch(2, Move(HELD, APPROVED, REQUEST))]
    ledger = fed(events)
    for entry in chained(events)[:2]:
        ledger.feed(entry)
    assert ledger.place(REQUEST) == (APPROVED, sha256_hex(b"x"))


def test_leases_are_kept_and_raw_bytes_are_not() -> None:
    digest = "3" * 64
    acts = [put(states.LEASES, "7.json"), put(states.BLOBS, digest)]
    ledger = fed([*batch(0, *acts), *batch(3, Remove(states.LEASES, "7.json"))])
    assert ledger.place("7.json") is None
    assert list(ledger.places) == ["7.json"], "a million packets need no room here"
    assert fed(batch(0, *acts)).place("7.json") == (states.LEASES, sha256_hex(b"x"))


def test_past_that_does_not_lead_here_is_tampering() -> None:
    entries = chained([*batch(0, put(HELD, REQUEST)), *batch(2, put(ACCEPTED, SIGNATURE))])

    def rewritten(start: int) -> Iterator[Entry]:
        other = Entry(1, NOW, OUTCOME, {"first": 0, "last": 0}, "digest 0", "another digest")
        yield from [entries[0], other, *entries[2:]][start:]

    ledger = Ledger(rewritten)
    for entry in entries[2:]:
        ledger.feed(entry)
    assert ledger.place(SIGNATURE) is not None, "control: nothing before is asked for"
    with pytest.raises(AuditTampered):
        ledger.place(REQUEST)


def test_outcomes_that_name_the_beginning_do_not_make_it_read_for_ever() -> None:
    # Each says its change began with the first entry, so none is whole where reading starts.
    events: list[Event] = [(OUTCOME, {"first": 0, "last": 0})] * (6 * SEGMENT_EVENTS)
    ledger = fed(events, len(events) - 3)
    assert ledger.place(REQUEST) is None
    assert ledger.reaches == 0


@pytest.mark.parametrize("value", ["1", None, [], True])
def test_outcome_of_the_wrong_kind_makes_nothing_happen(value: object) -> None:
    events = [*batch(0, put(HELD, REQUEST)), (INTENT, Move(HELD, APPROVED, REQUEST).intent())]
    ledger = fed([*events, (OUTCOME, {"first": value, "last": value})])
    assert ledger.place(REQUEST) == (HELD, sha256_hex(b"x"))


def test_looking_for_what_is_new_reads_back_to_its_time_and_no_further() -> None:
    count = 40 * SEGMENT_EVENTS
    times = [f"2026-11-{1 + 20 * seq // count:02}T12:00:00Z" for seq in range(count)]
    entries = chained([("note", {})] * count, times)
    read: list[int] = []

    def older(start: int) -> Iterator[Entry]:
        for entry in entries[start:]:
            read.append(entry.seq)
            yield entry

    ledger = Ledger(older)
    ledger.feed(entries[-1])
    assert not ledger.mentions(REQUEST, since="2026-11-20T12:00:01Z")
    assert read == []
    assert not ledger.mentions(REQUEST, since="2026-11-20T12:00:00Z")
    assert len(read) < 8 * SEGMENT_EVENTS
    assert ledger.latest_before < "2026-11-20T12:00:00Z"
    assert ledger.place(REQUEST) is None
    assert len(read) < 2 * count, "nothing is read twice but where two readings meet"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    yield opened
    opened.close()


def held_request(store: Store, number: int = 0) -> str:
    data = registry.emit(samples.tool_request(inputs=(), nonce=f"{number:032x}"))
    (answer,) = admit(store, [Untrusted(data)], now=lambda: NOW)
    assert answer.id is not None
    return answer.id


def fill(store: Store, entries: int) -> None:
    with store.locked() as journal:
        for start in range(0, entries, 512):
            count = min(512, entries - start)
            journal.log.append([("note", {"n": start})] * count, durable=False)


@pytest.mark.parametrize("entries", [0, 5, SEGMENT_EVENTS, 6 * SEGMENT_EVENTS])
def test_the_place_is_found_however_far_back_in_a_real_log(store: Store, entries: int) -> None:
    made = approve(store, held_request(store), max_uses=2)
    take(store, made)
    fill(store, entries)
    again = Store.open(store.root, clock=clock)
    with again.locked() as journal:
        place = journal.ledger.place
        claimed = (states.directory_of("tr", "claimed"), made.request_id.partition("-")[2])
        assert place(f"{made.request_id}.md") == claimed
        one = sha256_hex(b'{"format":"uses/1","used":1}')
        assert place(f"{made.approval_id}.uses.json") == (ACCEPTED, one)
        assert place("tr-" + "0" * 64 + ".md") is None
    again.close()


def test_batches_across_segments_are_found_wherever_the_border_lies(tmp_path: Path) -> None:
    # The approval's batch has four entries: the border of the segment goes through all of them.
    for left in range(7):
        root = tmp_path / str(left)
        make_store(root)
        store = Store.open(root, clock=clock)
        request_id = held_request(store)
        fill(store, SEGMENT_EVENTS - store.journal.log.size - left)
        made = approve(store, request_id, max_uses=2)
        store.close()
        again = Store.open(root, clock=clock)
        take(again, made)
        with again.locked():
            assert again.standing(request_id) == "claimed"
            assert again.standing(made.approval_id) == "accepted"
        again.close()


def test_a_store_learns_what_another_process_did(store: Store) -> None:
    made = approve(store, held_request(store))
    other = Store.open(store.root, clock=clock)
    take(other, made)
    other.close()
    with store.locked():
        assert store.standing(made.approval_id) == "spent"


def test_log_is_read_once_for_many_questions(store: Store) -> None:
    made = [approve(store, held_request(store, number)) for number in range(8)]
    fill(store, 2 * SEGMENT_EVENTS)
    again = Store.open(store.root, clock=clock)
    reads: list[int] = []
    entries = again.journal.log.entries

    def counted(start: int = 0) -> Iterator[Entry]:
        reads.append(start)
        return entries(start)

    again.journal.ledger.older = counted
    for one in made:
        take(again, one)
    assert 1 <= len(reads) <= 2
    again.close()


def test_a_batch_is_shorter_than_a_segment() -> None:
    assert MAX_BATCH < SEGMENT_EVENTS
