"""Claim: the screen is a courtesy; without it the interpreter, its limits and the box still hold.

The real gate runs in the real box with approved requests, and only its screen is taken out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.support.boxes import start_with
from tests.support.lite import Lane
from tests.support.lite_bombs import every, measure
from threegate.host import open_box
from threegate.host.run.lite import LiteBox
from threegate.sandbox.box import Start
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import Profile

UNSCREENED = """
from threegate.gates.tool_exec import gate
from threegate.gates.tool_exec.monty import lane

def main():
    lane.screen = lambda *_: None
    gate.serve()
"""
# Ends that are right without a screen, too; a worker may also run out of its stack.
ENDS = (
    *("error", "ok", "crashed", "refused:not-expressible", "refused:artifact", "limit:calls"),
    *("limit:time", "limit:memory", "limit:recursion", "limit:output"),
)
FAMILIES = (
    *("forbidden acts, in loops", "functions in functions", "source within its limit"),
    *("source beyond its limit", "blocks in blocks", "comprehensions in comprehensions"),
)


class Unscreened(Lane):
    """A lane whose gates have no screen."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def start(self, machine: Machine) -> LiteBox:
        def start(profile: Profile, *_: object, **__: object) -> Start:
            return start_with(self._directory, UNSCREENED, profile)

        with mock.patch.object(open_box, "Start", start):
            return super().start(machine)


@pytest.fixture(scope="module")
def unscreened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    with Unscreened(tmp_path_factory.mktemp("unscreened")) as opened:
        yield opened


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    with Lane() as opened:
        yield opened


STILL = {
    "import time\n[time.time(), time.monotonic(), time.perf_counter(), time.process_time()]": 4,
    "import random\n[random.random(), random.getrandbits(64), random.choice('abc')]": 3,
    "import datetime\n[str(datetime.datetime.now()), str(datetime.date.today())]": 2,
}


@pytest.mark.parametrize("code", STILL)
# claim TG-C-96
def test_clocks_and_chance_stand_still_without_the_screen(unscreened: Lane, code: str) -> None:
    assert unscreened.run("eval('6 * 7')").value == "42", "control: the screen is out"
    first = unscreened.run(code)
    assert (first.exit, len(json.loads(first.value))) == ("ok", STILL[code]), first.told
    unscreened.close()  # another box
    later = "for n in range(300_000):\n    pass\n" + code
    assert unscreened.run(later).value == first.value


OUTSIDE = {
    "import os\nos.environ['PATH']": "RuntimeError",
    "import os\nos.getenv('PATH')": "RuntimeError",
    "import os\nos.urandom(8)": "RuntimeError",
    "import os\nos.listdir('/')": "PermissionError",
    "import os\nos.stat('/etc/passwd')": "PermissionError",
    "open('/etc/passwd').read()": "PermissionError",
    "from pathlib import Path\nPath('/etc/passwd').read_text()": "PermissionError",
    "from pathlib import Path\nPath('/tmp/x').write_text('x')": "PermissionError",
    "from pathlib import Path\nlist(Path('/').iterdir())": "PermissionError",
    "import socket": "ModuleNotFoundError",
    "import subprocess": "ModuleNotFoundError",
    "import ctypes": "ModuleNotFoundError",
    "import builtins": "ModuleNotFoundError",
}


@pytest.mark.parametrize("code", OUTSIDE)
# claim TG-C-96
def test_nothing_outside_is_reached_without_the_screen(
    unscreened: Lane, lane: Lane, code: str
) -> None:
    assert unscreened.run("eval('6 * 7')").value == "42", "control: the screen is out"
    assert lane.run(code).exit in ("refused:import", "refused:name"), "control: it would refuse"
    ran = unscreened.run(code)
    assert (ran.exit, ran.value) == ("error", "")
    assert ran.stderr.rpartition("\n")[2].startswith(OUTSIDE[code]), ran.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import time\nfor n in range(500):\n    time.sleep(10**6)\n'awake'",
        "import asyncio\nasync def f():\n    await asyncio.sleep(10**6)\nawait f()\n'awake'",
    ],
)
# claim TG-C-96
def test_nobody_sleeps_without_the_screen(unscreened: Lane, code: str) -> None:
    ran = unscreened.run(code)
    assert (ran.exit, ran.value) == ("ok", '"awake"'), ran.told


def wrong(unscreened: Lane, family: str, step: int) -> list[str]:
    bombs = [bomb for bomb in every() if bomb.family == family][::step]
    rows = list(measure(unscreened, bombs))
    assert unscreened.run("6 * 7").value == "42", "control: an ordinary program runs afterwards"
    return [f"{row.bomb.id}: {row.exit}" for row in rows if row.exit not in ENDS]


@pytest.mark.parametrize("family", FAMILIES)
# claim TG-C-95
def test_bombs_end_without_the_screen(unscreened: Lane, family: str) -> None:
    assert wrong(unscreened, family, 9) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
# claim TG-C-95
def test_every_bomb_ends_without_the_screen(unscreened: Lane, family: str) -> None:
    assert wrong(unscreened, family, 1) == []
