"""A console with much in it, and somebody who uses it all day: for tests and measurements."""

import re
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from bench.data import prose_packets, season_of
from bench.measure import PAGE_BYTES, pss
from tests.support.boxes import is_dead
from tests.support.cli import Cli
from tests.support.console import Console, now, opened
from tests.support.holdings import put_results
from tests.support.lite import tree
from tests.support.requests import program
from tests.support.samples import analysis, box, fetch_request
from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis, Cite, Claim
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import CHUNK, Admission, admit
from threegate.handoff.journal import Put
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

PER_SECOND = 40.0  # below what the console takes from everybody together
LINES = 30
SOURCES = 3  # of an answer


def request(number: int) -> bytes:
    """Return a request like a day's others: some fetch, most compute, all a little different."""
    fresh = {"created": now(), "nonce": secrets.token_hex(16)}
    if number % 10 == 0:
        return registry.emit(fetch_request(references=(box(f"10.5555/tg.{number}"),), **fresh))
    code = "".join(f"value_{line} = {number} * {line}\n" for line in range(LINES))
    purpose = box(f"Mean of series {number % 50}, measured in winter {number}")
    made = program(f"{code}value_{number % LINES}\n", purpose=purpose, functions=(), **fresh)
    return registry.emit(made)


def fill(cli: Cli, packets: int, requests: int) -> None:
    """Take in so many packets and held requests, as many results and answers, and index them."""
    with opened(cli) as ws:
        sources: list[str] = []
        for start in range(0, packets, CHUNK):
            batch = prose_packets(start, min(CHUNK, packets - start))
            sources += _take(admit(ws.store, map(Untrusted, batch), now=ws.now))
        batches = range(0, requests, CHUNK)
        for start in batches:
            numbers = range(start, min(start + CHUNK, requests))
            put_results(ws, [_output(number) for number in numbers])
        for start in range(len(batches), requests, CHUNK):  # each of these waits, too
            numbers = range(start, min(start + CHUNK, requests))
            _take(admit(ws.store, (Untrusted(request(one)) for one in numbers), now=ws.now))
        _put_answers(ws, sources, requests)
        index = Index(ws.store, ws.seals)
        index.catch_up()
        index.close()


def _take(answers: Iterable[Admission]) -> list[str]:
    found = list(answers)
    assert {answer.status for answer in found} == {"accepted"}
    return [answer.id for answer in found if answer.id is not None]


def _output(number: int) -> str:
    return "".join(f"mean of series {number}, line {line}: {number / 7}\n" for line in range(LINES))


def _put_answers(ws: Workspace, sources: Sequence[str], count: int) -> None:
    """Put answers there, each of a few sentences of a few packets."""
    made = []
    for number in range(count):
        chosen = sorted({sources[(number * SOURCES + n) % len(sources)] for n in range(SOURCES)})
        made.append(registry.emit(_answer(ws, number, chosen)))
    place = states.directory_of("an", "accepted")
    for start in range(0, count, CHUNK):
        puts = [Put(place, f"an-{sha256_hex(one)}.md", one) for one in made[start : start + CHUNK]]
        with ws.store.locked() as journal:
            journal.run("ask", puts)


def _answer(ws: Workspace, number: int, sources: Sequence[str]) -> Analysis:
    claims, quotes = [], []
    for source in sources:
        packet = ws.store.read(source)
        assert isinstance(packet, ResearchPacket)
        for at, text in enumerate(packet.texts, 1):
            quote = text.open_for_display().partition(". ")[0] + "."
            cite = Cite(source, at, 0, len(quote), sha256_hex(quote.encode("utf-8")))
            claims.append(Claim("quote found", (cite,)))
            quotes.append(box(quote))
    return analysis(
        created=now(),
        nonce=secrets.token_hex(16),
        selection=tuple(sources),
        derived_from=tuple(sources),
        question=box(f"What is known of series {number}?"),
        claims=tuple(claims),
        claim_texts=tuple(quotes),
        quotes=tuple(quotes),
    )


class Reader:
    """A browser's worth of requests on one connection, as fast as a person's day compressed."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.agent, self.cookie = headers.get("User_Agent", ""), headers.get("Cookie", "")
        self._next = 0.0

    def get(self, path: str) -> tuple[float, bytes]:
        """Return how many seconds an answer took, and the page."""
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + 1 / PER_SECOND
        begin = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - begin
        assert answer.status == 200, (path, answer.status, body[:500])
        return seconds, body

    def close(self) -> None:
        self._connection.close()


def settled(reader: Reader) -> None:
    """Wait until every request that waits was rated."""
    while b"not rated yet" in reader.get("/inbox")[1]:
        time.sleep(0.2)


def pages(reader: Reader, packets: int) -> dict[str, Iterator[str]]:
    """Return every kind of page, each with ever other addresses of it."""
    found = _ids(reader, "[ft]r", "/inbox", "/inbox?page=3")
    sources = _ids(reader, "rp", "/packets", "/packets?page=9")
    results = _ids(reader, "res", "/results", "/results?page=3")
    answers = _ids(reader, "an", "/analyses", "/analyses?page=3")
    numbers = count()
    last = max(1, packets // 25)
    named: dict[str, tuple[str, ...]] = {
        "inbox": ("/inbox", "/inbox?page=2", "/inbox?page=17"),
        "request": tuple(f"/request/{one}" for one in found),
        "bytes of a request": tuple(f"/request/{one}/bytes" for one in found),
        "packets": ("/packets", f"/packets?page={last // 2}", f"/packets?page={last}"),
        "packet": tuple(f"/artifact/{one}" for one in sources),
        "provenance": tuple(f"/provenance/{one}" for one in sources),
        "results": ("/results", "/results?page=2", "/results?page=17"),
        "result": tuple(f"/artifact/{one}" for one in results),
        "answers": ("/analyses", "/analyses?page=2", "/analyses?page=17"),
        "answer": tuple(f"/artifact/{one}" for one in answers),
        "provenance of an answer": tuple(f"/provenance/{one}" for one in answers),
        "report": tuple(f"/report/{one}" for one in answers),
        "ask": ("/ask",),
        "fetch": ("/fetch",),
        "run": ("/run",),
        "policy": ("/policy",),
        "audit": ("/audit", "/audit?page=2", "/audit?page=40"),
        "doctor": ("/doctor",),
        "metrics": ("/metrics",),
    }
    turns = {name: _round(paths) for name, paths in named.items()}
    search = (f"/packets?q={season_of(n % packets).replace(' ', '+')}" for n in numbers)
    return {**turns, "search": search}


def _round(paths: tuple[str, ...]) -> Iterator[str]:
    while True:
        yield from paths


def _ids(reader: Reader, prefix: str, *paths: str) -> list[str]:
    """Return what pages name; the later ones may be empty."""
    text = "".join(reader.get(path)[1].decode() for path in paths)
    found = re.findall(rf"/(?:request|artifact)/({prefix}-[0-9a-f]{{64}})", text)
    assert found, prefix
    return found


@contextmanager
def reading(served: Console) -> Iterator[Reader]:
    """Be let in, and read."""
    reader = Reader(served.port, served.login())
    try:
        settled(reader)
        yield reader
    finally:
        reader.close()


# -- What a process that runs for days takes of the machine, with everything it started.

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
