"""The network side of a fetch run: the proxy, the sandboxes that ask, and the policy they follow.

It opens when the first question is due; a run that has everything already starts nothing.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import PolicyDenied, ThreeGateError
from threegate.host.fetch import schedule
from threegate.host.fetch.budgets import Budgets
from threegate.host.fetch.retrieve_pool import Asker, RetrieveBox, RetrieveSettings, open_retrieve
from threegate.host.fetch.schedule import FetchTask, HostQueues
from threegate.host.proxy.machine import anchors, certificates, other_proxy
from threegate.host.proxy.supervisor import Proxy, listening
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine

CLOSE_SECONDS: Final = 5.0
OTHER_PROXY: Final = "TG-FET-075"


@dataclass(frozen=True, slots=True)
class ProxyDecided:
    """The proxy made a decision."""

    line: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BoxOpened:
    """A sandbox was started."""

    evidence: Evidence
    host: str | None


@dataclass(frozen=True, slots=True)
class ProxyGone:
    """The proxy ended without being told to."""

    error: ThreeGateError


NetworkEvent = schedule.ScheduleEvent | ProxyDecided | BoxOpened | ProxyGone


@dataclass(frozen=True, slots=True)
class Places:
    """Directories of the user that a run needs."""

    root: Path  # of the workspace
    runtime: Path | None


class Network(HostQueues):
    """The queues of all hosts, with the proxy and the sandboxes behind them."""

    def __init__(
        self,
        machine: Machine,
        bundle: Bundle,
        places: Places,
        *,
        budgets: Budgets,
        tell: Callable[[NetworkEvent], None],
    ) -> None:
        """`tell` is called from many threads."""
        super().__init__(bundle, open_box=self._start_box, budgets=budgets, tell=tell)
        self._machine, self._places, self._tell_network = machine, places, tell
        self._stack = ExitStack()
        self._proxy: Proxy | None = None
        self._given: RetrieveSettings

    def open(self) -> None:
        """Start the proxy and wait until it has the rules; raise `GateUnavailable`."""
        self._budgets.open()
        socket = other_proxy(self._bundle)
        if socket is None:
            place = self._stack.enter_context(listening(self._places.runtime))
            self._proxy = Proxy(
                self._machine,
                place,
                decided=self._decided,
                gone=lambda error: self._tell_network(ProxyGone(error)),
            )
            self._stack.callback(self._proxy.close)
            self._tell_network(BoxOpened(self._proxy.start(self._bundle), None))
            socket = place.path
        self._give(self._bundle, socket)

    def _decided(self, line: dict[str, Any]) -> None:
        """Record a proxy decision and charge the tunnel's bytes to the host's budget."""
        if line["host"] is not None and "down" in line:
            self.carried(line["host"], line["down"])
        self._tell_network(ProxyDecided(line))

    def _give(self, bundle: Bundle, socket: Path) -> None:
        self._given = RetrieveSettings(
            bundle, anchors(self._places.root, bundle), socket, certificates()
        )

    def reload(self, bundle: Bundle) -> None:
        """Put other rules in force: in the proxy first, then for every sandbox."""
        key = ("fetch", "proxy")
        if bundle.text(*key) != self._bundle.text(*key):
            detail = "the policy now names another proxy"
            raise PolicyDenied(detail, code=OTHER_PROXY, hint="run the command again")
        if self._proxy is not None:
            self._proxy.reload(bundle)
        self._give(bundle, self._given.socket)
        super().reload(bundle)

    def _start_box(self, task: FetchTask) -> Asker:
        box: RetrieveBox = open_retrieve(self._machine, self._given)
        self._tell_network(BoxOpened(box.evidence, task.host))
        return box

    def close(self, *, within_seconds: float | None = CLOSE_SECONDS) -> bool:
        """End every sandbox and the proxy; tell whether every sandbox ended in time."""
        super().close(within_seconds=within_seconds)
        self._stack.close()  # a sandbox that still waits for a host loses its connection
        return super().close(within_seconds=within_seconds)
