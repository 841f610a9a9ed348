"""A long day with much in the workspace: memory stays flat, and no event is lost on the way.

What is read, held, approved and run in an hour of use is the same in the compressed hour.
`THREEGATE_SOAK_SECONDS=3600` takes the hour itself.
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
from tests.support.cli import Cli, made
from tests.support.console import Console, console, fresh, held
from tests.support.console_load import fill, pages, reading

PAGES = 720  # a page every five seconds, for an hour
HELD_EVERY, APPROVED_EVERY = 6, 12  # pages
MOST_GROWTH_MIB = 6.0
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


def use(cli: Cli, served: Console, packets: int, every_seconds: float) -> Memory:
    """Read pages all day, hold requests and approve some; return what that took."""
    memory = Memory(served.process.pid)
    with reading(served) as reader:
        kinds = pages(reader, packets)
        known = {"User_Agent": reader.agent, "Cookie": reader.cookie}
        listener = Listener(served, known)
        thread = threading.Thread(target=listener.listen)
        thread.start()
        begin, ran = time.monotonic(), 0
        for number in range(PAGES):
            time.sleep(max(0.0, begin + number * every_seconds - time.monotonic()))
            paths = list(kinds.values())[number % len(kinds)]
            reader.get(next(paths))
            if number % HELD_EVERY == 0:
                (request_id,) = held(cli, fresh(f"x = {number}\nx\n"))
                if number % APPROVED_EVERY == 0:
                    assert served.approve(known, request_id)[0] == 303
                    ran += 1
                    served.wait_for("ran", ran)
            memory.look()
        listener.over.set()
        held(cli, fresh("last = 1\nlast\n"))
        thread.join()
    assert listener.connections > 20, "control: it was cut off again and again"
    first, last = listener.numbers[0], listener.numbers[-1]
    assert listener.numbers == list(range(first, last + 1)), "and heard everything once, in order"
    return memory


@pytest.mark.slow
def test_an_hour_of_use_leaves_memory_as_it_was(tmp_path: Path) -> None:
    cli = made(tmp_path)
    packets, requests = (10_000, 1_000) if SOAK_SECONDS else (2_000, 200)
    fill(cli, packets, requests)
    with console(cli) as served:
        memory = use(cli, served, packets, SOAK_SECONDS / PAGES)
        bugs = [one for one in served.events if one["event"] in ("bug", "not-run")]
    print(f"peak {memory.peak():.1f} MiB, growth {memory.growth():.2f} MiB")
    assert bugs == []
    assert memory.growth() < MOST_GROWTH_MIB
    assert cli("audit", "verify", "--json").json["ok"]
