"""What a process that runs for days takes of the machine, with everything it started."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

from bench.measure import PAGE_BYTES, pss
from tests.support.lite import tree
from tests.support.sessions import is_dead

LOOKS, LOOK_SECONDS = 8, 0.1  # what a look finds may be in use for a moment


@dataclass(frozen=True)
class Taken:
    """What a process takes at one moment."""

    mib: float  # resident, its own
    boxes_mib: float  # of all below it, shared pages counted once
    descriptors: int
    threads: int
    processes: int  # below it, those that ended and were not waited for included
    boxes: int


NAMES = tuple(one.name for one in fields(Taken))
COUNTS = ("descriptors", "threads", "processes", "boxes")


@dataclass
class Footprint:
    """Looks at a process again and again."""

    pid: int
    rows: list[Taken] = field(default_factory=list)
    seen: set[tuple[int, str]] = field(default_factory=set)

    def look(self) -> None:
        """Note what it takes while nothing is under way: the least of a few looks."""
        found = []
        for _ in range(LOOKS):
            found.append(self._taken())
            time.sleep(LOOK_SECONDS)
        self.rows.append(Taken(*(min(getattr(one, name) for one in found) for name in NAMES)))

    def _taken(self) -> Taken:
        place = Path(f"/proc/{self.pid}")
        below = [pid for pid in tree(self.pid) if pid != self.pid]
        self.seen |= {(pid, begun) for pid in below if (begun := _begun(pid))}
        return Taken(
            int((place / "statm").read_text("ascii").split()[1]) * PAGE_BYTES / 2**20,
            sum(map(_pss, below)) / 2**20,
            len(list((place / "fd").iterdir())),
            len(list((place / "task").iterdir())),
            len(below),
            sum(_name(pid) == "monty" for pid in below),
        )

    def growth(self, name: str) -> float:
        """Return by how much the last quarter stands above the second one, by their middles."""
        values = [float(getattr(one, name)) for one in self.rows]
        quarter = max(1, len(values) // 4)
        early, late = values[quarter : 2 * quarter], values[-quarter:]
        return statistics.median(late) - statistics.median(early)

    def most(self, name: str) -> float:
        """Return the largest of what was noted."""
        return max(float(getattr(one, name)) for one in self.rows)

    def left(self) -> set[int]:
        """Return those ever seen below it that still live."""
        return {pid for pid, begun in self.seen if _begun(pid) == begun and not is_dead(pid)}

    def table(self) -> str:
        """Return every figure as a row: first, last, most, growth."""
        lines = ["| | first | last | most | growth |", "|---|---|---|---|---|"]
        for name in NAMES:
            first, last = (getattr(self.rows[place], name) for place in (0, -1))
            values = (first, last, self.most(name), self.growth(name))
            lines.append(f"| {name} | " + " | ".join(f"{one:.4g}" for one in values) + " |")
        return "\n".join(lines)


def _read(path: Path, then: Callable[[str], str]) -> str:
    try:
        return then(path.read_text("latin-1"))
    except OSError:  # it has ended
        return ""


def _begun(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/stat"), lambda text: text.rpartition(")")[2].split()[19])


def _name(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/comm"), str.strip)


def _pss(pid: int) -> int:
    try:
        return pss(pid)
    except OSError:
        return 0
