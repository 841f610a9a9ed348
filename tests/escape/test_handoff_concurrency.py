"""Claim: eight processes at once, killed at random, lose nothing and double nothing."""

import os
import random
import signal
import time
from pathlib import Path

from tests.support import samples
from tests.support.workspaces import (
    NOW,
    approve,
    audited,
    clock,
    findings,
    finish,
    make_store,
    take,
)
from threegate.artifacts import registry
from threegate.base.errors import PolicyDenied, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import claims, states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import approvals_by_request
from threegate.handoff.store import Store

WORKERS = 8
ROUNDS = 6
PACKETS_PER_ROUND = 12


def _worker(root: Path, number: int, round_number: int, acknowledged: int) -> None:
    """Admit packets and requests, push requests along; report each packet once it is durable."""
    rng = random.Random(number * 1000 + round_number)
    store = Store.open(root, clock=clock)
    for index in range(PACKETS_PER_ROUND):
        name = number * 10_000 + round_number * 100 + index
        data = registry.emit(samples.packet_of_size(name, 2200))
        for answer in admit(store, [Untrusted(data)], now=lambda: NOW):
            assert answer.status in ("accepted", "already")
            os.write(acknowledged, f"{answer.id}\n".encode())
        nonce = f"{name:032x}"
        request = samples.tool_request(inputs=(), nonce=nonce)
        list(admit(store, [Untrusted(registry.emit(request))], now=lambda: NOW))
        _push(store, rng)


def _push(store: Store, rng: random.Random) -> None:
    found = sorted(store.ids("tr"))
    request_id = rng.choice(found)
    try:
        step = rng.randrange(3)
        if step == 0:
            approve(store, request_id, nonce=f"{rng.getrandbits(128):032x}")
        elif step == 1:
            (approval_id, *_) = approvals_by_request(store).get(request_id, ["ap-" + "0" * 64])
            take(store, claims.RunClaim(request_id, approval_id, 1))
            finish(store, request_id)
        else:
            claims.release_dead(store)
    except (UsageError, PolicyDenied):
        return  # somebody else was faster: that is what the lock is for


def _run_round(root: Path, round_number: int, *, kill: bool) -> set[str]:
    reader, writer = os.pipe()
    pids = []
    for number in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(reader)
                _worker(root, number, round_number, writer)
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(writer)
    killed = set()
    if kill:
        rng = random.Random(round_number)
        for pid in rng.sample(pids, WORKERS // 2):
            time.sleep(rng.random() * 0.15)
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert pid in killed or status == 0, "a worker that was not killed failed"
    return {line for line in told.split("\n") if len(line) == len("rp-") + 64}


# claim TG-C-20
def test_eight_processes_and_kill_9_lose_and_double_nothing(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make_store(root)
    acknowledged: set[str] = set()
    for round_number in range(ROUNDS):
        # The last round kills nobody: the control that the work gets done at all.
        acknowledged |= _run_round(root, round_number, kill=round_number < ROUNDS - 1)
        audited(root)
    assert len(acknowledged) > WORKERS * PACKETS_PER_ROUND
    assert findings(root) == []
    store = Store.open(root, clock=clock)
    present = set(store.ids("rp"))
    assert acknowledged <= present, "an acknowledged packet is gone"
    places = [
        name for state in states.REQUEST_STATES for name in os.listdir(_requests(root, state))
    ]
    assert len(places) == len(set(places)), "a request lies in two states"
    assert not list(store.names(states.INCOMING)), "something is still under way"
    store.close()


def _requests(root: Path, state: str) -> Path:
    return root / states.directory_of("tr", state)
