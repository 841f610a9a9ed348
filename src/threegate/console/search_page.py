"""A search at a source, one at a time: the one thing in the console that asks the web at once.

SECURITY
    What leaves is the words the operator typed, to one of the sources that have a search, through
    the proxy and by the rules that `threegate fetch search` keeps.  Where policy wants an approval
    for what the operator asks, or the console was started to run nothing, nothing leaves.  What
    comes back is a packet like any other: a list to choose from, and nothing on it was fetched.
"""

import threading
from dataclasses import dataclass

from threegate.base.errors import UsageError
from threegate.console.dispatcher import MAX_AGE_SECONDS
from threegate.console.jobs import ConsoleJob, JobRunner, Tell
from threegate.console.workspace_threads import Desk, WorkspaceThread
from threegate.host.fetch.assembly import start_run
from threegate.host.fetch.plan import wish_to_search
from threegate.host.fetch.ports import Moment
from threegate.host.fetch.session import begun, carried_out
from threegate.host.settings import Settings


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What the operator typed."""

    words: str
    source: str
    rows: int
    confidentiality: str


@dataclass(slots=True)
class SearchJob(ConsoleJob):
    """One search, and the packet it came to."""

    words: str = ""
    source: str = ""
    packet: str = ""


class SearchRunner(JobRunner[SearchJob]):
    """Searches at one source after the other, and remembers the last."""

    def __init__(
        self, settings: Settings, office: WorkspaceThread, tell: Tell, *, runs: bool
    ) -> None:
        super().__init__(office, tell, "search")
        self._settings, self.runs = settings, runs
        self._stopped = threading.Event()

    def start(self, sought: SearchTerms) -> None:
        """Begin to search; raise `UsageError` where that cannot be."""
        if not self.runs:
            hint = "`threegate fetch search WORDS --source S` does, and its packet opens here"
            raise UsageError("this console was started with --no-run and asks nobody", hint=hint)
        job = SearchJob(words=sought.words, source=sought.source)
        self.begin(job, lambda desk: self._work(desk, job, sought))

    def stop(self) -> None:
        """Ask nothing more; what is complete is stored."""
        self._stopped.set()

    def ended(self, job: SearchJob) -> None:
        """Tell the pages that a search is over."""
        self._tell("searched", packet=job.packet)

    def _work(self, desk: Desk, job: SearchJob, sought: SearchTerms) -> None:
        def show(moment: Moment) -> None:
            job.step(moment.words)
            self._tell("searching", words=moment.words)

        desk.ws.refuse_wrong_clock()
        wish = wish_to_search(
            sought.words,
            desk.ws.bundle,
            source=sought.source,
            rows=sought.rows,
            confidentiality=sought.confidentiality,
        )
        run = start_run(desk.ws, self._settings, max_age_seconds=MAX_AGE_SECONDS, show=show)
        work = begun(desk.ws, [wish], [], job.step)
        for report in carried_out(desk.ws, run, work, stop=self._stopped.is_set):
            job.error, job.packet = report.error, report.packet_id or ""
