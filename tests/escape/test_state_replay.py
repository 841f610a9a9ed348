"""A file moved, copied or put back by hand does not make what it stands for happen again."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.workspaces import (
    NOW,
    SIGNATURE,
    approval_bytes,
    approve,
    clock,
    findings,
    finish,
    make_store,
    take,
)
from threegate.artifacts import registry
from threegate.base.errors import HandoffTampered, PolicyDenied
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals
from threegate.handoff.admission import admit
from threegate.handoff.claims import RunClaim, claim_group
from threegate.handoff.store import MISPLACED, Store

REQUEST = samples.tool_request(inputs=())
REQUEST_ID = registry.id_of(REQUEST)
NAME = f"{REQUEST_ID}.md"
REQUESTS = "handoff/requests"
APPROVALS = "handoff/approvals"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Store]:
    """Return a store with a request that waits."""
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    list(admit(opened, [Untrusted(registry.emit(REQUEST))], now=lambda: NOW))
    yield opened
    opened.close()


@pytest.fixture
def ran(held: Store) -> tuple[Store, RunClaim]:
    """Return a store with a request that was approved and has run, and what claimed it."""
    made = approve(held, REQUEST_ID)
    take(held, made)  # control: what is approved can run
    finish(held, REQUEST_ID)
    return held, made


def move_by_hand(store: Store, tree: str, name: str, *, source: str, to: str) -> None:
    os.rename(store.root / tree / source / name, store.root / tree / to / name)


def rewrite(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)


def refused(store: Store, made: RunClaim) -> str:
    """Return the code a claim is refused with; nothing may be recorded or reserved for it."""
    size = store.journal.log.size
    (answer,) = claim_group(store, [made], reserve_bytes=8192)
    assert answer.request_id == made.request_id
    assert store.journal.log.size == size
    assert os.listdir(store.root / "handoff/reserve") == []
    assert findings(store.root), "control: verification finds it too"
    return answer.error.code


# claim TG-C-22
def test_request_that_ran_put_back_by_hand_does_not_run_again(ran: tuple[Store, RunClaim]) -> None:
    store, made = ran
    move_by_hand(store, REQUESTS, NAME, source="done", to="approved")
    assert refused(store, made) == MISPLACED


# claim TG-C-22
def test_copy_of_a_request_that_ran_does_not_run_again(ran: tuple[Store, RunClaim]) -> None:
    store, made = ran
    for state in ("approved", "claimed"):
        shutil.copy2(store.root / REQUESTS / "done" / NAME, store.root / REQUESTS / state / NAME)
        assert refused(store, made) == MISPLACED


@pytest.mark.parametrize("state", ["draft", "held", "claimed", "done", "denied", "expired"])
def test_request_that_lies_in_two_states_does_not_run(held: Store, state: str) -> None:
    made = approve(held, REQUEST_ID)
    copy = held.root / REQUESTS / state / NAME
    shutil.copy2(held.root / REQUESTS / "approved" / NAME, copy)
    assert refused(held, made) == MISPLACED
    copy.unlink()
    take(held, made)  # control


def test_approved_request_moved_by_hand_does_not_run(held: Store) -> None:
    made = approve(held, REQUEST_ID)
    move_by_hand(held, REQUESTS, NAME, source="approved", to="held")
    assert refused(held, made) == MISPLACED
    with pytest.raises(HandoffTampered) as caught:
        approve(held, REQUEST_ID, nonce="f" * 32)
    assert caught.value.code == MISPLACED


def test_request_that_ran_put_back_by_hand_cannot_be_approved_again(
    ran: tuple[Store, RunClaim],
) -> None:
    store, _ = ran
    move_by_hand(store, REQUESTS, NAME, source="done", to="held")
    with pytest.raises(HandoffTampered) as caught:
        approve(store, REQUEST_ID, nonce="f" * 32)
    assert caught.value.code == MISPLACED


# claim TG-C-22
def test_spent_approval_put_back_by_hand_is_not_spent_again(held: Store) -> None:
    made = approve(held, REQUEST_ID)
    take(held, made)
    finish(held, REQUEST_ID, to="approved")
    # The request may run as soon as an approval lets it; only the approval is put back.
    for name in (f"{made.approval_id}.md", f"{made.approval_id}.sig"):
        move_by_hand(held, APPROVALS, name, source="spent", to="accepted")
    assert refused(held, made) == MISPLACED


@pytest.mark.parametrize("state", ["spent", "revoked"])
def test_approval_that_lies_in_two_states_is_not_spent(held: Store, state: str) -> None:
    made = approve(held, REQUEST_ID)
    name = f"{made.approval_id}.md"
    copy = held.root / APPROVALS / state / name
    shutil.copy2(held.root / APPROVALS / "accepted" / name, copy)
    assert refused(held, made) == MISPLACED
    copy.unlink()
    take(held, made)  # control


# claim TG-C-28
def test_uses_put_back_by_hand_are_noticed(held: Store) -> None:
    made = approve(held, REQUEST_ID, max_uses=3)
    path = held.root / APPROVALS / "accepted" / f"{made.approval_id}.uses.json"
    unused = path.read_bytes()
    take(held, made)
    finish(held, REQUEST_ID, to="approved")
    once = path.read_bytes()
    assert once != unused, "control: the use was counted"
    for forged in (unused, once.replace(b"1", b"2"), b'{"format":"uses/1","used":-9}', b""):
        rewrite(path, forged)
        assert refused(held, made) == MISPLACED, forged
    path.unlink()
    assert refused(held, made) == MISPLACED
    rewrite(path, once)
    take(held, made)  # control: as the log has it, it counts


# claim TG-C-28
def test_uses_brought_back_with_a_spent_approval_are_noticed(held: Store) -> None:
    made = approve(held, REQUEST_ID, max_uses=2)
    saved = {
        path.name: path.read_bytes() for path in (held.root / APPROVALS / "accepted").iterdir()
    }
    for _ in range(2):  # control: both uses can be spent
        take(held, made)
        finish(held, REQUEST_ID, to="approved")
    for name, data in saved.items():
        (held.root / APPROVALS / "spent" / name).unlink()
        rewrite(held.root / APPROVALS / "accepted" / name, data)
    assert refused(held, made) == MISPLACED


# claim TG-C-28
def test_swapped_signature_is_noticed(held: Store) -> None:
    made = approve(held, REQUEST_ID)
    path = held.root / APPROVALS / "accepted" / f"{made.approval_id}.sig"
    rewrite(path, b"another signature\n")
    assert refused(held, made) == MISPLACED
    path.unlink()
    assert refused(held, made) == MISPLACED
    rewrite(path, SIGNATURE)
    take(held, made)  # control


def test_forged_approval_laid_beside_the_others_is_not_spent(held: Store) -> None:
    real = approve(held, REQUEST_ID)
    data = approval_bytes(REQUEST_ID, nonce="e" * 32)
    forged = f"ap-{registry.id_of(registry.parse(Untrusted(data))).partition('-')[2]}"
    for suffix, content in ((".md", data), (".sig", SIGNATURE)):
        rewrite(held.root / APPROVALS / "accepted" / (forged + suffix), content)
    assert refused(held, RunClaim(REQUEST_ID, forged, 1)) == MISPLACED
    take(held, real)  # control


# claim TG-C-29
def test_the_same_approval_given_again_does_not_count_again(ran: tuple[Store, RunClaim]) -> None:
    store, made = ran
    # Every trace of it is deleted by hand; the log remembers.
    for suffix in (".md", ".sig"):
        (store.root / APPROVALS / "spent" / (made.approval_id + suffix)).unlink()
    other = registry.emit(samples.tool_request(inputs=(), nonce="f" * 32))
    (answer,) = admit(store, [Untrusted(other)], now=lambda: NOW)
    assert answer.id is not None
    approve(store, answer.id)  # control: a new approval of another request counts
    with pytest.raises(PolicyDenied) as caught:
        approve(store, REQUEST_ID)
    assert caught.value.code == approvals.USES_SPENT


# claim TG-C-29
def test_a_revoked_approval_given_again_does_not_count(held: Store) -> None:
    made = approve(held, REQUEST_ID)
    approvals.revoke(held, made.approval_id)
    again = Store.open(held.root, clock=clock)
    with pytest.raises(PolicyDenied) as caught:
        approve(again, REQUEST_ID)
    assert caught.value.code == approvals.USES_SPENT
    approve(again, REQUEST_ID, nonce="f" * 32)  # control
    again.close()
