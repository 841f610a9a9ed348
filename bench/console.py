"""Pages of the console, of a workspace with much in it, next to a static server of their bytes.

There are as many results and as many answers as held requests.  One client asks both for the same
pages in turns, on connections that stay open.  What is measured is from the first byte sent to the
last byte read.  An hour of use is a page every five seconds.
"""

import http.server
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Plain, Sizes, alone, compare, memory_rows
from bench.measure import Memory, Watch, noise, say
from tests.support.cli import made
from tests.support.console import console
from tests.support.console_load import Reader, fill, pages, reading

HOUR_PAGES = 720
MOST_MS = 200.0
PEER = "Python's http.server, the same bytes from files"


class _Still(http.server.SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and a body are two writes

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _serve(directory: str, told: Any) -> None:
    handler = partial(_Still, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        told.send(server.server_address[1])
        server.serve_forever()


@contextmanager
def _static(directory: Path) -> Iterator[Reader]:
    """Serve a directory in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(str(directory), theirs), daemon=True)
    process.start()
    reader = Reader(int(ours.recv()), {})
    try:
        yield reader
    finally:
        reader.close()
        process.terminate()
        process.join()


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    packets = next(size for size in reversed(sizes.packets) if size <= 10_000)
    requests = sizes.requests
    cli = made(directory)
    fill(cli, packets, requests)
    say(f"console: {packets} packets, {requests} held requests")
    place = directory / "bytes"
    place.mkdir()
    with console(cli, "--no-run") as served, reading(served) as reader, _static(place) as still:
        memory, computed = Memory(served.process.pid), Watch()
        look = partial(_looked, served.process.pid, memory, computed)
        wanted = HOUR_PAGES if sizes.singles > 10 else 1
        ours, theirs = _measured(reader, still, place, packets, wanted=wanted, look=look)
    of = f"of {packets:,} packets and {requests:,} held requests"
    rows = [_row(name, of, watch, theirs[name]) for name, watch in ours.items()]
    every = [seconds for watch in ours.values() for seconds in watch.seconds]
    for clock, watch in {"": Watch(every), " of processor time": computed}.items():
        worst, most = watch.at(95) * 1000, f"{MOST_MS:g} ms"
        name = f"console, every page {of}: 95 % within so much{clock}"
        rows.append(alone(name, worst, "ms", target=most, met=worst <= MOST_MS))
    return {"rows": rows + memory_rows(f"console, {len(every)} pages", memory), "curves": []}


def _looked(pid: int, memory: Memory, computed: Watch, before: float) -> float:
    """Note memory, and what all threads computed since `before`; return that clock."""
    memory.look()
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    now = sum(int(one.read_text("ascii").split()[0]) for one in tasks) / 1e9
    if before:
        computed.seconds.append(now - before)
    return now


def _measured(
    reader: Reader,
    still: Reader,
    place: Path,
    packets: int,
    *,
    wanted: int,
    look: Callable[[float], float],
) -> tuple[dict[str, Watch], dict[str, Watch]]:
    kinds = pages(reader, packets)
    ours = {name: Watch() for name in kinds}
    theirs = {name: Watch() for name in kinds}
    for lap in range(-(-wanted // len(kinds))):
        for number, (name, paths) in enumerate(kinds.items()):
            before = look(0.0)
            seconds, body = reader.get(next(paths))
            look(before)
            ours[name].seconds.append(seconds)
            file = place / f"{number}-{lap}.html"
            file.write_bytes(body)
            theirs[name].seconds.append(still.get(f"/{file.name}")[0])
    return ours, theirs


def _row(name: str, of: str, ours: Watch, theirs: Watch) -> Plain:
    worst = ours.at(95) * 1000
    return compare(
        f"console, {name} {of}, middle (95 % within {worst:.0f} ms)",
        statistics.median(ours.seconds) * 1000,
        peer=PEER,
        theirs=statistics.median(theirs.seconds) * 1000,
        unit="ms",
        smaller_is_better=True,
        target=f"95 % within {MOST_MS:g} ms",
        met=worst <= MOST_MS,
        noise=(noise(ours.seconds), noise(theirs.seconds)),
    )
