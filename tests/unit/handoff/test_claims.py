"""Claims: one claimer, a use spent, a lease that dies with its process, room reserved first."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.workspaces import (
    NOW,
    ROOM,
    adopt,
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
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import (
    HandoffTampered,
    PolicyDenied,
    QuotaExceeded,
    StorageFailed,
    UsageError,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals, claims, states
from threegate.handoff.admission import admit
from threegate.handoff.claims import (
    End,
    Lease,
    RunClaim,
    claim_group,
    current_lease,
    finish_group,
    is_alive,
    leases,
    parse_lease,
    release_dead,
)
from threegate.handoff.journal import MAX_BATCH, Put
from threegate.handoff.records import Quota
from threegate.handoff.store import MISPLACED, Store
from threegate.policy import approvals as policy_approvals

NUMBER = 5


def request(number: int) -> bytes:
    return registry.emit(samples.tool_request(inputs=(), nonce=f"{number:032x}"))


IDS = [f"tr-{sha256_hex(request(number))}" for number in range(NUMBER)]
FIRST = IDS[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    items = [Untrusted(request(number)) for number in range(NUMBER)]
    list(admit(opened, items, now=lambda: NOW))
    yield opened
    opened.close()


def state(store: Store, artifact_id: str) -> str:
    with store.locked():
        return store.standing(artifact_id) or ""


def reserved(store: Store) -> int:
    """Return the bytes kept free, and see that they are."""
    files = [path.stat() for path in (store.root / states.RESERVE).iterdir()]
    assert all(info.st_blocks * 512 >= info.st_size for info in files)
    return sum(info.st_size for info in files)


def used(store: Store, approval_id: str, where: str = "accepted") -> bytes:
    return store.read_file(states.directory_of("ap", where), f"{approval_id}.uses.json")


def test_claim_spends_the_use_and_reserves_room_and_finish_gives_it_back(store: Store) -> None:
    made = claim(store, FIRST)
    assert (state(store, FIRST), state(store, made.approval_id)) == ("claimed", "spent")
    assert reserved(store) == ROOM
    finish(store, FIRST)
    assert state(store, FIRST) == "done"
    assert os.listdir(store.root / states.RESERVE) == []
    assert list(store.names(states.LEASES)) == []
    assert findings(store.root) == []


def test_group_is_one_batch_and_room_is_given_back_as_claims_end(store: Store) -> None:
    made = [approve(store, one) for one in IDS]
    before = store.journal.log.size
    take(store, *made)
    entries = list(store.journal.log.entries(before))
    assert [entry.kind for entry in entries] == ["intent"] * (1 + 3 * NUMBER) + ["outcome"]
    assert {entry.data["op"] for entry in entries[:-1]} == {"claim"}
    assert reserved(store) == NUMBER * ROOM
    finish_group(store, [End(one, "done") for one in IDS[:2]])
    assert reserved(store) == (NUMBER - 2) * ROOM
    finish_group(store, [End(one, "held") for one in IDS[2:]])
    assert os.listdir(store.root / states.RESERVE) == []
    assert [state(store, one) for one in IDS] == ["done"] * 2 + ["held"] * 3
    assert findings(store.root) == []


def test_each_of_two_groups_gives_its_own_room_back(store: Store) -> None:
    first, second, third = (approve(store, one) for one in IDS[:3])
    take(store, first, second, room=1000)
    take(store, third, room=5000)
    assert reserved(store) == 7000
    finish(store, second.request_id)
    assert reserved(store) == 6000
    finish(store, third.request_id)
    assert reserved(store) == 1000


def test_one_that_cannot_be_claimed_does_not_hold_up_the_others(store: Store) -> None:
    good, gone, spent, other = (approve(store, one) for one in IDS[:4])
    approvals.deny(store, gone.request_id, reason="no", now=NOW)
    claims_made = [
        good,
        gone,
        RunClaim(spent.request_id, good.approval_id, 1),
        RunClaim(other.request_id, other.approval_id, 2),
        RunClaim(IDS[4], other.approval_id, 1),
        good,
    ]
    refused = claim_group(store, claims_made, reserve_bytes=ROOM)
    assert [(one.request_id, one.error.code) for one in refused] == [
        (gone.request_id, "TG-USE-001"),
        (spent.request_id, "TG-APR-002"),
        (other.request_id, "TG-USE-001"),
        (IDS[4], "TG-USE-001"),
        (good.request_id, "TG-USE-001"),
    ]
    assert state(store, good.request_id) == "claimed", "control"
    assert reserved(store) == ROOM
    assert [state(store, one.approval_id) for one in (spent, other)] == ["accepted"] * 2


def test_group_of_none_changes_nothing(store: Store) -> None:
    size = store.journal.log.size
    assert claim_group(store, [], reserve_bytes=ROOM) == []
    finish_group(store, [])
    unknown = RunClaim(FIRST, "ap-" + "0" * 64, 1)
    assert len(claim_group(store, [unknown], reserve_bytes=ROOM)) == 1
    assert store.journal.log.size == size
    assert os.listdir(store.root / states.RESERVE) == []


def test_second_claim_is_refused(store: Store) -> None:
    made = claim(store, FIRST)
    with pytest.raises(UsageError, match="is not approved"):
        take(store, made)


def test_a_spent_use_is_not_spent_again_when_the_request_is_approved_anew(store: Store) -> None:
    old = claim(store, FIRST)
    finish(store, FIRST, to="held")
    new = approve(store, FIRST, nonce="f" * 32)
    with pytest.raises(PolicyDenied) as caught:
        take(store, old)
    assert caught.value.code == approvals.USES_SPENT
    take(store, new)  # control


def test_revoked_approval_is_not_claimed(store: Store) -> None:
    old = approve(store, FIRST)
    approvals.revoke(store, old.approval_id)
    new = approve(store, FIRST, nonce="f" * 32)
    with pytest.raises(PolicyDenied) as caught:
        take(store, old)
    assert caught.value.code == "TG-APR-011"
    take(store, new)  # control


def test_codes_are_those_of_the_policy() -> None:
    names = ("OTHER_REQUEST", "OUTSIDE_WINDOW")
    for name in names:
        assert getattr(approvals, name) == getattr(policy_approvals, name)


def test_uses_are_counted_to_the_last(store: Store) -> None:
    made = approve(store, FIRST, max_uses=3)
    for number in (1, 2):
        take(store, made)
        assert used(store, made.approval_id) == b'{"format":"uses/1","used":%d}' % number
        finish_group(store, [End(FIRST, "approved", (), made.approval_id)])
        assert state(store, FIRST) == "approved"
    take(store, made)
    assert used(store, made.approval_id, "spent") == b'{"format":"uses/1","used":3}'
    assert state(store, made.approval_id) == "spent"
    assert os.listdir(store.root / approvals.ACCEPTED) == []
    finish_group(store, [End(FIRST, "approved", (), made.approval_id)])
    assert state(store, FIRST) == "done", "no use is left, so it does not stay approved"
    assert findings(store.root) == []


def test_approved_without_a_use_left_cannot_be_claimed(store: Store) -> None:
    made = claim(store, FIRST)
    finish(store, FIRST, to="approved")
    with pytest.raises(PolicyDenied) as caught:
        take(store, made)
    assert caught.value.code == approvals.USES_SPENT


def test_uses_that_were_revoked_during_the_run_end_it(store: Store) -> None:
    made = claim(store, FIRST, max_uses=2)
    approvals.revoke(store, made.approval_id)
    assert state(store, FIRST) == "claimed", "a run that began goes on"
    finish_group(store, [End(FIRST, "approved", (), made.approval_id)])
    assert state(store, FIRST) == "done"


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("call", "number", "error"),
    [
        ("posix_fallocate", errno.ENOSPC, QuotaExceeded),
        ("posix_fallocate", errno.EDQUOT, QuotaExceeded),
        ("posix_fallocate", errno.EIO, StorageFailed),
        ("fchmod", errno.EIO, StorageFailed),
        ("rename", errno.EIO, StorageFailed),
    ],
)
def test_failing_disk_refuses_the_claim_and_spends_nothing(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    error: type[StorageFailed],
) -> None:
    made = [approve(store, FIRST), approve(store, IDS[1], max_uses=2)]
    take(store, approve(store, IDS[2]))  # what others reserved stays
    before = files_of(store.root)
    monkeypatch.setattr(os, call, failing(number))
    with pytest.raises(error) as refused:
        claim_group(store, made, reserve_bytes=ROOM)
    assert refused.value.exit_code == 74
    monkeypatch.undo()
    assert files_of(store.root) == before
    assert reserved(store) == ROOM
    take(store, *made)  # control


def test_full_quota_refuses_the_claim_and_spends_nothing(store: Store) -> None:
    made = approve(store, FIRST)
    store.journal.quotas = {states.directory_of("tr", "claimed"): Quota(files=0, bytes=0)}
    before, entries = files_of(store.root), store.journal.log.size
    with pytest.raises(QuotaExceeded):
        claim_group(store, [made], reserve_bytes=ROOM)
    assert (files_of(store.root), store.journal.log.size) == (before, entries)
    assert os.listdir(store.root / states.RESERVE) == []
    store.journal.quotas = {}
    take(store, made)  # control


def test_check_runs_under_the_lock_before_anything(store: Store) -> None:
    made = approve(store, FIRST)
    before, entries = files_of(store.root), store.journal.log.size

    def changed() -> None:
        raise UsageError("the policy was changed meanwhile")

    with pytest.raises(UsageError, match="meanwhile"):
        claim_group(store, [made], reserve_bytes=ROOM, check=changed)
    assert (files_of(store.root), store.journal.log.size) == (before, entries)
    assert claim_group(store, [made], reserve_bytes=ROOM, check=lambda: None) == []  # control


def die_claiming(made: RunClaim) -> Callable[[Store], None]:
    return lambda store: take(store, made)


def test_claim_of_a_dead_process_goes_back_to_the_human(store: Store) -> None:
    made = approve(store, FIRST)
    adopt(store.root, die_claiming(made))
    assert state(store, FIRST) == "claimed"
    assert reserved(store) == ROOM
    assert release_dead(store) == [FIRST]
    assert (state(store, FIRST), state(store, made.approval_id)) == ("held", "spent")
    assert os.listdir(store.root / states.RESERVE) == []


def test_claim_of_a_dead_process_stays_approved_while_uses_are_left(store: Store) -> None:
    made = approve(store, FIRST, max_uses=2)
    adopt(store.root, die_claiming(made))
    assert release_dead(store) == [FIRST]
    assert state(store, FIRST) == "approved"
    adopt(store.root, die_claiming(made))
    assert release_dead(store) == [FIRST]
    assert (state(store, FIRST), state(store, made.approval_id)) == ("held", "spent")
    assert findings(store.root) == []


def test_dead_claims_are_released_together(store: Store) -> None:
    made = [approve(store, one) for one in IDS]
    adopt(store.root, lambda store: take(store, *made[:4]))
    take(store, made[4])
    size = store.journal.log.size
    assert release_dead(store) == sorted(IDS[:4])
    kinds = [entry.kind for entry in store.journal.log.entries(size)]
    assert kinds.count("outcome") == 1
    assert [state(store, one) for one in IDS] == ["held"] * 4 + ["claimed"]
    assert reserved(store) == ROOM, "that of the living stays"


def test_claim_of_a_living_process_is_left_alone(store: Store) -> None:
    claim(store, FIRST)
    assert release_dead(store) == []
    assert state(store, FIRST) == "claimed"


def test_somebody_elses_claim_cannot_be_finished(store: Store) -> None:
    mine, other = approve(store, FIRST), approve(store, IDS[1])
    adopt(store.root, die_claiming(other))
    take(store, mine)
    ends = [End(FIRST, "done"), End(IDS[1], "done")]
    with pytest.raises(UsageError, match="not claimed by this process"):
        finish_group(store, ends)
    assert state(store, FIRST) == "claimed", "all or none"
    finish_group(store, ends[:1])  # control


@pytest.mark.parametrize("to", ["claimed", "denied", "draft", "expired"])
def test_a_claim_ends_only_as_a_claim_may_end(store: Store, to: str) -> None:
    claim(store, FIRST)
    with pytest.raises(UsageError, match="cannot end as"):
        finish(store, FIRST, to=to)
    with pytest.raises(UsageError, match="ends once"):
        finish_group(store, [End(FIRST, "done"), End(FIRST, "held")])
    finish(store, FIRST)  # control


def test_what_two_runs_leave_alike_is_kept_once_and_counted_once(store: Store) -> None:
    take(store, *(approve(store, one) for one in IDS[:2]))
    blob = Put(states.BLOBS, sha256_hex(b"same"), b"same")
    own = Put(states.BLOBS, sha256_hex(b"own"), b"own")
    finish_group(store, [End(FIRST, "done", [blob]), End(IDS[1], "done", [blob, own])])
    assert store.journal.usage.of(states.BLOBS) == (2, 7)
    assert findings(store.root) == []


def test_more_acts_than_a_batch_holds_are_finished_in_several(store: Store) -> None:
    take(store, *(approve(store, one) for one in IDS[:3]))
    size = store.journal.log.size

    def left(number: int) -> list[Put]:
        texts = [f"{number} {index}".encode() for index in range(MAX_BATCH // 2)]
        return [Put(states.BLOBS, sha256_hex(text), text) for text in texts]

    finish_group(store, [End(one, "done", left(number)) for number, one in enumerate(IDS[:3])])
    kinds = [entry.kind for entry in store.journal.log.entries(size)]
    assert kinds.count("outcome") == 3
    assert [state(store, one) for one in IDS[:3]] == ["done"] * 3
    assert findings(store.root) == []


def lease_files(store: Store) -> list[Path]:
    return sorted((store.root / states.LEASES).iterdir())


def test_missing_lease_is_tampering(store: Store) -> None:
    claim(store, FIRST)
    assert release_dead(store) == [], "control"
    lease_files(store)[0].unlink()
    with pytest.raises(HandoffTampered, match="lease"):
        release_dead(store)


def end_first(store: Store) -> None:
    finish(store, FIRST)


@pytest.mark.parametrize("act", [release_dead, end_first])
def test_lease_edited_or_laid_there_by_hand_is_tampering(
    store: Store, act: Callable[[Store], object]
) -> None:
    claim(store, FIRST)
    (path,) = lease_files(store)
    kept = path.read_bytes()
    forged = Lease("0" * 36, 1, 1, 0, (FIRST,)).to_bytes()
    for name in ("9999.json", path.name):
        target = path.with_name(name)
        target.unlink(missing_ok=True)
        target.write_bytes(forged)
        target.chmod(0o444)
        with pytest.raises(HandoffTampered) as caught:
            act(store)
        assert caught.value.code == MISPLACED
        target.unlink()
    path.write_bytes(kept)
    path.chmod(0o444)
    act(store)  # control
    assert findings(store.root) == []


def test_lease_ends_with_the_last_of_what_was_claimed_together(store: Store) -> None:
    made = [approve(store, one, max_uses=2) for one in IDS[:3]]
    take(store, *made)
    (first,) = lease_files(store)
    finish_group(store, [End(made[0].request_id, "approved")])
    take(store, made[0])  # under a lease of its own, while the first is not over
    assert len(lease_files(store)) == 2
    assert leases(store)[made[0].request_id].name != first.name
    finish_group(store, [End(one.request_id, "done") for one in made[1:]])
    assert first not in lease_files(store)
    assert state(store, made[0].request_id) == "claimed"
    finish(store, made[0].request_id)
    assert lease_files(store) == []
    assert findings(store.root) == []


def test_request_claimed_again_is_not_released_with_the_claim_of_a_dead_process(
    store: Store,
) -> None:
    made = [approve(store, one, max_uses=2) for one in IDS[:2]]

    def end_one_and_die(store: Store) -> None:
        take(store, *made)
        finish(store, made[0].request_id, to="approved")

    adopt(store.root, end_one_and_die)
    take(store, made[0])
    assert release_dead(store) == [made[1].request_id]
    assert state(store, made[0].request_id) == "claimed"
    finish(store, made[0].request_id)  # control: it is still this process's
    assert lease_files(store) == []


def test_reused_pid_and_other_boot_are_dead() -> None:
    lease = current_lease()
    assert is_alive(lease), "control"
    assert not is_alive(Lease(lease.boot, lease.pid, lease.started + 1))
    assert not is_alive(Lease("0" * 36, lease.pid, lease.started))
    assert not is_alive(Lease(lease.boot, 2**22 + 1, lease.started))


def test_room_does_not_make_it_another_holder() -> None:
    lease = current_lease(room=7, requests=[FIRST])
    again = parse_lease(lease.to_bytes())
    assert (again.room, again.requests) == (7, (FIRST,))
    assert lease == current_lease()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"boot":"","format":"lease/2","pid":1,"requests":[],"room":1,"started":1}',
        b'{"boot":"","format":"lease/1","pid":1,"room":1,"started":1}',
        b'{"boot":"","format":"lease/1","pid":1,"requests":["../x"],"room":1,"started":1}',
        b'{"boot":"","format":"lease/1","pid":1,"requests":[1],"room":1,"started":1}',
        b"\xff",
    ],
)
def test_forged_lease_is_tampering(data: bytes) -> None:
    assert parse_lease(current_lease().to_bytes()) == current_lease(), "control"
    with pytest.raises(HandoffTampered):
        parse_lease(data)


def test_largest_group_fits_a_batch() -> None:
    assert 1 + claims.MAX_CLAIMS * 5 <= MAX_BATCH
