"""Interfaces of a fetch run: what asks hosts, what makes packets, and their events."""

from collections.abc import Callable
from typing import Protocol

from threegate.host.fetch import network, normalize_pool
from threegate.host.fetch.normalize_pool import NormalizeJob
from threegate.host.fetch.schedule import FetchTask
from threegate.policy.bundle import Bundle

FetchEvent = network.NetworkEvent | normalize_pool.Told
# The operator's key for a host, if policy names a place for one and it is stored.
Credentials = Callable[[Bundle, str], str | None]


class Retrieval(Protocol):
    """The side of a run that asks hosts; opened when the first question is due."""

    def open(self) -> None: ...
    def submit(self, task: FetchTask) -> None: ...
    def reload(self, bundle: Bundle) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> object: ...


class Normalization(Protocol):
    """The side of a run that makes packets."""

    def expect(self, jobs: int) -> None: ...
    def submit(self, job: NormalizeJob) -> None: ...
    def reload(self, bundle: Bundle) -> None: ...
    def close(self) -> None: ...
