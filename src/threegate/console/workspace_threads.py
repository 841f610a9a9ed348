"""Threads with their own open workspace: for pages, for long jobs, and for approved requests.

Files, log and index belong to the thread that opened them.  Pages are read in one thread;
signatures are made in another, which may wait for a human.  A dispatcher runs approved requests as
they come: it looks when the log grew or a page wakes it, and calls what `threegate run` and
`threegate fetch --approved` call.  It keeps no state: claims and uses are in the log, so after a
crash the next process continues.

SECURITY
    Decides nothing.  Each request is checked against its approval before a use is spent, and
    again in the sandbox.
"""

import asyncio
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from threegate.base.errors import HandoffTampered, StorageFailed, ThreeGateError, UsageError
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request
from threegate.host.review.decisions import settle
from threegate.host.run.warm.keeper import WarmExecutors
from threegate.host.settings import Settings
from threegate.host.workspace.index import FILE
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.workspace import Mark, Workspace, mark_of, open_workspace

T = TypeVar("T")


class WorkspaceThread:
    """One thread and its open workspace."""

    def __init__(
        self, root: Path, name: str, *, seals: Path | None = None, signs: bool = False
    ) -> None:
        self._root, self._signs, self._seals = root, signs, seals
        self._thread = ThreadPoolExecutor(1, f"console-{name}")
        self._live: LiveWorkspace | None = None

    async def do(self, act: Callable[[LiveWorkspace], T]) -> T:
        """Return the result of `act` on the workspace as it is now."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, act)

    def _do(self, act: Callable[[LiveWorkspace], T]) -> T:
        try:
            if self._live is None:
                self._live = LiveWorkspace.open(self._root, self._seals)
            self._live.follow(always=self._signs)
            return act(self._live)
        except sqlite3.DatabaseError as exc:
            self._drop()
            hint = f"delete {FILE} in the workspace; it is built again"
            raise StorageFailed(f"{FILE} cannot be used", hint=hint) from exc
        except BaseException:
            self._drop()  # after any failure the next call starts from the disk
            raise

    def _drop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.close()

    async def close(self) -> None:
        """Wait for the current call, and close the workspace."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown()


# -- jobs --------------------------------------------------------------------------------


MAX_STEPS: Final = 100
Tell = Callable[..., None]


@dataclass(slots=True)
class ConsoleJob:
    """One long job and its progress; the words of its steps are ours."""

    steps: list[str] = field(default_factory=list)
    error: ThreeGateError | None = None
    over: bool = False

    def step(self, words: str) -> None:
        """Add a step, once."""
        if words not in self.steps:
            del self.steps[MAX_STEPS:]
            self.steps.append(words)


J = TypeVar("J", bound=ConsoleJob)


class JobRunner(ABC, Generic[J]):
    """Runs one job after the other, and remembers the last."""

    def __init__(self, thread: WorkspaceThread, tell: Tell, what: str) -> None:
        self.thread, self._tell, self._what = thread, tell, what
        self.job: J | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Tell whether a job is running."""
        return self.job is not None and not self.job.over

    def begin(self, job: J, work: Callable[[LiveWorkspace], None]) -> None:
        """Start a job; raise `UsageError` while another one runs."""
        if self.busy:
            raise UsageError(f"another {self._what} is under way", hint="wait for its end")
        self.job = job
        self._task = asyncio.create_task(self._do(job, work))

    async def _do(self, job: J, work: Callable[[LiveWorkspace], None]) -> None:
        try:
            await self.thread.do(work)
        except ThreeGateError as exc:
            job.error = exc
        except Exception as exc:  # noqa: BLE001 -- shown on the page; the console goes on
            job.error = ThreeGateError(f"unexpected {type(exc).__name__}")
            self._tell("bug", kind=type(exc).__name__, where=self._what)
        job.over = True
        self.ended(job)

    @abstractmethod
    def ended(self, job: J) -> None:
        """Tell the pages that a job is over."""


# -- approved requests -------------------------------------------------------------------


LOOK_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 30.0  # after a lane was unavailable, or when a request waits for its time
MAX_AGE_SECONDS: Final = 24 * 3600  # of a packet that is used again, as in `fetch`

PUSH_CODES: Final = "TG-PSH-"

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """The end of one request: what it made, or why it made nothing."""

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
        self._tampered: frozenset[str] = frozenset()  # reported already
        self._thread = threading.Thread(target=self._work, name=f"dispatch-{kind}")

    def start(self) -> None:
        """Start the thread."""
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
                before = mark_of(self._root)  # our own changes are not news
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
        except Exception as exc:  # noqa: BLE001 -- reported, and tried again; the console goes on
            self._tell("bug", kind=type(exc).__name__, where="dispatcher")

    def _run_all(self, ws: Workspace) -> None:
        aside: dict[str, HandoffTampered] = {}
        settle(ws, lambda words: self._tell("settled", words=words), aside)
        self._tell_tampered(aside)
        approvals = approvals_by_request(ws.store)
        for ended in self._run(ws, self._chosen(ws, approvals, aside), self._stopped.is_set):
            # An executor in quarantine, or with new rules, is available again soon.
            if ended.code and not ended.code.startswith(PUSH_CODES):
                self._tried[ended.request] = frozenset(approvals.get(ended.request, ()))
            facts = {"request": ended.request, "made": ended.made, "outcome": ended.outcome}
            self._tell("ran", kind=self._kind, **facts, code=ended.code)

    def _tell_tampered(self, aside: Mapping[str, HandoffTampered]) -> None:
        """Report each request of our kind whose file was tampered with, once."""
        mine = {one: exc for one, exc in aside.items() if one.startswith(self._kind)}
        for request_id, exc in mine.items():
            if request_id not in self._tampered:
                self._tell("meddled", request=request_id, code=exc.code, reason=exc.message)
        self._tampered = frozenset(mine)

    def _chosen(
        self, ws: Workspace, approvals: Mapping[str, Sequence[str]], aside: Mapping[str, object]
    ) -> list[str]:
        """Return the approved requests that were not refused under the same approvals."""
        names = ws.store.names(states.directory_of(self._kind, "approved"))
        found = sorted(name.removesuffix(".md") for name in names if name.startswith(self._kind))
        return [
            one
            for one in found
            if one not in aside and self._tried.get(one) != frozenset(approvals.get(one, ()))
        ]


def tools(warm: WarmExecutors) -> Run:
    """Return a function that runs tool requests in either lane, by warm executors if there are."""

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
    """Return a function that carries out fetch requests."""

    def run(ws: Workspace, ids: Sequence[str], stop: Stop) -> Iterator[FinishedRequest]:
        from threegate.host.fetch.session import fetch

        if not ids:
            return
        work, reports = fetch(ws, settings, [], ids, max_age_seconds=MAX_AGE_SECONDS, stop=stop)
        for request_id, error in work.refused:
            yield FinishedRequest(request_id, "", error.message, error.code)
        for report in reports:
            code = report.error.code if report.error is not None else ""
            yield FinishedRequest(
                report.target.request_id or "", report.packet_id or "", report.status, code
            )

    return run
