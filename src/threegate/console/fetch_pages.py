"""Pages for sources: fetch by reference, list candidates at sources, and choose from them.

SECURITY
    References and ticked candidates become a request that waits for the operator's signature, so
    a click alone fetches nothing.  Two pages contact the web at once, through the proxy and under
    the rules of `threegate fetch`: a search sends the words that the operator typed to one source;
    references and cited-by send an identifier of the work to the sources of such lists.  Nothing
    leaves if policy wants an approval for it or the console runs
    nothing.  Titles are foreign text.  A tick is the number of a candidate in a packet, and the
    reference is read again from that packet, so neither a form nor a title can name another one.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from threegate.artifacts.references import MAX_ROWS, RELATIONS, SEARCHABLE, WANTS, Reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.forms import CONFIDENTIALITY
from threegate.base.untrusted import Untrusted
from threegate.console.messages import MAX_BODY_BYTES, Response, as_json, redirect
from threegate.console.page import Call, ConsolePage, lines_of, one_of, status_of, text_of
from threegate.console.workspace_threads import (
    MAX_AGE_SECONDS,
    ConsoleJob,
    JobRunner,
    Tell,
    WorkspaceThread,
)
from threegate.host.bibliography.formats import EntryUnreadable
from threegate.host.bibliography.reader import read_list
from threegate.host.fetch import candidates as listed
from threegate.host.fetch import session as fetch_session
from threegate.host.fetch.candidates import PacketHere, SearchCandidate
from threegate.host.fetch.items import FetchMoment
from threegate.host.fetch.related import known_work, related_target
from threegate.host.fetch.targets import FetchTarget, hold, search_target
from threegate.host.settings import Settings
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.packets import is_search
from threegate.host.workspace.places import refuse_absent
from threegate.policy.leaves import BYTES

PURPOSE: Final = "Asked for by the operator in the console."
MOST_TOLD: Final = 10
_FETCH_FIELDS: Final = ("references", "purpose", "want", "confidentiality")


async def fetch(call: Call) -> Response:
    """Show the form for sources."""
    return _fetch_form(call, {}, [])


def _fetch_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    fields = {name: typed.get(name, "") for name in _FETCH_FIELDS}
    choices = {"levels": CONFIDENTIALITY, "wants": WANTS, "most": BYTES.show(MAX_BODY_BYTES)}
    return call.show("fetch", status_of(problems), typed=fields, problems=problems, **choices)


async def fetch_wanted(call: Call) -> Response:
    """Hold requests for the named sources; nobody is contacted."""
    typed = call.request.form()
    try:
        references = _references(typed.get("references", ""))
        act = partial(hold_wanted, references, typed)
        ids = await call.app.deciding.do(act)
    except ThreeGateError as exc:
        return _fetch_form(call, typed, lines_of(exc))
    call.app.events.tell("held", requests=len(ids))
    return redirect(f"/request/{ids[0]}" if len(ids) == 1 else "/inbox")


def _references(text: str) -> tuple[Reference, ...]:
    """Return the references of a list; raise `UsageError` with the lines that name nothing."""
    try:
        found = read_list(Untrusted(text.encode("utf-8")))
    except EntryUnreadable as exc:
        raise UsageError(f"that is not a list of sources: {exc}") from exc
    if found.problems:
        told = [f"line {one.line}: {one.message}" for one in found.problems[:MOST_TOLD]]
        more = len(found.problems) - MOST_TOLD
        raise UsageError("; ".join([*told, *([f"{more} more"] if more > 0 else [])]))
    if not found.references:
        raise UsageError("this text names nothing to fetch")
    return found.references


def hold_wanted(
    references: Sequence[Reference], typed: Mapping[str, str], live: LiveWorkspace
) -> list[str]:
    """Hold requests for these references with the fields of a form; return their ids."""
    if live.ws.bundle.text("fetch", "operator_requests") == "deny":
        where = live.ws.bundle.ref("fetch", "operator_requests")
        raise PolicyDenied(f"nobody could approve this: denied by {where}")
    want = one_of(WANTS, typed.get("want", WANTS[0]))
    level = one_of(CONFIDENTIALITY, typed.get("confidentiality", CONFIDENTIALITY[0]))
    purpose = text_of(typed, "purpose") or PURPOSE
    return hold(live.ws, references, want=want, confidentiality=level, purpose=purpose)


# -- a search ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """The search form as the operator filled it in."""

    words: str
    source: str
    rows: int
    confidentiality: str
    relation: str = ""  # of a list of works around one work, which `words` names by its packet

    def target(self, live: LiveWorkspace) -> FetchTarget:
        """Return what is asked, or raise `UsageError`."""
        bundle, rows, level = live.ws.bundle, self.rows, self.confidentiality
        if not self.relation:
            return search_target(
                self.words, bundle, source=self.source, rows=rows, confidentiality=level
            )
        work = known_work(live.ws.store, live.index, self.words)
        sources = RELATIONS[self.relation]
        return related_target(
            self.relation, work, bundle, sources=sources, rows=rows, confidentiality=level
        )


@dataclass(slots=True)
class SearchJob(ConsoleJob):
    """One search, and the packet of its results."""

    words: str = ""
    source: str = ""
    packet: str = ""
    relation: str = ""


class SearchRunner(JobRunner[SearchJob]):
    """Runs one search after the other, and remembers the last."""

    def __init__(
        self, settings: Settings, thread: WorkspaceThread, tell: Tell, *, runs: bool
    ) -> None:
        super().__init__(thread, tell, "search")
        self._settings, self.runs = settings, runs
        self._stopped = threading.Event()

    def start(self, sought: SearchTerms) -> None:
        """Start a search; raise `UsageError` if the console runs nothing or a search runs."""
        if not self.runs:
            hint = "`threegate fetch search WORDS --source S` does, and its packet opens here"
            raise UsageError("this console was started with --no-run and sends nothing", hint=hint)
        job = SearchJob(words=sought.words, source=sought.source, relation=sought.relation)
        self.begin(job, lambda live: self._work(live, job, sought))

    def stop(self) -> None:
        """Send no more questions; complete answers are stored."""
        self._stopped.set()

    def ended(self, job: SearchJob) -> None:
        """Tell the pages that a search is over."""
        self._tell("searched", packet=job.packet)

    def _work(self, live: LiveWorkspace, job: SearchJob, sought: SearchTerms) -> None:
        def show(moment: FetchMoment) -> None:
            job.step(moment.words)
            self._tell("searching", words=moment.words)

        live.ws.refuse_wrong_clock()
        target = sought.target(live)
        if sought.relation:
            job.words = target.reference
            job.source = ", ".join(question.source for question in target.questions)
        _, reports = fetch_session.fetch(
            live.ws,
            self._settings,
            [target],
            [],
            max_age_seconds=MAX_AGE_SECONDS,
            stop=self._stopped.is_set,
            show=show,
            note=job.step,
        )
        for report in reports:
            job.error, job.packet = report.error, report.packet_id or ""


# -- the pages of a search ---------------------------------------------------------------


ROWS: Final = (10, 20, 50, MAX_ROWS)
USUAL_ROWS: Final = 20
_TICK: Final = "pick-"


async def search(call: Call) -> Response:
    """Show the form, and the current or last search."""
    job, again = call.app.searching.job, {}
    if job is not None and job.error is not None and not job.relation:  # to be corrected
        again = {"words": job.words, "source": job.source}
    return _search_form(call, again, [])


def _search_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    usual = {"words": "", "source": SEARCHABLE[0], "rows": str(USUAL_ROWS), "confidentiality": ""}
    fields = {name: typed.get(name, value) for name, value in usual.items()}
    return call.show(
        "search",
        status_of(problems),
        job=call.app.searching.job,
        busy=call.app.searching.busy,
        runs=call.app.searching.runs,
        typed=fields,
        problems=problems,
        sources=SEARCHABLE,
        rows=[str(one) for one in ROWS],
        levels=CONFIDENTIALITY,
    )


async def start(call: Call) -> Response:
    """Start a search."""
    typed = call.request.form()
    try:
        call.app.searching.start(_sought(typed))
    except ThreeGateError as exc:
        return _search_form(call, typed, lines_of(exc))
    return redirect("/search")


def _sought(typed: Mapping[str, str]) -> SearchTerms:
    words = " ".join(typed.get("words", "").split())
    if not words:
        raise UsageError("a search needs words")
    rows = one_of([str(one) for one in ROWS], typed.get("rows", ""))
    return SearchTerms(
        words=words,
        source=one_of(SEARCHABLE, typed.get("source", "")),
        rows=int(rows),
        confidentiality=one_of(CONFIDENTIALITY, typed.get("confidentiality", "")),
    )


async def related(call: Call) -> Response:
    """Show the form for works around the work of a packet."""
    return await _related_form(call, [])


async def _related_form(call: Call, problems: Sequence[str]) -> Response:
    named = await call.app.reading.do(partial(_reference_of, call.subject))
    return call.show(
        "related",
        status_of(problems),
        id=call.subject,
        reference=named,
        runs=call.app.searching.runs,
        busy=call.app.searching.busy,
        problems=problems,
        relations=RELATIONS,
    )


def _reference_of(packet_id: str, live: LiveWorkspace) -> str:
    return known_work(live.ws.store, live.index, packet_id).reference.text


async def start_related(call: Call) -> Response:
    """Ask for the works that this one cites, or that cite it."""
    try:
        relation = one_of(tuple(RELATIONS), call.request.form().get("relation", ""))
        terms = SearchTerms(call.subject, "", MAX_ROWS, CONFIDENTIALITY[0], relation)
        call.app.searching.start(terms)
    except ThreeGateError as exc:
        return await _related_form(call, lines_of(exc))
    return redirect("/search")


async def state(call: Call) -> Response:
    """Tell a page whether its search is over, and where its results are."""
    job = call.app.searching.job
    packet = "" if job is None else job.packet
    over = not call.app.searching.busy
    return as_json({"over": over, "next": f"/candidates/{packet}" if over and packet else ""})


async def found(call: Call) -> Response:
    """Show the candidates of a search, to be ticked."""
    return await _found_form(call, {}, [])


async def _found_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    packet, entries = await call.app.reading.do(partial(_read, call.subject))
    fields = {name: typed.get(name, "") for name in ("purpose", "want", "confidentiality")}
    if not fields["confidentiality"]:
        fields["confidentiality"] = packet.confidentiality
    return call.show(
        "candidates",
        status_of(problems),
        id=call.subject,
        packet=packet,
        found=entries,
        sources=", ".join([packet.source, *(one.source for one in packet.also)]),
        typed=fields,
        ticked=_ticks(typed),
        problems=problems,
        wants=WANTS,
        levels=CONFIDENTIALITY,
    )


def _read(
    packet_id: str, live: LiveWorkspace
) -> tuple[ResearchPacket, list[tuple[SearchCandidate, PacketHere | None]]]:
    refuse_absent(live.ws.store, packet_id)
    packet = live.ws.store.read(packet_id)
    if not isinstance(packet, ResearchPacket) or not is_search(packet):
        raise UsageError("that is not the packet of a list")
    here = listed.packets_here(live.index)
    return packet, [(one, here(one)) for one in listed.candidates(packet)]


def _ticks(typed: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_TICK) for name in typed if name.startswith(_TICK)]


async def picked(call: Call) -> Response:
    """Hold a request for the ticked candidates only; nobody is contacted."""
    typed = call.request.form()
    try:
        ids = await call.app.deciding.do(partial(_held, call.subject, typed))
    except ThreeGateError as exc:
        return await _found_form(call, typed, lines_of(exc))
    call.app.events.tell("held", requests=len(ids))
    return redirect(f"/request/{ids[0]}")


def _held(packet_id: str, typed: Mapping[str, str], live: LiveWorkspace) -> list[str]:
    _, entries = _read(packet_id, live)
    ticks = _ticks(typed)
    if not ticks:
        raise UsageError("tick the items to fetch")
    offered = {str(one.number): one for one, _ in entries if one.reference is not None}
    if not offered.keys() >= set(ticks):
        raise UsageError("a ticked item cannot be fetched")
    return hold_wanted(listed.chosen(offered.values(), [int(tick) for tick in ticks]), typed, live)


PAGES: Final = (
    ConsolePage("/fetch", fetch, fetch_wanted, title="Fetch", listed=True),
    ConsolePage("/search", search, start, title="Search at a source", under="/fetch"),
    ConsolePage("/search/state", state),
    ConsolePage(
        "/related/(rp-[0-9a-f]{64})", related, start_related, title="Related works", under="/fetch"
    ),
    ConsolePage("/candidates/(rp-[0-9a-f]{64})", found, picked, under="/fetch"),
)
