"""The network side of a run: proxy, askers, and what holds while the policy changes.

Opened when the first question is due; a run that has everything already starts nothing.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import PolicyDenied, ThreeGateError
from threegate.host.fetch import schedule
from threegate.host.fetch.budgets import Budgets
from threegate.host.fetch.retrieve_pool import Asker, Given, RetrieveBox, open_retrieve
from threegate.host.fetch.schedule import Errand, Lanes
from threegate.host.proxy.machine import anchors, certificates, other_proxy
from threegate.host.proxy.sockets import listening
from threegate.host.proxy.supervisor import Proxy
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine

CLOSE_SECONDS: Final = 5.0
OTHER_PROXY: Final = "TG-FET-075"


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of the proxy."""

    line: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """A box that was started."""

    evidence: Evidence
    host: str | None


@dataclass(frozen=True, slots=True)
class Gone:
    """The proxy ended by itself."""

    error: ThreeGateError


Told = schedule.Told | Decided | Opened | Gone


@dataclass(frozen=True, slots=True)
class Places:
    """What a run needs to know of the user."""

    root: Path  # of the workspace
    runtime: Path | None


class Network:
    """Everything through which questions leave; `tell` is called from many threads."""

    def __init__(
        self,
        machine: Machine,
        bundle: Bundle,
        places: Places,
        *,
        budgets: Budgets,
        tell: Callable[[Told], None],
    ) -> None:
        self._machine, self._bundle, self._places, self._tell = machine, bundle, places, tell
        self._stack, self._budgets = ExitStack(), budgets
        self._proxy: Proxy | None = None
        self._given: Given
        self._lanes = Lanes(bundle, open_box=self._open_box, budgets=budgets, tell=tell)

    def open(self) -> None:
        """Start the proxy and wait until the rules hold; raise `GateUnavailable`."""
        self._budgets.open()
        socket = other_proxy(self._bundle)
        if socket is None:
            place = self._stack.enter_context(listening(self._places.runtime))
            self._proxy = Proxy(
                self._machine,
                place,
                decided=self._decided,
                gone=lambda error: self._tell(Gone(error)),
            )
            self._stack.callback(self._proxy.close)
            self._tell(Opened(self._proxy.start(self._bundle), None))
            socket = place.path
        self._give(self._bundle, socket)

    def _decided(self, line: dict[str, Any]) -> None:
        """Hear the proxy; what a tunnel carried counts, whoever says what it was."""
        if line["host"] is not None and "down" in line:
            self._lanes.carried(line["host"], line["down"])
        self._tell(Decided(line))

    def _give(self, bundle: Bundle, socket: Path) -> None:
        self._given = Given(bundle, anchors(self._places.root, bundle), socket, certificates())

    def reload(self, bundle: Bundle) -> None:
        """Put other rules in force: in the proxy first, then for every box."""
        key = ("fetch", "proxy")
        if bundle.text(*key) != self._bundle.text(*key):
            detail = "the policy now names another proxy"
            raise PolicyDenied(detail, code=OTHER_PROXY, hint="run the command again")
        if self._proxy is not None:
            self._proxy.reload(bundle)
        self._give(bundle, self._given.socket)
        self._bundle = bundle
        self._lanes.reload(bundle)

    def _open_box(self, errand: Errand) -> Asker:
        box: RetrieveBox = open_retrieve(self._machine, self._given)
        self._tell(Opened(box.evidence, errand.host))
        return box

    def submit(self, errand: Errand) -> None:
        """Hand over a question; what becomes of it is told."""
        self._lanes.submit(errand)

    def stop(self) -> None:
        """Ask nothing more; what is on its way comes to its end."""
        self._lanes.stop()

    def close(self) -> None:
        """End every box and the proxy; what still waits for a host loses its way to it."""
        self._lanes.close(within_seconds=CLOSE_SECONDS)
        self._stack.close()
        self._lanes.close(within_seconds=CLOSE_SECONDS)
