"""A file moved by hand between states does not make what it stands for happen again."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.stores import NOW, clock, findings, make_store
from threegate.artifacts import registry
from threegate.audit.limits import SEGMENT_EVENTS
from threegate.errors import HandoffTampered
from threegate.handoff import claims
from threegate.handoff.admission import admit
from threegate.handoff.journal import Put
from threegate.handoff.recorded import MISPLACED, recorded_place
from threegate.handoff.store import Store
from threegate.untrusted import Untrusted

REQUEST = samples.tool_request(inputs=())
REQUEST_ID = registry.id_of(REQUEST)
NAME = f"{REQUEST_ID}.md"
REQUESTS = "handoff/requests"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with a request that was approved and has run."""
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    list(admit(opened, [Untrusted(registry.emit(REQUEST))], now=lambda: NOW))
    opened.move(REQUEST_ID, source="held", to="approved", op="approve")
    claims.claim(opened, REQUEST_ID, reserve_bytes=8192)  # control: what is approved can run
    claims.finish(opened, REQUEST_ID, to="done")
    yield opened
    opened.close()


def put_back(store: Store, state: str) -> None:
    os.rename(store.root / REQUESTS / "done" / NAME, store.root / REQUESTS / state / NAME)


# claim TG-C-22
def test_request_that_ran_put_back_by_hand_does_not_run_again(store: Store) -> None:
    put_back(store, "approved")
    size = store.journal.log.size
    with pytest.raises(HandoffTampered) as caught:
        claims.claim(store, REQUEST_ID, reserve_bytes=8192)
    assert caught.value.code == MISPLACED
    assert store.journal.log.size == size
    assert findings(store.root), "control: verification finds it too"


# claim TG-C-22
def test_copy_of_a_request_that_ran_does_not_run_again(store: Store) -> None:
    approved = store.root / REQUESTS / "approved" / NAME
    shutil.copy2(store.root / REQUESTS / "done" / NAME, approved)
    with pytest.raises(HandoffTampered) as caught:
        claims.claim(store, REQUEST_ID, reserve_bytes=8192)
    assert caught.value.code == MISPLACED


def test_request_that_ran_put_back_by_hand_cannot_be_approved_again(store: Store) -> None:
    put_back(store, "held")
    with pytest.raises(HandoffTampered) as caught:
        store.move(REQUEST_ID, source="held", to="approved", op="approve")
    assert caught.value.code == MISPLACED


# claim TG-C-22
def test_spent_approval_put_back_by_hand_is_not_spent_again(store: Store) -> None:
    approval = samples.approval()
    approval_id, data = registry.id_of(approval), registry.emit(approval)
    with store.locked() as journal:
        journal.run("approve", [Put("handoff/approvals/accepted", f"{approval_id}.md", data)])
    store.move(approval_id, source="accepted", to="spent", op="spend")  # control: once it can
    spent, accepted = (store.root / "handoff/approvals" / state for state in ("spent", "accepted"))
    os.rename(spent / f"{approval_id}.md", accepted / f"{approval_id}.md")
    with pytest.raises(HandoffTampered) as caught:
        store.move(approval_id, source="accepted", to="spent", op="spend")
    assert caught.value.code == MISPLACED


@pytest.mark.parametrize("entries", [0, SEGMENT_EVENTS, 6 * SEGMENT_EVENTS])
def test_the_place_is_found_however_far_back(store: Store, entries: int) -> None:
    with store.locked() as journal:
        for start in range(0, entries, 512):
            journal.log.append([("note", {"n": start})] * 512, durable=False)
        assert recorded_place(journal.log, NAME) == f"{REQUESTS}/done"
        assert recorded_place(journal.log, "rp-" + "0" * 64 + ".md") is None
