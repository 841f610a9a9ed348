"""Claim: a use is spent once, whoever dies when and however many ask at the same moment."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.crash import deaths
from tests.support.workspaces import NOW, ROOM, approve, audited, clock, findings, make_store
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import USES_SPENT
from threegate.handoff.claims import End, RunClaim, claim_group, finish_group, release_dead
from threegate.handoff.journal import Put
from threegate.handoff.store import Store

PROCESSES = 6
CLAIMED = states.directory_of("tr", "claimed")


def prepared(root: Path, *, requests: int, uses: int) -> list[RunClaim]:
    """Make a store with approved requests."""
    make_store(root)
    store = Store.open(root, clock=clock)
    items = [
        registry.emit(samples.tool_request(inputs=(), nonce=f"{number:032x}"))
        for number in range(requests)
    ]
    answers = list(admit(store, map(Untrusted, items), now=lambda: NOW))
    made = [approve(store, answer.id, max_uses=uses) for answer in answers if answer.id is not None]
    store.close()
    assert len(made) == requests
    return made


def run_group(store: Store, group: list[RunClaim], runs: Path) -> int:
    """Claim, run and finish what can be claimed; a run leaves a byte in a file of its own."""
    refused = {one.request_id for one in claim_group(store, group, reserve_bytes=ROOM)}
    mine = [made for made in group if made.request_id not in refused]
    for made in mine:
        fd = os.open(runs / made.request_id, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, b"x")
        os.close(fd)
    ends = [End(made.request_id, "approved", (), made.approval_id) for made in mine]
    finish_group(store, ends)
    return len(mine)


def counted(runs: Path) -> Counter[str]:
    return Counter({path.name: path.stat().st_size for path in runs.iterdir()})


def spent(root: Path) -> Counter[str]:
    """Return how many uses the log says were spent for each request."""
    store = Store.open(root, clock=clock)
    found: Counter[str] = Counter()
    with store.locked() as journal:
        batch: list[str] = []
        for entry in journal.log.entries():
            if entry.kind == "intent" and entry.data["op"] == "claim":
                batch += [entry.data["name"]] * (entry.data.get("to") == CLAIMED)
            elif entry.kind in ("outcome", "recovered"):
                if entry.data.get("direction") != "back":
                    found.update(name.removesuffix(".md") for name in batch)
                batch = []
    store.close()
    return found


def runnable_with_nothing_left(root: Path, group: list[RunClaim]) -> list[str]:
    """Return the approved requests whose approval is not accepted."""
    store = Store.open(root, clock=clock)
    with store.locked():
        found = [
            made.request_id
            for made in group
            if store.standing(made.request_id) == "approved"
            and store.standing(made.approval_id) != "accepted"
        ]
    store.close()
    return found


def recover(root: Path, group: list[RunClaim], runs: Path) -> None:
    """Go on as the next process would, until nothing can be claimed any more."""
    store = Store.open(root, clock=clock)
    release_dead(store)
    while run_group(store, group, runs):
        pass
    assert os.listdir(store.root / states.RESERVE) == []
    store.close()


@pytest.mark.parametrize("uses", [1, pytest.param(2, marks=pytest.mark.slow)])
# claim TG-C-26
def test_kill_at_any_call_of_a_run_never_grants_a_use_again(tmp_path: Path, uses: int) -> None:
    template, root, runs = tmp_path / "template", tmp_path / "store", tmp_path / "runs"
    group = prepared(template, requests=2, uses=uses)
    opened: list[Store] = []

    def prepare() -> None:
        for path in (root, runs):
            shutil.rmtree(path, ignore_errors=True)
        runs.mkdir()
        shutil.copytree(template, root)
        opened.append(Store.open(root, clock=clock))

    def interrupted() -> None:
        assert run_group(opened[-1], group, runs) == 2

    kills, ran = 0, Counter[int]()
    for death in deaths(interrupted, prepare):
        while opened:
            opened.pop().close()
        audited(root)
        assert runnable_with_nothing_left(root, group) == [], death
        recover(root, group, runs)
        assert findings(root) == [], death
        total, asked = counted(runs), spent(root)
        for made in group:
            assert asked[made.request_id] == uses, death
            assert total[made.request_id] <= uses, death
            ran[total[made.request_id]] += 1
        kills += 1
    assert ran[uses], "control: before the claim a death costs nothing"
    assert ran[uses - 1], "control: after it the use is gone, though nothing ran"
    assert set(ran) <= {uses, uses - 1}
    print(f"{uses} uses: {kills} kills")


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in that many processes, all let go at the same moment."""
    gate, starter = os.pipe()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(starter)
                os.read(gate, 1)
                work(number)
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(starter)
    os.close(gate)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    assert statuses == [0] * count


def until_spent(root: Path, made: RunClaim, runs: Path) -> None:
    """Run a request as often as it can be claimed; others try at the same time."""
    store = Store.open(root, clock=clock)
    while True:
        refused = claim_group(store, [made], reserve_bytes=ROOM)
        if not refused:
            fd = os.open(runs / made.request_id, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(fd, b"x")
            os.close(fd)
            finish_group(store, [End(made.request_id, "approved", (), made.approval_id)])
            continue
        if refused[0].error.code == USES_SPENT:
            break
        assert isinstance(refused[0].error, UsageError), refused[0].error
        with store.locked():
            if store.standing(made.request_id) == "done":
                break
        time.sleep(0.001)  # somebody else has it at the moment
    store.close()


@pytest.mark.parametrize("uses", [1, 2, 9])
# claim TG-C-27
def test_processes_that_claim_at_the_same_moment_spend_each_use_once(
    tmp_path: Path, uses: int
) -> None:
    root, runs = tmp_path / "store", tmp_path / "runs"
    runs.mkdir()
    (made,) = prepared(root, requests=1, uses=uses)
    at_once(PROCESSES, lambda _: until_spent(root, made, runs))
    assert counted(runs)[made.request_id] == uses
    assert spent(root)[made.request_id] == uses
    assert findings(root) == []


# claim TG-C-27
def test_groups_that_overlap_are_shared_out(tmp_path: Path) -> None:
    root, runs = tmp_path / "store", tmp_path / "runs"
    runs.mkdir()
    group = prepared(root, requests=24, uses=1)

    def work(number: int) -> None:
        store = Store.open(root, clock=clock)
        mine = group[number:] + group[:number]  # each begins elsewhere
        for start in range(0, len(mine), 8):
            taken = mine[start : start + 8]
            refused = {one.request_id for one in claim_group(store, taken, reserve_bytes=ROOM)}
            ends = []
            for made in taken:
                if made.request_id in refused:
                    continue
                data = f"{made.request_id} {number}".encode()
                put = Put(states.BLOBS, sha256_hex(data), data)
                ends.append(End(made.request_id, "done", [put]))
                fd = os.open(runs / made.request_id, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.write(fd, b"x")
                os.close(fd)
            finish_group(store, ends)
        store.close()

    at_once(PROCESSES, work)
    assert counted(runs) == Counter({made.request_id: 1 for made in group})
    assert spent(root) == counted(runs)
    store = Store.open(root, clock=clock)
    assert len(list(store.names(states.BLOBS))) == len(group)
    assert os.listdir(root / states.RESERVE) == []
    store.close()
    assert findings(root) == []
