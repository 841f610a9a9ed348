"""Several processes, one log: each takes the lock, refreshes, appends."""

import fcntl
import os
import random
import signal
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tests.support.auditlab import FORK, clock, new_log, numbered
from threegate.audit import AuditLog, verify_log
from threegate.audit.entry import SEGMENT_EVENTS

ROUNDS = 120


def writer(directory: Path, pipe: Connection, *, name: int, rounds: int) -> None:
    """Append batches of one to five events; report each event once it is appended."""
    chance = random.Random(name)
    lock = os.open(directory.parent / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    log: AuditLog | None = None
    number = name * 1_000_000
    for _ in range(rounds):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if log is None:
            log = AuditLog.open(directory, clock=clock)
        log.refresh()
        count = chance.randint(1, 5)
        log.append(numbered(number, count), durable=chance.random() < 0.2)
        fcntl.flock(lock, fcntl.LOCK_UN)
        pipe.send((number, count))
        number += count
    os._exit(0)


def start(directory: Path, name: int, rounds: int) -> tuple[int, Connection]:
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=writer, args=(directory, there), kwargs=_named(name, rounds))
    process.start()
    there.close()
    assert process.pid is not None
    return process.pid, here


def _named(name: int, rounds: int) -> dict[str, int]:
    return {"name": name, "rounds": rounds}


def drain(pipe: Connection) -> list[int]:
    found: list[int] = []
    try:
        while True:
            first, count = pipe.recv()
            found.extend(range(first, first + count))
    except EOFError:
        pipe.close()
        return found


def recorded(directory: Path) -> Counter[int]:
    log = AuditLog.open(directory, clock=clock)
    report = verify_log(directory, checkpoints=[log.checkpoint()])
    assert report.problem is None
    return Counter(
        entry.data["id"] for entry in log.entries() if entry.data.get("id", 0) >= 1_000_000
    )


def test_two_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    """Over two segment boundaries, so that each has to follow the other's rotation."""
    directory = tmp_path / "audit"
    new_log(directory, size=SEGMENT_EVENTS - 100).close()
    writers = [start(directory, name, 4 * ROUNDS) for name in (1, 2)]
    reported = [drain(pipe) for _, pipe in writers]
    assert [os.waitpid(pid, 0)[1] for pid, _ in writers] == [0, 0]
    assert all(len(found) > 4 * ROUNDS for found in reported), "control: both wrote"
    found = recorded(directory)
    assert sorted(found) == sorted(reported[0] + reported[1])
    assert set(found.values()) == {1}
    order = [number for number in found if number < 2_000_000]
    assert order == sorted(order), "each writer's events are in its order"
    assert len(list(directory.glob("segment-*.jsonl"))) >= 3


def test_writers_killed_at_random_lose_and_double_nothing(tmp_path: Path) -> None:
    """The kernel drops the lock of the dead; the next one finds what they left."""
    directory = tmp_path / "audit"
    new_log(directory, size=SEGMENT_EVENTS - 20).close()
    chance = random.Random(7)
    reported: list[int] = []
    for name in range(1, 31):
        pid, pipe = start(directory, name, 10_000)
        wait([pipe], timeout=30)
        time.sleep(chance.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        reported += drain(pipe)
    found = recorded(directory)
    assert len(reported) > 100, "control: they wrote before they died"
    assert set(reported) <= set(found)
    assert set(found.values()) == {1}
