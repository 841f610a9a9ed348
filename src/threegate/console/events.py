"""What happens while the console runs, told to every page that listens and to `--json`.

An event names what happened and to what: ids, codes and counts, never text by anybody else.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.base.canonical import encode

KEPT: Final = 256  # for pages that lost their connection
MAX_LISTENERS: Final = 16
BEAT_SECONDS: Final = 15.0  # so that a connection nobody holds any more is noticed
MISSED: Final = "missed"

Sink = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, as a line of JSON."""

    number: int
    kind: str
    data: bytes


class Events:
    """Takes events from any thread and hands them on in one order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], str], sink: Sink) -> None:
        self._loop, self._now, self._sink = loop, now, sink
        self._run = secrets.token_hex(4)  # numbers of an earlier run mean nothing here
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._last = 0
        self._over = False

    def tell(self, kind: str, /, **facts: object) -> None:
        """Tell an event; may be called in any thread."""
        self._loop.call_soon_threadsafe(self._take, kind, facts)

    def log(self, kind: str, /, **facts: object) -> None:
        """Write an event down that no page needs to hear of."""
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
        """Where a page that is made now has to go on."""
        return f"{self._run}-{self._last}"

    @property
    def full(self) -> bool:
        """Tell whether there are as many listeners as there may be."""
        return self._over or len(self._listeners) >= MAX_LISTENERS

    async def stream(self, last: str) -> AsyncIterator[bytes]:
        """Yield events as a browser reads them, from after the one it heard last."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.add(queue)
        before = self._since(last)  # now: what is told from here on comes by the queue
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
