"""Programs made from a seed: each puts together some of everything the interpreter can do.

`program(7)` is the same program for ever: the parts are chosen by a generator of our own.  Parts
and endings lie in tests/vectors/lite, as templates: {w} words, {n} numbers, {f} floats, {k} a
small number, {t} one word.  Each part appends something to `out`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.lite import LIMITS, Program

WORDS: Final = (
    *("ice", "snow", "sleet", "hail", "rime", "frost", "thaw"),
    *(
        "n\u00e9v\u00e9",
        "glac\u00e9",
        "\u00c5ngstr\u00f6m",
        "\u00df",
        "\ufb01n",
        "\u96ea",
        "\u2744",
        "\u0130stanbul",
    ),
)


@dataclass(slots=True)
class Dice:
    """Numbers that depend on a seed and on nothing else."""

    seed: int
    thrown: int = 0

    def number(self, most: int) -> int:
        """Return a number below `most`."""
        self.thrown += 1
        text = f"{self.seed}:{self.thrown}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % most

    def one_of(self, things: Sequence[str]) -> str:
        return things[self.number(len(things))]

    def word(self) -> str:
        return self.one_of(WORDS)

    def words(self, count: int) -> list[str]:
        return [self.word() + str(self.number(10)) for _ in range(count)]

    def numbers(self, count: int) -> list[int]:
        return [self.number(2000) - 1000 for _ in range(count)]

    def floats(self, count: int) -> list[float]:
        return [(self.number(10**9) - 5 * 10**8) / (1 + self.number(9999)) for _ in range(count)]


VECTORS: Final = Path(__file__).parents[1] / "vectors" / "lite"
LIMIT: Final = replace(LIMITS, wall_ms=20_000)


@cache
def parts(name: str) -> tuple[str, ...]:
    """Return the templates of a file; a blank line stands between two."""
    return tuple((VECTORS / f"{name}.txt").read_text("utf-8").rstrip("\n").split("\n\n"))


def program(seed: int) -> Program:
    """Return the program of a seed."""
    dice = Dice(seed)
    count = 4 + dice.number(8)
    lines = ["out = []"]
    lines += [_filled(dice.one_of(parts("parts")), dice) for _ in range(count)]
    ends = ("out",) if dice.number(2) else parts("ends")
    lines.append(_filled(dice.one_of(ends), dice))
    data = {
        "rows": dice.words(6),
        "numbers": dice.floats(9),
        "nested": {"a": dice.numbers(3), dice.word(): None},
    }
    document = json.dumps(data, ensure_ascii=False).encode()
    functions = ("json_dumps", "json_loads", "regex_findall", "sha256_hex")
    return Program("\n".join(lines) + "\n", functions, {"data": document}, LIMIT)


def _filled(part: str, dice: Dice) -> str:
    fields: dict[str, Callable[[], Any]] = {
        "w": lambda: dice.words(3 + dice.number(6)),
        "w2": lambda: dice.words(4),
        "n": lambda: dice.numbers(4 + dice.number(5)),
        "f": lambda: dice.floats(3 + dice.number(4)),
        "k": lambda: 1 + dice.number(6),
        "t": dice.word,
    }
    return part.format(**{name: make() for name, make in fields.items()})


def programs(seeds: range) -> Iterator[tuple[int, Program]]:
    return ((seed, program(seed)) for seed in seeds)
