"""What a topic finds: rows that compare, curves that show cost against size.

Everything is plain JSON, so that documents and pictures can be drawn again without
measuring again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import Memory, slope

Plain = dict[str, Any]
MEMORY_IS_FLAT_MIB = 4.0
MOST_SLOPE = {"linear": 1.1, "logarithmic": 0.3, "flat": 0.15}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    name: str
    packets_to_validate: int
    batches: int
    singles: int
    events: tuple[int, ...]
    packets: tuple[int, ...]
    queries: int
    requests: int
    rows: int


FULL = Sizes(
    "full",
    packets_to_validate=100_000,
    batches=40,
    singles=400,
    events=(1_000, 10_000, 100_000, 1_000_000),
    packets=(1_000, 10_000, 100_000),
    queries=50,
    requests=1_000,
    rows=100_000,
)
QUICK = Sizes(
    "quick",
    packets_to_validate=4_000,
    batches=6,
    singles=60,
    events=(1_000, 4_000, 16_000),
    packets=(200, 800, 3_200),
    queries=20,
    requests=100,
    rows=10_000,
)


def compare(
    what: str,
    ours: float,
    *,
    peer: str,
    theirs: float,
    unit: str,
    smaller_is_better: bool = False,
    target: str = "",
    met: bool | None = None,
    noise: tuple[float | None, float | None] = (None, None),
) -> Plain:
    """Return a row that sets a figure of ours beside a peer's from the same run.

    `times` is how many times as fast ours is, whichever way the unit counts.  `noise` is
    that of both figures in percent, where there were several laps to tell it from.
    """
    times = theirs / ours if smaller_is_better else ours / theirs
    return {
        "what": what,
        "ours": ours,
        "peer": peer,
        "theirs": theirs,
        "unit": unit,
        "times": times,
        "target": target,
        "met": met,
        "noise": list(noise),
    }


def missing(what: str, ours: float, unit: str, *, peer: str, why: str) -> Plain:
    """Return a row whose peer could not be had, by name and with the reason."""
    return {**alone(what, ours, unit), "peer": peer, "target": f"peer not measured: {why}"}


def alone(what: str, ours: float, unit: str, *, target: str = "", met: bool | None = None) -> Plain:
    """Return a row that has no peer, only a target or none."""
    return {
        "what": what,
        "ours": ours,
        "peer": "",
        "theirs": None,
        "unit": unit,
        "times": None,
        "target": target,
        "met": met,
    }


def memory_rows(what: str, memory: Memory) -> list[Plain]:
    """Return peak and growth of memory during a run."""
    growth = memory.growth()
    target = f"within {MEMORY_IS_FLAT_MIB:g} MiB"
    return [
        alone(f"{what}: peak memory", memory.peak(), "MiB"),
        alone(
            f"{what}: growth of memory from the first half to the end",
            growth,
            "MiB",
            target=target,
            met=growth < MEMORY_IS_FLAT_MIB,
        ),
    ]


def curve(
    name: str, points: Sequence[tuple[int, float]], *, of: str, expect: str, picture: str
) -> Plain:
    """Return cost in seconds against the number `of` things, with the slope that it has."""
    found = slope(points)
    most = MOST_SLOPE[expect]
    return {
        "name": name,
        "of": of,
        "points": [list(point) for point in points],
        "slope": found,
        "expect": expect,
        "met": found <= most,
        "picture": picture,
    }
