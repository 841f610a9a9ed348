"""Sizes and times as people write them, and the one integer each of them is.

A key names its canonical unit (`wall_ms`, `memory_bytes`); the value may use any unit
that converts to it exactly: `wall_ms: 2s`, `memory_bytes: 64MiB`.
"""

import re
from dataclasses import dataclass
from typing import Final

from threegate.policy.limits import MAX_NUMBER_DIGITS

# [0-9], not \d: `int("٣")` is 3, and nobody reviewing the file would read it so.
_NUMBER: Final = re.compile(rf"(0|[1-9][0-9]{{0,{MAX_NUMBER_DIGITS - 1}}})([A-Za-z]*)\Z")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts; `factors` lists the suffixes it may carry, largest first."""

    name: str
    factors: tuple[tuple[str, int], ...] = ()

    def parse(self, text: str) -> int:
        """Return the number in the canonical unit, or raise ValueError."""
        found = _NUMBER.match(text)
        if found is None:
            raise ValueError(f"expected {self.expected()}")
        for suffix, factor in (*self.factors, ("", 1)):
            if suffix == found[2]:
                return int(found[1]) * factor
        raise ValueError(f"expected {self.expected()}")

    def show(self, number: int) -> str:
        """Return the shortest spelling that `parse` reads as `number`."""
        for suffix, factor in self.factors:
            if number and number % factor == 0:
                return f"{number // factor}{suffix}"
        return str(number)

    def expected(self) -> str:
        """Return what an author may write."""
        if not self.factors:
            return "a whole number"
        suffixes = ", ".join(suffix for suffix, _ in reversed(self.factors))
        return f"a number of {self.name}, or one with {suffixes}"


def unit_of(key: str) -> Unit:
    """Return the canonical unit that the end of a key names."""
    ending = key.rpartition("_")[2]
    return MILLISECONDS if ending == "ms" else BYTES if ending == "bytes" else COUNT


def sized(number: int) -> str:
    """Return a number of bytes as a policy file would spell it, never without a unit."""
    shown = BYTES.show(number)
    return f"{shown} bytes" if shown.isdigit() else shown


COUNT: Final = Unit("whole number")
BYTES: Final = Unit("bytes", (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)))
SECONDS: Final = Unit("seconds", (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)))
MILLISECONDS: Final = Unit(
    "milliseconds", (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
)
