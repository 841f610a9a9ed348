"""Claims: one claimer, a lease that dies with its process, room reserved first."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.stores import NOW, adopt, clock, files_of, findings, make_store
from threegate.artifacts import registry
from threegate.errors import HandoffTampered, QuotaExceeded, UsageError
from threegate.handoff import claims, states
from threegate.handoff.admission import admit
from threegate.handoff.lease import Lease, current_lease, is_alive, parse_lease
from threegate.handoff.store import Store
from threegate.untrusted import Untrusted

REQUEST = samples.tool_request(inputs=())
REQUEST_ID = registry.id_of(REQUEST)
CLAIMED = "handoff/requests/claimed"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    list(admit(opened, [Untrusted(registry.emit(REQUEST))], now=lambda: NOW))
    opened.move(REQUEST_ID, source="held", to="approved", op="approve")
    yield opened
    opened.close()


def claim(store: Store) -> None:
    claims.claim(store, REQUEST_ID, reserve_bytes=8192)


def test_claim_reserves_room_and_finish_gives_it_back(store: Store) -> None:
    claim(store)
    assert store.locate(REQUEST_ID) == CLAIMED
    reserve = store.root / states.RESERVE / REQUEST_ID
    assert reserve.stat().st_blocks * 512 >= 8192
    claims.finish(store, REQUEST_ID, to="done")
    assert store.locate(REQUEST_ID) == "handoff/requests/done"
    assert not reserve.exists()
    assert list(store.names(states.LEASES)) == []
    assert findings(store.root) == []


def test_second_claim_is_refused(store: Store) -> None:
    claim(store)
    with pytest.raises(UsageError, match="is not approved"):
        claim(store)


def test_full_disk_refuses_the_claim_and_spends_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, entries = files_of(store.root), store.journal.log.size

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(QuotaExceeded, match="no room") as refused:
        claim(store)
    assert refused.value.exit_code == 74
    assert (files_of(store.root), store.journal.log.size) == (before, entries)
    assert os.listdir(store.root / states.RESERVE) == []
    monkeypatch.undo()
    claim(store)  # control


def test_claim_of_a_dead_process_goes_back_to_the_human(store: Store) -> None:
    adopt(store.root, claim)
    assert store.locate(REQUEST_ID) == CLAIMED
    assert claims.release_dead(store) == [REQUEST_ID]
    assert store.locate(REQUEST_ID) == "handoff/requests/held"


def test_claim_of_a_living_process_is_left_alone(store: Store) -> None:
    claim(store)
    assert claims.release_dead(store) == []
    assert store.locate(REQUEST_ID) == CLAIMED


def test_somebody_elses_claim_cannot_be_finished(store: Store) -> None:
    adopt(store.root, claim)
    with pytest.raises(UsageError, match="not claimed by this process"):
        claims.finish(store, REQUEST_ID, to="done")


def test_reused_pid_and_other_boot_are_dead() -> None:
    lease = current_lease()
    assert is_alive(lease), "control"
    assert not is_alive(Lease(lease.boot, lease.pid, lease.started + 1))
    assert not is_alive(Lease("0" * 36, lease.pid, lease.started))
    assert not is_alive(Lease(lease.boot, 2**22 + 1, lease.started))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"boot":"","format":"lease/2","pid":1,"started":1}', b"\xff"]
)
def test_forged_lease_is_tampering(data: bytes) -> None:
    assert parse_lease(current_lease().to_bytes()) == current_lease(), "control"
    with pytest.raises(HandoffTampered):
        parse_lease(data)
