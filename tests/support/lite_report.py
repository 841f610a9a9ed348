"""What the bombs did to the lite lane: measured, judged, and told in one table by family."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.lite import MIB, Lane
from tests.support.lite_bombs import Bomb

# Generous: a machine may be slow and busy.  The table says what was measured.
MOST_MS: Final = 20_000
MOST_TIMES_MEMORY: Final = 4
MOST_GATE_BYTES: Final = 256 * MIB  # and as many times the memory


@dataclass(frozen=True, slots=True)
class Measured:
    """One bomb, how it ended, and what it took."""

    bomb: Bomb
    exit: str
    wall_ms: int
    worker_bytes: int
    gate_bytes: int

    @property
    def late_ms(self) -> int:
        """Return how long after its limit it ended; negative if before."""
        return self.wall_ms - self.bomb.limits.wall_ms

    @property
    def _ends(self) -> tuple[str, ...]:
        # On a busy machine the time may be up before anything else is; what is refused never runs.
        ran = any(not end.startswith("refused:") for end in self.bomb.ends)
        return (*self.bomb.ends, "limit:time") if ran else self.bomb.ends

    @property
    def wrong(self) -> str:
        """Return what is wrong with this end, or nothing."""
        found = []
        if self.exit not in self._ends:
            found.append(f"ended as {self.exit}, not {' or '.join(self.bomb.ends)}")
        if self.wall_ms > MOST_MS:
            found.append(f"took {self.wall_ms} ms")
        most = MOST_TIMES_MEMORY * self.bomb.limits.memory_bytes
        if self.worker_bytes > most:
            found.append(f"worker took {self.worker_bytes} bytes")
        if self.gate_bytes > most + MOST_GATE_BYTES:
            found.append(f"gate took {self.gate_bytes} bytes")
        return f"{self.bomb.id}: {', '.join(found)}" if found else ""


def measure(lane: Lane, bombs: Iterable[Bomb]) -> Iterator[Measured]:
    """Run every bomb and say what it did."""
    for bomb in bombs:
        ran = lane.run(bomb.program)
        yield Measured(bomb, ran.exit, ran.wall_ms, ran.worker_bytes, ran.gate_bytes)


def table(rows: list[Measured]) -> str:
    """Return one line for each family and one for all."""
    head = "| family | programs | how they ended | longest | beyond the limit | worker | gate |"
    families: dict[str, list[Measured]] = {}
    for row in rows:
        families.setdefault(row.bomb.family, []).append(row)
    lines = [_line(name, found) for name, found in families.items()]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines, _line("**all**", rows)])


def _line(name: str, rows: list[Measured]) -> str:
    ends = Counter(row.exit for row in rows)
    told = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
    cells = (
        name,
        str(len(rows)),
        told,
        f"{max(row.wall_ms for row in rows) / 1000:.2f} s",
        f"{max(0, *(row.late_ms for row in rows)) / 1000:.2f} s",
        f"{max(row.worker_bytes for row in rows) / MIB:.0f} MiB",
        f"{max(row.gate_bytes for row in rows) / MIB:.0f} MiB",
    )
    return f"| {' | '.join(cells)} |"
