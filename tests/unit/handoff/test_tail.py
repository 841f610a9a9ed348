"""What the end of the log leaves open, seen on the way through it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.workspaces import clock, make_store
from threegate.artifacts.ids import sha256_hex
from threegate.audit.entry import SEGMENT_EVENTS, Entry
from threegate.base.errors import AuditTampered
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.handoff.ledger import Tail
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED
from threegate.handoff.store import Store

PUT = {
    "act": "put",
    "bytes": 3,
    "detail": {},
    "n": 0,
    "name": sha256_hex(b"raw"),
    "of": 1,
    "op": "blob",
    "sha256": sha256_hex(b"raw"),
    "to": states.BLOBS,
}
TOTALS = {"current": None, "first": 1, "last": 1, "usage": {states.BLOBS: [1, 3]}}


def entry(seq: int, kind: str, data: dict[str, Any]) -> Entry:
    return Entry(seq, "2026-11-15T12:00:00Z", kind, data, "0" * 64, "0" * 64)


def fed(*entries: tuple[str, dict[str, Any]]) -> Tail:
    tail = Tail()
    for seq, (kind, data) in enumerate(entries):
        tail.feed(entry(seq, kind, data))
    return tail


def test_an_intent_is_pending_until_its_outcome() -> None:
    open_end = fed((INTENT, PUT))
    assert [intent.name for intent in open_end.pending()] == [PUT["name"]]
    assert not open_end.is_known
    assert open_end.outcome() is None
    for kind, more in ((OUTCOME, {}), (RECOVERED, {"direction": "forward"})):
        closed = fed((INTENT, PUT), (kind, {**TOTALS, **more}))
        assert closed.pending() == []
        outcome = closed.outcome()
        assert outcome is not None
        assert outcome.usage.of(states.BLOBS) == (1, 3)


@pytest.mark.parametrize("kind", ["segment", "seal", "log.recovered"])
def test_bookkeeping_of_the_log_does_not_end_a_batch(kind: str) -> None:
    assert len(fed((INTENT, PUT), (kind, {}), (INTENT, PUT)).pending()) == 2
    assert len(fed((INTENT, PUT), ("note", {}), (INTENT, PUT)).pending()) == 1  # control


def test_entries_shown_again_after_a_failure_change_nothing() -> None:
    tail = fed((OUTCOME, TOTALS), (INTENT, PUT))
    tail.feed(entry(0, OUTCOME, TOTALS))
    tail.feed(entry(1, INTENT, PUT))
    assert len(tail.pending()) == 1
    tail.feed(entry(2, INTENT, PUT))  # control: a new one counts
    assert len(tail.pending()) == 2


def test_an_intent_the_host_would_not_write_is_tampering() -> None:
    with pytest.raises(AuditTampered):
        fed((INTENT, {**PUT, "name": "../../etc/passwd"})).pending()
    with pytest.raises(AuditTampered):
        fed((OUTCOME, {**TOTALS, "usage": 7})).outcome()
    with pytest.raises(AuditTampered):
        fed((OUTCOME, {**TOTALS, "current": "x" * 64})).outcome()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_store(tmp_path / "store")
    return tmp_path / "store"


def put(store: Store, data: bytes) -> None:
    with store.locked() as journal:
        journal.run("blob", [Put(states.BLOBS, sha256_hex(data), data)])


def kinds(store: Store) -> list[str]:
    return [item.kind for item in store.journal.log.entries()]


def announce(store: Store) -> None:
    """Write an intent and die, as far as the log can tell."""
    with store.locked() as journal:
        journal.log.append([(INTENT, PUT)])


def test_a_change_another_process_left_open_is_settled_by_the_next_holder(root: Path) -> None:
    waiting = Store.open(root, clock=clock)
    put(waiting, b"mine")
    other = Store.open(root, clock=clock)
    put(other, b"theirs")
    announce(other)
    other.close()
    with waiting.locked() as journal:
        assert journal.usage.of(states.BLOBS) == (2, len(b"mine") + len(b"theirs"))
    assert kinds(waiting)[-2:] == [INTENT, RECOVERED]
    put(waiting, b"and on")
    assert kinds(waiting)[-2:] == [INTENT, OUTCOME]
    waiting.close()


@pytest.mark.parametrize("notes", [SEGMENT_EVENTS - 2, SEGMENT_EVENTS, SEGMENT_EVENTS + 2])
def test_totals_are_found_in_the_segment_before(root: Path, notes: int) -> None:
    store = Store.open(root, clock=clock)
    put(store, b"raw")
    with store.locked() as journal:
        journal.log.append([("note", {})] * notes)
    store.close()
    again = Store.open(root, clock=clock)
    with again.locked() as journal:
        assert journal.usage.of(states.BLOBS) == (1, 3)
    assert RECOVERED not in kinds(again)
    again.close()


def test_a_batch_across_two_segments_is_settled_whole(root: Path) -> None:
    store = Store.open(root, clock=clock)
    with store.locked() as journal:
        room = SEGMENT_EVENTS - 1 - journal.log.size % SEGMENT_EVENTS
        journal.log.append([("note", {})] * (room - 1))
        two = [(INTENT, {**PUT, "n": n, "of": 2}) for n in range(2)]
        journal.log.append(two)
    assert kinds(store)[-4:] == [INTENT, "seal", "segment", INTENT]  # control: it lies across
    store.close()
    again = Store.open(root, clock=clock)
    with again.locked():
        pass
    last = list(again.journal.log.entries())[-1]
    assert last.kind == RECOVERED
    assert last.data["last"] - last.data["first"] == 3
    again.close()
