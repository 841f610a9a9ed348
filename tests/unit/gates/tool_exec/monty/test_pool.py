"""The one clock of a box: rings when it is set, never after it was put off."""

import threading
from collections.abc import Iterator

import pytest

from threegate.gates.tool_exec.monty.pool import Alarm, WorkerPool
from threegate.sandbox.worker import find_worker

PATIENCE = 30.0  # how long a busy machine may take


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    made.start()
    yield made
    made.close()


def test_rings_once(alarm: Alarm) -> None:
    rung = threading.Semaphore(0)
    alarm.set(0.01, rung.release)
    assert rung.acquire(timeout=PATIENCE)
    assert not rung.acquire(timeout=0.1)


def test_does_not_ring_when_put_off_or_set_again(alarm: Alarm) -> None:
    early, late = threading.Event(), threading.Event()
    alarm.set(0.2, early.set)
    alarm.off()
    alarm.set(3600, early.set)
    alarm.set(0.4, late.set)  # earlier than what the thread waits for
    assert late.wait(PATIENCE)
    assert not early.is_set()


def test_close_ends_the_thread_whatever_is_set() -> None:
    alarm = Alarm()
    alarm.start()
    alarm.set(3600, lambda: None)
    alarm.close()
    assert not alarm._thread.is_alive()


def test_every_program_has_a_worker_of_its_own() -> None:
    pids = set()
    with WorkerPool(str(find_worker().binary)) as pool:
        for _ in range(5):
            with pool.checkout() as session:
                session.feed_run("1")
                pids.add(session.worker_pid)
    assert len(pids) == 5
