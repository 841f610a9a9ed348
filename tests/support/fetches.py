"""Fetches in tests: both sides without a network or sandboxes, and packets of the test internet.

`Origins` answers questions from a table; `Desk` makes packets with the code of the real sandbox.
Everything happens when it is asked for, in the thread that asks: nothing is left to chance.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.support.internet_place import Place, PlaceCli
from tests.support.origins import answers as answers_json
from tests.support.origins import works
from tests.support.origins.works import Work
from threegate.artifacts import registry
from threegate.artifacts.references import parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate
from threegate.gates.fetch.normalize.messages import Normalize, PacketMade, parse_normalize
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.fetch.network import ProxyGone
from threegate.host.fetch.normalize_pool import Answered, NormalizeJob
from threegate.host.fetch.ports import FetchEvent
from threegate.host.fetch.run import FetchRun
from threegate.host.fetch.schedule import FetchTask, TaskDone, TaskStarted
from threegate.host.fetch.targets import FetchTarget, target_for
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

ARTICLE = f"doi:{works.ARTICLE.doi}"
RETRACTED = f"doi:{works.RETRACTED.doi}"
MISSING = "doi:10.5555/nobody.has.this"
ANCHOR = "system"


def got(url: str, body: bytes, **changes: object) -> Got:
    """Return an ordinary answer with a validator."""
    fields = {
        "status": 200,
        "url": url,
        "hops": (),
        "media_type": "application/json",
        "read_as": "application/json",
        "etag": '"v1"',
        "last_modified": None,
        "retry_after": None,
        "limits": {},
        "trust_anchor": ANCHOR,
        "body": body,
    }
    return Got(**{**fields, **changes})  # type: ignore[arg-type]


def not_found(url: str) -> NotGot:
    return NotGot("TG-FET-018", "not-found", "there is nothing by that name", url, (), None, 404)


def crossref(work: Work) -> bytes:
    return answers_json.crossref(work)


@dataclass
class Origins:
    """Answers every question at once; `asked` is what arrived, in order."""

    told: "SimpleQueue[FetchEvent]"
    answers: dict[str, Callable[[FetchTask], Got | NotGot | None]] = field(default_factory=dict)
    asked: list[FetchTask] = field(default_factory=list)
    opened: int = 0
    stopped: bool = False
    closed: bool = False
    bundles: list[Bundle] = field(default_factory=list)
    before: Callable[[FetchTask], object] = lambda _: None
    dies_at: int | None = None  # the proxy ends when this many questions have come

    def open(self) -> None:
        self.opened += 1

    def submit(self, task: FetchTask) -> None:
        self.before(task)
        self.asked.append(task)
        if self.dies_at is not None and len(self.asked) > self.dies_at:
            self.told.put(ProxyGone(ThreeGateError("the proxy ended", code="TG-FET-064")))
            self.told.put(TaskDone(task, None))
            return
        self.told.put(TaskStarted(task))
        answering = self.answers.get(task.ask.url)
        answer = not_found(task.ask.url) if answering is None else answering(task)
        self.told.put(TaskDone(task, answer, 1))

    def reload(self, bundle: Bundle) -> None:
        self.bundles.append(bundle)

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


@dataclass
class Desk:
    """Makes packets as the box does; `tamper` changes what it says."""

    told: "SimpleQueue[FetchEvent]"
    tamper: Callable[[Answered], Answered] = lambda answer: answer
    jobs: list[NormalizeJob] = field(default_factory=list)

    def expect(self, jobs: int) -> None:
        del jobs

    def submit(self, job: NormalizeJob) -> None:
        self.jobs.append(job)
        asked = parse_normalize(Untrusted(job.message))
        assert isinstance(asked, Normalize)
        made = gate.answer(asked, PLAIN)
        assert isinstance(made, PacketMade), made
        self.told.put(self.tamper(Answered(job.item, Untrusted(made.packet), None)))

    def reload(self, bundle: Bundle) -> None:
        del bundle

    def close(self) -> None:
        return None


@dataclass
class Bench:
    """A workspace with both sides, ready to fetch."""

    ws: Workspace
    told: "SimpleQueue[FetchEvent]" = field(default_factory=SimpleQueue)
    moments: list[FetchMoment] = field(default_factory=list)
    max_age_seconds: int = 86_400
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.origins, self.desk = Origins(self.told), Desk(self.told)
        for work in (works.ARTICLE, works.RETRACTED):
            self.serve(f"doi:{work.doi}", crossref(work))

    def target(self, reference: str) -> FetchTarget:
        return target_for(
            parse_reference(reference),
            self.ws.bundle,
            want="metadata",
            enrich=(),
            confidentiality="public",
        )

    def serve(self, reference: str, body: bytes) -> None:
        """Let the first source of a reference answer with `body`, or 304 to whoever knows it."""
        url = self.target(reference).questions[0].url

        def answer(task: FetchTask) -> Got:
            if task.ask.etag == '"v1"':
                return got(url, b"", status=304)
            return got(url, body)

        self.origins.answers[url] = answer

    def run(self) -> FetchRun:
        return FetchRun(
            self.ws,
            self.told,
            self.origins,
            self.desk,
            credentials=lambda _, host: self.keys.get(host),
            max_age_seconds=self.max_age_seconds,
            show=self.moments.append,
        )

    def fetch(
        self, *references: str, stop: Callable[[], bool] = lambda: False
    ) -> list[FetchReport]:
        targets: Sequence[FetchTarget] = [self.target(reference) for reference in references]
        return list(self.run().fetch(targets, stop=stop))


# -- What a fetch on the test internet left: packets by reference, and what the far side saw.

Event = dict[str, Any]


def packets(cli: PlaceCli) -> dict[str, ResearchPacket]:
    """Return the newest accepted packet of every reference."""
    found = [packet for _, packet in _accepted(cli)]
    found.sort(key=lambda packet: packet.retrieved)
    return {packet.reference.open_for_display(): packet for packet in found}


def packet_ids(cli: PlaceCli) -> dict[str, str]:
    """Return the id of the newest accepted packet of every reference."""
    found = sorted(_accepted(cli), key=lambda item: item[1].retrieved)
    return {packet.reference.open_for_display(): name for name, packet in found}


def _accepted(cli: PlaceCli) -> Iterator[tuple[str, ResearchPacket]]:
    assert cli.workspace is not None
    for path in sorted((cli.workspace / "handoff/packets/accepted").rglob("rp-*.md")):
        packet = registry.parse(Untrusted(path.read_bytes()))
        assert isinstance(packet, ResearchPacket)
        yield path.stem, packet


def text_of(packet: ResearchPacket) -> str:
    return "\n".join(text.open_for_display() for text in packet.texts)


def hazards_of(packet: ResearchPacket) -> dict[str, int]:
    return {hazard.name: hazard.count for hazard in packet.hazards}


def gaps_of(packet: ResearchPacket) -> dict[str, str]:
    return {gap.source: gap.reason for gap in packet.gaps}


def requests(events: Iterable[Event], host: str, part: str = "") -> list[Event]:
    """Return the requests a host got, whose line holds `part`."""
    return [
        event
        for event in events
        if event["event"] == "request" and event["host"] == host and part in event["line"]
    ]


def answers(events: Iterable[Event], host: str, part: str = "") -> list[int]:
    """Return the statuses a host answered with."""
    return [
        event["status"]
        for event in events
        if event["event"] == "answer" and event["host"] == host and part in event["line"]
    ]


def names_met(events: Iterable[Event]) -> set[str]:
    """Return every name that was looked up or greeted."""
    return {event["name"] for event in events if event["event"] in ("dns", "hello")}


def anchor_of(place: Place) -> str:
    return hashlib.sha256(place.ca.read_bytes()).hexdigest()


def tree(*tops: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file below these directories."""
    found = {}
    for top in tops:
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink():
                state = path.stat()
                found[str(path)] = (state.st_size, state.st_mtime_ns)
    return found
