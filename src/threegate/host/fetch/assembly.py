"""A run put together from the real parts: boxes, proxy, budgets, the operator's keys."""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from threegate.host.fetch.budgets import Budgets
from threegate.host.fetch.credentials import credential_for
from threegate.host.fetch.network import Network, Places
from threegate.host.fetch.normalize_pool import Makers
from threegate.host.fetch.ports import Moment, Sides, Told
from threegate.host.fetch.run import Run
from threegate.host.settings import Settings
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine

BUDGETS: Final = "budgets"


def budgets_of(settings: Settings, ws: Workspace) -> Budgets:
    """Return the budgets of the user."""
    return Budgets(settings.state_home / BUDGETS, ws.clock)


def start_run(
    ws: Workspace,
    settings: Settings,
    *,
    max_age_seconds: int,
    show: Callable[[Moment], None] = lambda _: None,
) -> Run:
    """Return a run that starts nothing before its first question."""
    machine = find_machine()
    told: SimpleQueue[Told] = SimpleQueue()
    places = Places(ws.root, settings.runtime_home)
    asks = Network(machine, ws.bundle, places, budgets=budgets_of(settings, ws), tell=told.put)
    sides = Sides(told, asks, Makers(machine, ws.bundle, tell=told.put))
    return Run(
        ws,
        sides,
        credentials=lambda bundle, host: credential_for(settings, bundle, host),
        max_age_seconds=max_age_seconds,
        show=show,
    )
