"""What a run stands between: who asks, who makes, and whom it tells."""

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ThreeGateError
from threegate.host.fetch import network, normalize_pool
from threegate.host.fetch.normalize_pool import Job
from threegate.host.fetch.plan import Wish
from threegate.host.fetch.schedule import Errand
from threegate.policy.bundle import Bundle

Told = network.Told | normalize_pool.Told
# The operator's key for a host, if policy names a place for one and it is stored.
Credentials = Callable[[Bundle, str], str | None]


class Asks(Protocol):
    """Where questions leave; opened when the first one is due."""

    def open(self) -> None: ...
    def submit(self, errand: Errand) -> None: ...
    def reload(self, bundle: Bundle) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


class Makes(Protocol):
    """Where packets are made."""

    def expect(self, jobs: int) -> None: ...
    def submit(self, job: Job) -> None: ...
    def reload(self, bundle: Bundle) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of a run, and the queue on which they tell what happens."""

    told: "SimpleQueue[Told]"
    asks: Asks
    makes: Makes


@dataclass(frozen=True, slots=True)
class Moment:
    """What an item is doing now, for people."""

    number: int
    reference: str
    words: str
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one wish."""

    number: int
    wish: Wish
    status: str  # made | already | refused | failed
    packet_id: str | None = None
    packet: ResearchPacket | None = None
    hosts: tuple[str, ...] = ()
    error: ThreeGateError | None = None
    kept: str | None = None  # digest of what lies in quarantine
