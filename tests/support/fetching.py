"""Both sides of a fetch without a network and without boxes, behind the real interfaces.

`Origins` answers questions from a table; `Desk` makes packets with the code of the real box.
Everything happens when it is asked for, in the thread that asks: nothing is left to chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from tests.support.origins import answers_json, works
from tests.support.origins.works import Work
from threegate.artifacts.references import parse_reference
from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate
from threegate.gates.fetch.normalize.messages import PacketMade, parse_normalize
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.fetch.network import ProxyGone
from threegate.host.fetch.normalize_pool import Answered, Job
from threegate.host.fetch.run import FetchEvent, FetchRun
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
    jobs: list[Job] = field(default_factory=list)

    def expect(self, jobs: int) -> None:
        del jobs

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        made = gate.answer(parse_normalize(Untrusted(job.message)), PLAIN)
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
