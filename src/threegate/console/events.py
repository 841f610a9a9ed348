"""Events of the console, for pages and `--json`, and counts for Prometheus.

An event holds ids, codes and counts, never foreign text.  The counts hold
no names and no ids.
"""

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.canonical import encode
from threegate.handoff.states import REQUEST_STATES
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.workspace import mark_of

KEPT: Final = 256  # for pages that lost their connection
MAX_LISTENERS: Final = 16
BEAT_SECONDS: Final = 15.0  # so that a dead connection is noticed
MISSED: Final = "missed"

Sink = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, as a line of JSON."""

    number: int
    kind: str
    data: bytes


class Events:
    """Takes events from any thread and passes them on in one order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], str], sink: Sink) -> None:
        self._loop, self._now, self._sink = loop, now, sink
        self._run = secrets.token_hex(4)  # numbers of an earlier run mean nothing here
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._last = 0
        self._over = False

    def tell(self, kind: str, /, **facts: object) -> None:
        """Send an event to every page; may be called in any thread."""
        self._loop.call_soon_threadsafe(self._take, kind, facts)

    def log(self, kind: str, /, **facts: object) -> None:
        """Log an event that no page needs."""
        self._sink({"event": kind, "time": self._now(), **facts})

    def _take(self, kind: str, facts: Mapping[str, object]) -> None:
        line = {"event": kind, "time": self._now(), **facts}
        self._sink(line)
        self._last += 1
        event = Event(self._last, kind, encode(line))
        self._kept.append(event)
        for queue in self._listeners:
            queue.put_nowait(event)

    def close(self) -> None:
        """End every stream."""
        self._over = True
        for queue in self._listeners:
            queue.put_nowait(None)

    @property
    def position(self) -> str:
        """The position from which a page that is made now continues."""
        return f"{self._run}-{self._last}"

    @property
    def full(self) -> bool:
        """Tell whether the number of listeners is at its limit."""
        return self._over or len(self._listeners) >= MAX_LISTENERS

    async def stream(self, last: str) -> AsyncIterator[bytes]:
        """Yield events in the format of browsers, after the last one this page received."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.add(queue)
        before = self._since(last)  # before the first yield: later events come through the queue
        try:
            yield b"retry: 1000\n\n"
            for event in before:
                yield self._spelled(event)
            while True:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        found = await queue.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if found is None:
                    return
                yield self._spelled(found)
        finally:
            self._listeners.discard(queue)

    def _since(self, last: str) -> list[Event]:
        if not last:
            return []
        run, _, number = last.partition("-")
        first = self._kept[0].number if self._kept else self._last + 1
        if run != self._run or not number.isdigit() or int(number) + 1 < first:
            return [Event(self._last, MISSED, encode({"event": MISSED}))]
        return [event for event in self._kept if event.number > int(number)]

    def _spelled(self, event: Event) -> bytes:
        head = f"id: {self._run}-{event.number}\nevent: {event.kind}\ndata: "
        return head.encode("ascii") + event.data + b"\n\n"


# -- counts ------------------------------------------------------------------------------


BOUNDS_MS: Final = (10, 25, 50, 100, 200, 500, 1000, 5000)


class Metrics:
    """Counts since the console started."""

    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._within: Counter[int] = Counter()
        self._seconds = 0.0

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer and its time."""
        self._answers[int(status)] += 1
        self._seconds += seconds
        for bound in BOUNDS_MS:
            self._within[bound] += seconds * 1000 <= bound

    def refused(self, code: str) -> None:
        """Count a request that was not let in."""
        self._refused[code] += 1

    def failed(self, code: str) -> None:
        """Count an error page."""
        self._failed[code] += 1

    def ran(self, outcome: str) -> None:
        """Count the outcome of an approved request."""
        self._runs[outcome] += 1

    def states(self, live: LiveWorkspace) -> bytes:
        """Return all counts as text, with the number of requests in each state."""
        found = {state: live.index.count(("fr", "tr"), state=state) for state in REQUEST_STATES}
        return "".join(f"{line}\n" for line in self._lines(found)).encode("ascii")

    def _lines(self, states: dict[str, int]) -> Iterator[str]:
        yield from _family("requests", "gauge", "state", states)
        yield from _family("http_answers_total", "counter", "status", self._answers)
        yield from _family("refused_total", "counter", "code", self._refused)
        yield from _family("failed_total", "counter", "code", self._failed)
        yield from _family("runs_total", "counter", "outcome", self._runs)
        yield "# TYPE threegate_http_seconds histogram"
        for bound in BOUNDS_MS:
            label = f'{{le="{bound / 1000:g}"}}'
            yield f"threegate_http_seconds_bucket{label} {self._within[bound]}"
        total = self._answers.total()
        yield f'threegate_http_seconds_bucket{{le="+Inf"}} {total}'
        yield f"threegate_http_seconds_sum {self._seconds:.6f}"
        yield f"threegate_http_seconds_count {total}"


def _family(
    name: str, kind: str, label: str, values: "dict[str, int] | Counter[str] | Counter[int]"
) -> Iterator[str]:
    yield f"# TYPE threegate_{name} {kind}"
    for key, value in sorted(values.items(), key=lambda pair: str(pair[0])):
        yield f'threegate_{name}{{{label}="{key}"}} {value}'


# -- changes of the workspace ------------------------------------------------------------


class LogWatch:
    """Compares the end of the log with the last look."""

    def __init__(self, root: Path, events: Events) -> None:
        self._root, self._events = root, events
        self._before = mark_of(root)

    def look(self) -> None:
        """Send `changed` if the log grew since the last look."""
        found = mark_of(self._root)
        if found != self._before:
            self._before = found
            self._events.tell("changed")
