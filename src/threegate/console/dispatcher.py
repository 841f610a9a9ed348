"""What was approved runs as it comes: one thread for the lanes, one for FETCH.

A thread looks when the log grew or somebody wakes it, opens the workspace, and hands everything
that is approved to what `threegate run` and `threegate fetch --approved` call.  Nothing is kept
here: claims and uses are in the log, so whatever ends this process, the next one goes on.

SECURITY
    Decides nothing.  Each request is checked against its approval where it always is, before a
    use is spent, and again in the box.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import HandoffTampered, ThreeGateError
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request
from threegate.host.review.decisions import settle
from threegate.host.run.warm.warm import Warm
from threegate.host.settings import Settings
from threegate.host.workspace.changes import Mark, mark_of
from threegate.host.workspace.workspace import Workspace, open_workspace

LOOK_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 30.0  # after a lane could not be had, or for what waits for time to pass
MAX_AGE_SECONDS: Final = 24 * 3600  # of a packet that answers instead of a question, as `fetch` has

PUSH_CODES: Final = "TG-PSH-"

Stop = Callable[[], bool]
Tell = Callable[..., None]


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """What became of one request: something that was made, or why nothing was."""

    request: str
    made: str
    outcome: str
    code: str = ""


Run = Callable[[Workspace, Sequence[str], Stop], Iterator[FinishedRequest]]


class Dispatcher:
    """One thread that runs approved requests of one kind."""

    def __init__(
        self, root: Path, kind: str, run: Run, tell: Tell, *, seals: Path | None = None
    ) -> None:
        self._seals = seals
        self._root, self._kind, self._run, self._tell = root, kind, run, tell
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._tried: dict[str, frozenset[str]] = {}  # refused, with the approvals it had
        self._meddled: frozenset[str] = frozenset()  # of those that were named
        self._thread = threading.Thread(target=self._work, name=f"dispatch-{kind}")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def stop(self) -> None:
        """Claim nothing more; what is claimed runs to its end."""
        self._stopped.set()
        self._woken.set()

    def join(self) -> None:
        """Wait until everything that was begun is stored."""
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        before: Mark = ("", -1)
        wait = 0.0
        while not self._stopped.is_set():
            found = mark_of(self._root)
            if found != before or self._woken.is_set() or wait <= 0:
                self._woken.clear()
                wait = AGAIN_SECONDS
                self._look()
                before = mark_of(self._root)  # what we did ourselves is no news
                continue
            self._woken.wait(LOOK_SECONDS)
            wait -= LOOK_SECONDS

    def _look(self) -> None:
        try:
            ws = open_workspace(self._root, seals=self._seals)
            try:
                self._run_all(ws)
            finally:
                ws.close()
        except ThreeGateError as exc:
            self._tell("not-run", kind=self._kind, code=exc.code, reason=exc.message)
        except Exception as exc:  # noqa: BLE001 -- told, and tried again; the console goes on
            self._tell("bug", kind=type(exc).__name__, where="dispatcher")

    def _run_all(self, ws: Workspace) -> None:
        aside: dict[str, HandoffTampered] = {}
        settle(ws, lambda words: self._tell("settled", words=words), aside)
        self._tell_meddled(aside)
        approvals = approvals_by_request(ws.store)
        for ended in self._run(ws, self._chosen(ws, approvals, aside), self._stopped.is_set):
            # An executor that is in quarantine, or was given other rules, is there again soon.
            if ended.code and not ended.code.startswith(PUSH_CODES):
                self._tried[ended.request] = frozenset(approvals.get(ended.request, ()))
            facts = {"request": ended.request, "made": ended.made, "outcome": ended.outcome}
            self._tell("ran", kind=self._kind, **facts, code=ended.code)

    def _tell_meddled(self, aside: Mapping[str, HandoffTampered]) -> None:
        """Name each request of our kind that somebody meddled with, once."""
        mine = {one: exc for one, exc in aside.items() if one.startswith(self._kind)}
        for request_id, exc in mine.items():
            if request_id not in self._meddled:
                self._tell("meddled", request=request_id, code=exc.code, reason=exc.message)
        self._meddled = frozenset(mine)

    def _chosen(
        self, ws: Workspace, approvals: Mapping[str, Sequence[str]], aside: Mapping[str, object]
    ) -> list[str]:
        """Return what is approved, but for what was refused under the very same approvals."""
        names = ws.store.names(states.directory_of(self._kind, "approved"))
        found = sorted(name.removesuffix(".md") for name in names if name.startswith(self._kind))
        return [
            one
            for one in found
            if one not in aside and self._tried.get(one) != frozenset(approvals.get(one, ()))
        ]


def tools(warm: Warm) -> Run:
    """Return what runs tool requests, in either lane, with executors that wait if there are."""

    def run(ws: Workspace, ids: Sequence[str], stop: Stop) -> Iterator[FinishedRequest]:
        from threegate.host.run.lifecycle import run_requests

        if not ids:
            return
        heavy = warm.heavy(ws.bundle)
        for report in run_requests(ws, ids, stop=stop, heavy=heavy, lite=warm.lite):
            if report.made is not None:
                yield FinishedRequest(report.request_id, report.made.id, report.made.result.exit)
            elif report.error is not None:
                yield FinishedRequest(
                    report.request_id, "", report.error.message, report.error.code
                )

    return run


def fetches(settings: Settings) -> Run:
    """Return what carries fetch requests out."""

    def run(ws: Workspace, ids: Sequence[str], stop: Stop) -> Iterator[FinishedRequest]:
        from threegate.host.fetch.assembly import start_run
        from threegate.host.fetch.session import begun, carried_out

        if not ids:
            return
        started = start_run(ws, settings, max_age_seconds=MAX_AGE_SECONDS, show=lambda _: None)
        work = begun(ws, [], list(ids), lambda _: None)
        for request_id, error in work.refused:
            yield FinishedRequest(request_id, "", error.message, error.code)
        for report in carried_out(ws, started, work, stop=stop):
            code = report.error.code if report.error is not None else ""
            yield FinishedRequest(
                report.wish.request_id or "", report.packet_id or "", report.status, code
            )

    return run
