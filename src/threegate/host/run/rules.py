"""The rules that claimed requests run under, and the end of runs whose rules are replaced.

A command that applies a policy writes it to the workspace and ends.  While something runs, under
`run` or `serve`, a thread here follows the log.  Every policy since the claim counts, so a policy
that was replaced before the thread looked is not missed.

SECURITY
    Reads the policy in force as every command does.  If this module is wrong, a run goes on
    under rules that were withdrawn.  If the thread fails, it ends every run that it watches.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, TypeVar

from threegate.base.errors import (
    AuditTampered,
    GateUnavailable,
    HandoffTampered,
    PolicyDenied,
    StorageFailed,
    WorkspaceBusy,
)
from threegate.gates.tool_exec.era.messages import DID_NOT_WAKE, HeavyOutcome
from threegate.handoff.store import Store
from threegate.host.run.heavy.backend import HeavyRun
from threegate.host.run.lite import LiteRun
from threegate.host.run.results import STOPPED
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, mark_of
from threegate.policy.bundle import Bundle

REPLACED: Final = "TG-PSH-004"
ROLLED_BACK: Final = "TG-PSH-001"  # as a box says it
PUSH: Final = ("tool-exec", "push")
# The sections that an approval binds, and the sandboxes: equal sections are the same rules.
RULES_OF_RUNS: Final = ("tool-exec", "signers", "gates")
# What a run with a network takes from FETCH: the gateway's trust anchors and its proxy.
NETWORK_OF_RUNS: Final = (("fetch", "trust_anchors"), ("fetch", "proxy"))
LOOK_SECONDS: Final = 0.1

R = TypeVar("R", LiteRun, HeavyRun)


@dataclass(eq=False, slots=True)
class Running:
    """One run, and whether it was ended because its rules were replaced."""

    end: Callable[[], None]
    stopped: bool = False

    def judged(self, ran: R) -> R:
        """Return how it ended; only this host may say that its rules were replaced.

        Raises `GateUnavailable` if it was ended before its guest was handed anything.
        """
        state = ran.outcome.exit
        if self.stopped and state == DID_NOT_WAKE:
            raise _replaced()
        if self.stopped and state in ("crashed", STOPPED):
            return _ended(ran, STOPPED)
        return _ended(ran, "crashed") if state == STOPPED else ran


def _ended(ran: R, state: str) -> R:
    outcome = type(ran.outcome)(state)
    if isinstance(ran.outcome, HeavyOutcome):
        outcome = replace(outcome, probes=ran.outcome.probes)
    return replace(ran, outcome=outcome, refused=None)


class Rules:
    """The policy of one command; ends what runs under it if a newer one says so."""

    def __init__(self, ws: Workspace) -> None:
        """Raise `PolicyDenied` if it is not the one in force any more."""
        self._ws, self._last = ws, ws.bundle
        with ws.store.locked() as journal:
            if applied.read_current(ws.store).digest != ws.bundle.digest:
                raise _changed()
            self._pointer = self._seen = journal.current
            self._mark = mark_of(ws.root)
        self._store: Store | None = (
            None  # the thread's own: its lock excludes other stores, not other threads
        )
        self._lock, self._runs = threading.Lock(), list[Running]()
        self._stopped, self._over = False, threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rules")

    def refuse_changed(self) -> None:
        """Raise unless the policy in force is this one and counts; the lock is held."""
        if self._ws.store.journal.current != self._pointer:
            raise _changed()
        applied.read_recorded_pointer(self._ws.store)
        self.refuse_stopped()

    def refuse_stopped(self) -> None:
        """Raise `GateUnavailable` if nothing more may begin under these rules."""
        if self._stopped:
            raise _replaced()

    @contextmanager
    def running(self, end: Callable[[], None]) -> Iterator[Running]:
        """Have a run ended, from another thread, if its rules are replaced meanwhile."""
        run = Running(end)
        with self._lock:
            self.refuse_stopped()
            self._runs.append(run)
        try:
            yield run
        finally:
            with self._lock:
                self._runs.remove(run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._over.wait(LOOK_SECONDS):
                self._look()
        finally:
            if not self._over.is_set():  # the thread failed: nobody follows the log any more
                self._stop()
            if self._store is not None:
                self._store.close()

    def _look(self) -> None:
        found = mark_of(self._ws.root)
        if found == self._mark:
            return
        try:
            self._store = self._store or Store.open(self._ws.root, clock=self._ws.clock)
            with (
                self._store.locked() as journal
            ):  # locking completes or undoes what a killed command left
                applied.read_recorded_pointer(self._store)
                news = _since(self._store, self._last) if journal.current != self._seen else []
                seen = journal.current
        except (PolicyDenied, HandoffTampered, AuditTampered):
            words = (self._last.text(*PUSH, key) for key in ("on_bad_bundle", "running"))
            if tuple(words) == ("quarantine", "stop"):
                self._stop()
        except (WorkspaceBusy, StorageFailed):
            return
        else:
            self._last, self._seen = news[0] if news else self._last, seen
            if any(_ends(self._ws.bundle, bundle) for bundle in news):
                self._stop()
        self._mark = found

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for run in self._runs:
                run.stopped = True
                with suppress(OSError):  # one that cannot be killed must not save the others
                    run.end()


def _replaced() -> GateUnavailable:
    return GateUnavailable("the rules were replaced before the job began", code=REPLACED)


def _changed() -> PolicyDenied:
    hint = "run it again: each approval is then judged by the rules in force"
    return PolicyDenied("the policy was changed meanwhile", hint=hint)


def _since(store: Store, last: Bundle) -> list[Bundle]:
    """Return the policies applied since one, the newest first; raise if they do not follow it."""
    news = list(applied.since(store, applied.read_current(store), last.digest))
    if news and news[-1].previous != last.digest:
        message = f"generation {news[0].generation} does not follow {last.generation}"
        raise PolicyDenied(message, code=ROLLED_BACK)
    return news


def _ends(old: Bundle, new: Bundle) -> bool:
    """Tell whether a policy ends what runs under another one."""
    same = all(old.section_digest(name) == new.section_digest(name) for name in RULES_OF_RUNS)
    network = all(old.value(*path) == new.value(*path) for path in NETWORK_OF_RUNS)
    return not (same and network) and new.text(*PUSH, "running") == "stop"
