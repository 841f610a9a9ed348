"""The rate of the time stamp counter: the same on a busy machine."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from threegate.sandbox import machine


class Clock:
    """A clock and a counter of 2 GHz on which a look may be interrupted for 5 ms."""

    def __init__(self, interrupted: Callable[[int], bool]) -> None:
        self.ns, self.looks, self.interrupted = 0, 0, interrupted

    def perf_counter_ns(self) -> int:
        self.ns += 100
        return self.ns

    def read(self) -> int:
        self.looks += 1
        self.ns += 5_000_000 if self.interrupted(self.looks) else 100
        return 2 * self.ns


@pytest.mark.parametrize("every", [0, 2, 3])
def test_a_look_that_was_interrupted_does_not_count(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(lambda look: bool(every) and look % every != 0)
    monkeypatch.setattr(time, "perf_counter_ns", clock.perf_counter_ns)
    first, count = machine._both(clock.read)
    clock.ns += 50_000_000
    last, again = machine._both(clock.read)
    assert (again - count) / (last - first) == pytest.approx(2, rel=1e-4)


def test_the_rate_of_this_machine_is_measured_alike_twice() -> None:
    rates: list[Any] = [machine.tsc_khz(), machine.tsc_khz()]
    assert rates[0] > 100_000
