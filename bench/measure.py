"""What every measurement uses: clocks, memory, middle values, slopes."""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SETTLE_SECONDS = 0.3
MOST_REPEATS = 7


@dataclass
class Watch:
    """Seconds of several laps, and what was done in them."""

    seconds: list[float] = field(default_factory=list)
    done: int = 0
    # What computes and waits for nothing is measured per core by `time.process_time`.
    clock: Callable[[], float] = time.perf_counter

    @contextmanager
    def lap(self, count: int = 1) -> Iterator[None]:
        """Measure one lap in which `count` things are done."""
        begin = self.clock()
        yield
        self.seconds.append(self.clock() - begin)
        self.done += count

    @property
    def total(self) -> float:
        """Return the seconds of all laps."""
        return sum(self.seconds)

    def rate(self) -> float:
        """Return things a second."""
        return self.done / self.total

    def at(self, percent: int) -> float:
        """Return the lap that `percent` of the laps do not exceed, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Memory:
    """Resident memory of a process, this one if none is named, watched at chosen moments."""

    def __init__(self, pid: int | str = "self") -> None:
        self._statm = Path(f"/proc/{pid}/statm")
        self.samples: list[int] = []

    def look(self) -> None:
        """Take a sample."""
        self.samples.append(int(self._statm.read_text("ascii").split()[1]) * PAGE_BYTES)

    def growth(self) -> float:
        """Return by how many MiB the last quarter stands above the second one.

        The first quarter is left out: imports and caches fill there.
        """
        quarter = max(1, len(self.samples) // 4)
        early = self.samples[quarter : 2 * quarter] or self.samples
        return (max(self.samples[-quarter:]) - max(early)) / 2**20

    def peak(self) -> float:
        """Return the largest sample in MiB."""
        return max(self.samples) / 2**20


def seconds_of(act: Callable[[], object]) -> float:
    """Return the middle of several runs of `act`; a long one runs once."""
    watch = Watch()
    while len(watch.seconds) < MOST_REPEATS and watch.total < SETTLE_SECONDS:
        with watch.lap():
            act()
    return statistics.median(watch.seconds)


def noise(seconds: Sequence[float]) -> float | None:
    """Return half the distance between the quartiles, in percent of the middle value."""
    if len(seconds) < 2:
        return None
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return 50 * (high - low) / middle


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of the line through `points` on log-log axes: 1 is linear, 0 is flat."""
    sizes = [math.log(size) for size, _ in points]
    costs = [math.log(cost) for _, cost in points]
    return statistics.linear_regression(sizes, costs).slope


def pss(pid: int) -> int:
    """Return the proportional set size; shared pages count once over all who share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except PermissionError:  # not dumpable, so not ours to look at: resident size, which is more
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
        lines = [line.replace("VmRSS:", "Pss:") for line in status.splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def descendants() -> list[int]:
    """Return every process that this one, or one of those, has started and that is not gone."""
    found, parents = [os.getpid()], _parents()
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _parents() -> dict[int, int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.parent.name)] = int(fields[1])
    return parents


def say(text: str) -> None:
    """Show progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
