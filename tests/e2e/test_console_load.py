"""A long day with much in the workspace: it takes no more, and no event is lost on the way.

Executors wait all day: each approved run takes one, and every policy that is applied is pushed to
them.  What is read, held, approved, run and pushed in an hour of use is the same in the compressed
hour.  `THREEGATE_SOAK_SECONDS=3600` takes the hour itself.
"""

import os
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.measure import Memory
from tests.e2e.test_console_service import heard, listened
from tests.e2e.test_policy_push import edit, rows
from tests.support.cli import Cli, made
from tests.support.console import Console, console, fresh, held
from tests.support.console_load import COUNTS, Footprint, Reader, fill, pages, reading

PAGES = 720  # a page every five seconds, for an hour
HELD_EVERY, APPROVED_EVERY, PUSHED_EVERY = 6, 12, 12  # pages
WARM = 3
MOST_GROWTH_MIB = 6.0
ALLOWED, NOT_ALLOWED = "allowed_imports: [base64, ", "allowed_imports: ["
SOAK_SECONDS = float(os.environ.get("THREEGATE_SOAK_SECONDS", "0"))


@dataclass
class Listener:
    """A page that hears of everything, and loses its connection again and again."""

    served: Console
    known: dict[str, str]
    numbers: list[int] = field(default_factory=list)
    connections: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def listen(self) -> None:
        last = ""
        while not self.over.is_set():
            self.connections += 1
            with listened(self.served, self.known, last) as stream:
                text = heard(stream, "retry:")
                while text.count("\nid: ") < 5 and not self.over.is_set():
                    text += heard(stream, "\n\n")
            found = re.findall(r"(?m)^id: ([0-9a-f]+)-([0-9]+)$", text)
            self.numbers += [int(number) for _, number in found]
            last = "-".join(found[-1]) if found else last


@dataclass
class Day:
    """Somebody who reads pages, holds requests, approves some and applies policies."""

    cli: Cli
    served: Console
    known: dict[str, str]
    footprint: Footprint
    allowed: bool = True  # by the policy in force, what every program imports
    ran: int = 0
    pushed: int = 1

    def act(self, number: int) -> None:
        """Do what comes with a page."""
        if number % PUSHED_EVERY == 0:
            self.push()
        if number % HELD_EVERY == 0:
            (request_id,) = held(self.cli, fresh(f"import base64\nx = {number}\nx\n"))
            if number % APPROVED_EVERY == 0:
                self.run(request_id)

    def run(self, request_id: str) -> None:
        """Approve a request in the browser; it ends as the rules of this moment say."""
        assert self.served.approve(self.known, request_id)[0] == 303
        self.ran += 1
        ended = self.served.wait_for("ran", self.ran)
        assert ended["request"] == request_id
        assert ended["outcome"] == ("ok" if self.allowed else "refused:import"), ended

    def push(self) -> None:
        """Apply another policy; every executor that waits says that it took it over."""
        old, new = (ALLOWED, NOT_ALLOWED) if self.allowed else (NOT_ALLOWED, ALLOWED)
        edit(self.cli, old, new)
        found = rows(self.cli("policy", "apply", "--yes", "--json").json)
        self.allowed, self.pushed = not self.allowed, self.pushed + 1
        names = [f"monty-{one}" for one in range(1, WARM + 1)]
        assert found == [(name, "applied", self.pushed) for name in names], found
        self.footprint.look()  # they all wait, and nothing runs


def use(day: Day, reader: Reader, packets: int, every_seconds: float) -> Memory:
    """Use the console all day; return what memory that took."""
    memory, kinds = Memory(day.served.process.pid), pages(reader, packets)
    listener = Listener(day.served, day.known)
    thread = threading.Thread(target=listener.listen)
    thread.start()
    begin = time.monotonic()
    for number in range(PAGES):
        time.sleep(max(0.0, begin + number * every_seconds - time.monotonic()))
        paths = list(kinds.values())[number % len(kinds)]
        reader.get(next(paths))
        day.act(number)
        memory.look()
    listener.over.set()
    held(day.cli, fresh("last = 1\nlast\n"))
    thread.join()
    assert listener.connections > 20, "control: it was cut off again and again"
    first, last = listener.numbers[0], listener.numbers[-1]
    assert listener.numbers == list(range(first, last + 1)), "and heard everything once, in order"
    return memory


@pytest.mark.slow
def test_an_hour_of_use_leaves_memory_and_boxes_as_they_were(tmp_path: Path) -> None:
    cli = made(tmp_path)
    packets, requests = (10_000, 1_000) if SOAK_SECONDS else (2_000, 200)
    fill(cli, packets, requests)
    with console(cli, "--warm", str(WARM)) as served, reading(served) as reader:
        known = {"User_Agent": reader.agent, "Cookie": reader.cookie}
        day, begin = Day(cli, served, known, Footprint(served.process.pid)), time.monotonic()
        memory = use(day, reader, packets, SOAK_SECONDS / PAGES)
        seconds, taken = time.monotonic() - begin, day.footprint
        bugs = [one for one in served.events if one["event"] in ("bug", "not-run", "bad-policy")]
    print(f"\n{seconds:.0f} s, {PAGES} pages, {day.ran} runs, {day.pushed - 1} pushes")
    print(f"peak {memory.peak():.1f} MiB, growth {memory.growth():.2f} MiB\n{taken.table()}")
    assert bugs == []
    assert memory.growth() < MOST_GROWTH_MIB
    assert taken.growth("boxes_mib") < MOST_GROWTH_MIB
    assert taken.most("boxes") == taken.rows[0].boxes == WARM, "control: as many as were to wait"
    assert {name: taken.growth(name) for name in COUNTS} == dict.fromkeys(COUNTS, 0.0)
    assert len(taken.seen) > day.ran, "control: a box for each run, and those that wait"
    assert not taken.left()
    assert cli("audit", "verify", "--json").json["ok"]
