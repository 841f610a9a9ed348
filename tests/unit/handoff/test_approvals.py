"""Approving, denying, revoking, expiring: the request and its approval go together."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.workspaces import (
    NOW,
    SIGNATURE,
    approval_bytes,
    approve,
    claim,
    clock,
    files_of,
    findings,
    finish,
    make_store,
    take,
)
from threegate.artifacts import registry
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import HandoffTampered, PolicyDenied, QuotaExceeded, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals, states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import Denial
from threegate.handoff.claims import RunClaim, claim_group
from threegate.handoff.records import Quota
from threegate.handoff.store import MISPLACED, Store

ACCEPTED = "handoff/approvals/accepted"
DENIED = "handoff/requests/denied"


def request(number: int, **changes: str) -> bytes:
    return registry.emit(samples.tool_request(inputs=(), nonce=f"{number:032x}", **changes))


IDS = [f"tr-{sha256_hex(request(number))}" for number in range(4)]
HELD, OTHER, THIRD, FOURTH = IDS
DRAFT_BYTES = request(9, origin="core", integrity="external")
DRAFT = f"tr-{sha256_hex(DRAFT_BYTES)}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    items = [*(request(number) for number in range(4)), DRAFT_BYTES]
    list(admit(opened, map(Untrusted, items), now=lambda: NOW))
    yield opened
    opened.close()


def state(store: Store, artifact_id: str) -> str:
    with store.locked():
        return store.standing(artifact_id) or ""


def parsed(store: Store, approval_id: str) -> Approval:
    found = store.read(approval_id)
    assert isinstance(found, Approval)
    return found


def unchanged(store: Store) -> tuple[frozenset[str], int]:
    return files_of(store.root), store.journal.log.size


# -- approve --------------------------------------------------------------------------------


def test_request_and_approval_change_in_one_batch(store: Store) -> None:
    size = store.journal.log.size
    data = approval_bytes(HELD)
    found = approvals.approve(
        store, request_id=HELD, approval=data, signature=SIGNATURE, detail={"by": "operator"}
    )
    assert found == f"ap-{sha256_hex(data)}"
    assert (state(store, HELD), state(store, found)) == ("approved", "accepted")
    assert store.read_file(ACCEPTED, f"{found}.sig") == SIGNATURE
    assert not store.holds(ACCEPTED, f"{found}.uses.json"), "one use needs no count"
    entries = list(store.journal.log.entries(size))
    assert [entry.kind for entry in entries] == ["intent"] * 3 + ["outcome"]
    assert entries[0].data["detail"] == {"by": "operator"}
    assert findings(store.root) == []


def test_several_uses_are_counted_from_none(store: Store) -> None:
    made = approve(store, HELD, max_uses=5)
    assert store.read_file(ACCEPTED, f"{made.approval_id}.uses.json") == (
        b'{"format":"uses/1","used":0}'
    )
    assert findings(store.root) == []


def test_a_draft_is_held_first_in_a_batch_of_its_own(store: Store) -> None:
    size = store.journal.log.size
    approve(store, DRAFT)
    assert state(store, DRAFT) == "approved"
    ops = [e.data["op"] for e in store.journal.log.entries(size) if e.kind == "intent"]
    assert ops == ["hold"] + ["approve"] * 3


def brought_to(store: Store, end: str) -> str:
    """Return a request that came to this end, or was never here."""
    if end == "approved":
        approve(store, HELD)
    elif end in ("claimed", "done"):
        claim(store, HELD)
        if end == "done":
            finish(store, HELD)
    elif end == "denied":
        approvals.deny(store, HELD, reason="no", now=NOW)
    elif end == "expired":
        approvals.expire(store, [HELD])
    return HELD if end != "unknown" else "tr-" + "0" * 64


@pytest.mark.parametrize("end", ["approved", "claimed", "done", "denied", "expired", "unknown"])
def test_what_does_not_wait_is_not_approved(store: Store, end: str) -> None:
    target = brought_to(store, end)
    before = unchanged(store)
    with pytest.raises(UsageError, match="is not held"):
        approve(store, target, nonce="f" * 32)
    assert unchanged(store) == before
    approve(store, OTHER)  # control


def test_approval_of_another_request_is_refused(store: Store) -> None:
    before = unchanged(store)
    with pytest.raises(PolicyDenied) as caught:
        approvals.approve(
            store, request_id=HELD, approval=approval_bytes(OTHER), signature=b"s", detail={}
        )
    assert caught.value.code == "TG-APR-002"
    assert unchanged(store) == before


@pytest.mark.parametrize("data", [b"", b"---\n", registry.emit(samples.packet())])
def test_what_is_no_approval_is_refused(store: Store, data: bytes) -> None:
    before = unchanged(store)
    with pytest.raises(UsageError):
        approvals.approve(store, request_id=HELD, approval=data, signature=b"s", detail={})
    assert unchanged(store) == before


def test_approval_that_begins_later_is_not_kept(store: Store) -> None:
    with pytest.raises(PolicyDenied) as caught:
        approve(store, HELD, not_before="2026-11-15T12:00:01Z")
    assert caught.value.code == "TG-APR-007"
    approve(store, HELD)  # control: it may begin in this second


def test_no_room_for_an_approval_leaves_the_request_waiting(store: Store) -> None:
    store.journal.quotas = {ACCEPTED: Quota(files=1, bytes=10**6)}
    before = unchanged(store)
    with pytest.raises(QuotaExceeded):
        approve(store, HELD)
    assert unchanged(store) == before
    store.journal.quotas = {}
    approve(store, HELD)  # control


# -- which approvals there are --------------------------------------------------------------


def test_approvals_are_found_by_request(store: Store) -> None:
    first, second = approve(store, HELD), approve(store, OTHER, max_uses=2)
    assert approvals.approvals_by_request(store) == {
        HELD: [first.approval_id],
        OTHER: [second.approval_id],
    }
    approvals.revoke(store, first.approval_id)
    take(store, second)
    assert approvals.approvals_by_request(store) == {OTHER: [second.approval_id]}


def test_traps_among_approvals_are_passed_over(store: Store) -> None:
    made = approve(store, HELD)
    directory = store.root / ACCEPTED
    os.mkfifo(directory / f"ap-{'0' * 64}.md")
    (directory / f"ap-{'1' * 64}.md").symlink_to("/etc/passwd")
    (directory / f"ap-{'2' * 64}.md").mkdir()
    (directory / f"ap-{'3' * 64}.md").write_bytes(b"\xff" * 500)
    (directory / "notes.md").write_bytes(approval_bytes(OTHER))
    assert approvals.approvals_by_request(store) == {HELD: [made.approval_id]}


def test_uses_left(store: Store) -> None:
    one, three = approve(store, HELD), approve(store, OTHER, max_uses=3)
    approval = parsed(store, three.approval_id)
    assert approvals.uses_left(store, parsed(store, one.approval_id), one.approval_id) == 1
    for left in (3, 2, 1):
        assert approvals.uses_left(store, approval, three.approval_id) == left
        take(store, three)
        finish(store, OTHER, to="approved")
    assert approvals.uses_left(store, approval, three.approval_id) == 0
    approvals.revoke(store, one.approval_id)
    assert approvals.uses_left(store, parsed(store, one.approval_id), one.approval_id) == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"format":"uses/2","used":0}', b'{"format":"uses/1","used":-1}', b"\xff"],
)
def test_count_the_host_did_not_write_is_tampering(store: Store, data: bytes) -> None:
    made = approve(store, HELD, max_uses=2)
    path = store.root / ACCEPTED / f"{made.approval_id}.uses.json"
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o444)
    (refused,) = claim_group(store, [made], reserve_bytes=1)
    assert refused.error.code == MISPLACED


# -- revoke and void ------------------------------------------------------------------------


@pytest.mark.parametrize("uses", [1, 2])
def test_revoked_with_everything_beside_it_and_its_request_waits_again(
    store: Store, uses: int
) -> None:
    made = approve(store, HELD, max_uses=uses)
    size = store.journal.log.size
    approvals.revoke(store, made.approval_id, detail={"by": "operator"})
    assert (state(store, HELD), state(store, made.approval_id)) == ("held", "revoked")
    assert os.listdir(store.root / ACCEPTED) == []
    kinds = [entry.kind for entry in store.journal.log.entries(size)]
    assert kinds.count("outcome") == 1
    assert findings(store.root) == []


def test_only_what_has_uses_left_is_revoked(store: Store) -> None:
    made = claim(store, HELD)
    with pytest.raises(UsageError, match="is not accepted"):
        approvals.revoke(store, made.approval_id)
    with pytest.raises(UsageError, match="is not accepted"):
        approvals.revoke(store, "ap-" + "0" * 64)


def test_request_moved_by_hand_does_not_keep_its_approval_alive(store: Store) -> None:
    made = approve(store, HELD)
    name = f"{HELD}.md"
    os.rename(
        store.root / states.directory_of("tr", "approved") / name,
        store.root / states.directory_of("tr", "claimed") / name,
    )
    approvals.revoke(store, made.approval_id)
    assert state(store, made.approval_id) == "revoked"
    assert findings(store.root), "control: verification names the request"


def test_void_ends_the_approval_and_says_why(store: Store) -> None:
    made = approve(store, HELD)
    size = store.journal.log.size
    approvals.void(store, HELD, made.approval_id, "TG-APR-005")
    assert (state(store, HELD), state(store, made.approval_id)) == ("held", "revoked")
    first = next(iter(store.journal.log.entries(size)))
    assert (first.data["op"], first.data["detail"]) == ("void", {"reason": "TG-APR-005"})
    with pytest.raises(UsageError, match="is not approved"):
        approvals.void(store, HELD, made.approval_id, "again")


def test_void_without_an_approval_makes_the_request_wait_again(store: Store) -> None:
    made = claim(store, HELD)
    finish(store, HELD, to="approved")
    approvals.void(store, HELD, made.approval_id, "no use is left")
    assert (state(store, HELD), state(store, made.approval_id)) == ("held", "spent")


# -- deny and expire ------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["draft", "held", "approved"])
def test_denied_with_the_reason_beside_it(store: Store, start: str) -> None:
    target = DRAFT if start == "draft" else HELD
    made = approve(store, target, max_uses=2) if start == "approved" else None
    approvals.deny(store, target, reason="it reads \u2018secrets\u2019", now=NOW)
    assert state(store, target) == "denied"
    record = json.loads(store.read_file(DENIED, f"{target}.why.json"))
    assert record == {"format": "denial/1", "reason": "it reads \u2018secrets\u2019", "time": NOW}
    assert approvals.denial_of(store, target) == Denial("it reads \u2018secrets\u2019", NOW)
    if made is not None:
        assert state(store, made.approval_id) == "revoked"
    log = b"".join(path.read_bytes() for path in (store.root / "audit").glob("*.jsonl"))
    assert b'"op":"deny"' in log, "control: this is the log of it"
    assert b"secrets" not in log
    assert findings(store.root) == []


@pytest.mark.parametrize("end", ["claimed", "done", "denied", "expired", "unknown"])
def test_what_does_not_wait_is_neither_denied_nor_expires(store: Store, end: str) -> None:
    target = brought_to(store, end)
    before = unchanged(store)
    with pytest.raises(UsageError, match="is not waiting"):
        approvals.deny(store, target, reason="no", now=NOW)
    assert approvals.expire(store, [target]) == []
    assert unchanged(store) == before
    assert approvals.expire(store, [OTHER]) == [OTHER]  # control


def test_no_reason_where_nothing_was_denied(store: Store) -> None:
    assert approvals.denial_of(store, HELD) is None


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":"denial/2","reason":"","time":""}'])
def test_reason_the_host_did_not_write_is_tampering(store: Store, data: bytes) -> None:
    approvals.deny(store, HELD, reason="no", now=NOW)
    path = store.root / DENIED / f"{HELD}.why.json"
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o444)
    with pytest.raises(HandoffTampered):
        approvals.denial_of(store, HELD)


def test_waiting_requests_expire_with_their_approvals(store: Store) -> None:
    made = approve(store, OTHER, max_uses=2)
    running = claim(store, THIRD)
    size = store.journal.log.size
    assert approvals.expire(store, [DRAFT, HELD, OTHER, THIRD, HELD]) == [DRAFT, HELD, OTHER]
    kinds = [entry.kind for entry in store.journal.log.entries(size)]
    assert kinds.count("outcome") == 1
    assert [state(store, one) for one in (DRAFT, HELD, OTHER, THIRD, FOURTH)] == [
        "expired",
        "expired",
        "expired",
        "claimed",
        "held",
    ]
    assert (state(store, made.approval_id), state(store, running.approval_id)) == (
        "revoked",
        "spent",
    )
    assert findings(store.root) == []


def test_fetch_requests_are_approved_the_same_way(store: Store) -> None:
    data = registry.emit(samples.fetch_request())
    (answer,) = admit(store, [Untrusted(data)], now=lambda: NOW)
    assert answer.id is not None
    made: RunClaim = claim(store, answer.id)
    assert (state(store, answer.id), state(store, made.approval_id)) == ("claimed", "spent")
