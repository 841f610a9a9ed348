"""The lite lane on another day: every process of the box lives 4,000 days ahead, elsewhere.

A small library is loaded into host, gate and worker; it changes what the calendar says, time
zone and locale.  In a box it comes in as `/etc/ld.so.preload`, which the dynamic linker reads.

Usage: python -m tests.support.lite_day FROM TO   runs the programs of these seeds as they come
and prints one line of JSON for each.
"""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.support.boxes import run_as
from tests.support.lite import LIMITS, Lane, Program
from threegate.gates.tool_exec.monty.messages import LiteOutcome
from threegate.host import open_box
from threegate.sandbox.box import Start
from threegate.sandbox.profiles import Bind, Profile

# -- Programs made from a seed: each puts together some of everything the interpreter can do.
# `program(7)` is the same program for ever: the parts are chosen by a generator of our own. Parts
# and endings lie in tests/vectors/lite, as templates: {w} words, {n} numbers, {f} floats, {k} a
# small number, {t} one word. Each part appends something to `out`.

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


DAYS: Final = 4000
SOURCE: Final = Path(__file__).with_name("other_day.c")
INSIDE: Final = "/run/other_day.so"
BUSY: Final = 3


def build(directory: Path, days: int = DAYS) -> Path:
    """Compile the library."""
    made = directory / "other_day.so"
    options = [f"-DSHIFT_SECONDS={days * 86400}L", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run(["cc", *options, "-o", str(made), str(SOURCE)], check=True, timeout=120)
    made.chmod(0o755)
    preload = directory / "ld.so.preload"
    preload.write_text(f"{INSIDE}\n", encoding="ascii")
    preload.chmod(0o644)
    return made


def elsewhere(start: Start, library: Path) -> Start:
    """Return the start of the same box with the library in it."""
    binds = (
        *start.profile.binds,
        Bind("other-day", INSIDE, "file"),
        Bind("preload", "/etc/ld.so.preload", "file"),
    )
    given = {
        **start.given,
        "other-day": str(library),
        "preload": str(library.with_name("ld.so.preload")),
    }
    profile = dataclasses.replace(start.profile, binds=binds)
    return dataclasses.replace(start, profile=profile, given=given)


@contextmanager
def all_boxes_elsewhere(library: Path) -> Iterator[None]:
    """Start every box of the lite lane on the other day while a block runs."""

    def start(profile: Profile, payload: str, given: dict[str, str], *_: Any, **__: Any) -> Start:
        return elsewhere(Start(profile, payload, given), library)

    with mock.patch.object(open_box, "Start", start):
        yield


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keep the processors busy while a block runs."""
    argv = [sys.executable, "-I", "-c", "while True: pass"]
    loads = [subprocess.Popen(argv) for _ in range(BUSY)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


def plain(outcome: LiteOutcome) -> dict[str, Any]:
    """Return all of an outcome that must be the same every time."""
    fields = {item.name: getattr(outcome, item.name) for item in dataclasses.fields(outcome)}
    del fields["cpu_ms"]
    texts = {k: v.decode("utf-8") if isinstance(v, bytes) else v for k, v in fields.items()}
    texts["refusal"] = None if outcome.refusal is None else outcome.refusal.plain()
    texts["calls"] = [list(item) for item in outcome.calls]
    texts["cut"] = dataclasses.asdict(outcome.cut)
    return texts


def run_here(seeds: range) -> dict[int, dict[str, Any]]:
    """Run the programs of these seeds; return what must be the same."""
    with Lane() as lane:
        return {seed: plain(lane.run(item).outcome) for seed, item in programs(seeds)}


def run_elsewhere(seeds: range, library: Path) -> dict[int, dict[str, Any]]:
    """Run them on the other day, on a busy machine, from another process."""
    argv = [sys.executable, "-m", "tests.support.lite_day", str(seeds.start), str(seeds.stop)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(library.parent),
        "LD_PRELOAD": str(library),
        "PYTHONHASHSEED": "12345",
        "PYTHONUTF8": "1",
    }
    with busy_machine():
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return _told(done.stdout)


def run_as_somebody(who: str, seeds: range) -> dict[int, dict[str, Any]]:
    """Run them here and today, started by another user."""
    ran = run_as(who, "tests.support.lite_day:tell", str(seeds.start), str(seeds.stop))
    assert ran.code == 0, ran.err[-2000:]
    return _told(ran.out.decode("utf-8"))


def _told(lines: str) -> dict[int, dict[str, Any]]:
    return {item["seed"]: item["outcome"] for item in map(json.loads, lines.splitlines())}


def tell() -> None:
    """Run the programs between two seeds and print their outcomes."""
    for seed, outcome in run_here(range(int(sys.argv[1]), int(sys.argv[2]))).items():
        print(json.dumps({"seed": seed, "outcome": outcome}))


def main() -> None:
    with all_boxes_elsewhere(Path(os.environ["LD_PRELOAD"])):
        tell()


if __name__ == "__main__":
    main()
