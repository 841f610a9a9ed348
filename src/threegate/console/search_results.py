"""Pages on which the operator searches at a source and ticks what is to be fetched.

SECURITY
    Titles are foreign text.  A tick is the number of a candidate in a packet that its id names to
    the byte; the reference is read again from those bytes by the grammar, so neither a form nor a
    title can name anything else.  What was ticked becomes a request that waits.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from threegate.artifacts.references import MAX_ROWS, SEARCHABLE, Reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ThreeGateError, UsageError
from threegate.console.application import Call
from threegate.console.fetch_page import LEVELS, WANTS, hold_wanted, one_of, status_of, told_of
from threegate.console.messages import Response, as_json, redirect
from threegate.console.search_page import SearchTerms
from threegate.console.workspace_threads import Desk
from threegate.host.fetch.candidates import Candidate, candidates, is_search
from threegate.host.workspace.places import refuse_absent

ROWS: Final = (10, 20, 50, MAX_ROWS)
USUAL_ROWS: Final = 20
_TICK: Final = "pick-"


async def search(call: Call) -> Response:
    """Show the form, and the search that is under way or came to its end last."""
    job, again = call.app.searching.job, {}
    if job is not None and job.error is not None:  # to be tried again, or corrected
        again = {"words": job.words, "source": job.source}
    return _search_form(call, again, [])


def _search_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    usual = {"words": "", "source": SEARCHABLE[0], "rows": str(USUAL_ROWS), "confidentiality": ""}
    fields = {name: typed.get(name, value) for name, value in usual.items()}
    return call.page(
        "search",
        status_of(problems),
        here="fetch",
        job=call.app.searching.job,
        busy=call.app.searching.busy,
        runs=call.app.searching.runs,
        typed=fields,
        problems=problems,
        sources=SEARCHABLE,
        rows=[str(one) for one in ROWS],
        levels=LEVELS,
    )


async def start(call: Call) -> Response:
    """Begin to search."""
    typed = call.request.form()
    try:
        call.app.searching.start(_sought(typed))
    except ThreeGateError as exc:
        return _search_form(call, typed, told_of(exc))
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
        confidentiality=one_of(LEVELS, typed.get("confidentiality", "")),
    )


async def state(call: Call) -> Response:
    """Tell a page whether its search is over, and what it came to."""
    job = call.app.searching.job
    packet = "" if job is None else job.packet
    over = not call.app.searching.busy
    return as_json({"over": over, "next": f"/candidates/{packet}" if over and packet else ""})


async def found(call: Call) -> Response:
    """Show what a search found, to be ticked."""
    return await _found_form(call, {}, [])


async def _found_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    packet, listed = await call.app.reading.do(partial(_read, call.subject))
    fields = {name: typed.get(name, "") for name in ("purpose", "want", "confidentiality")}
    if not fields["confidentiality"]:
        fields["confidentiality"] = packet.confidentiality
    return call.page(
        "candidates",
        status_of(problems),
        here="fetch",
        id=call.subject,
        packet=packet,
        found=listed,
        typed=fields,
        ticked=_ticks(typed),
        problems=problems,
        wants=WANTS,
        levels=LEVELS,
    )


def _read(packet_id: str, desk: Desk) -> tuple[ResearchPacket, list[Candidate]]:
    refuse_absent(desk.ws.store, packet_id)
    packet = desk.ws.store.read(packet_id)
    if not isinstance(packet, ResearchPacket) or not is_search(packet):
        raise UsageError("that is not the packet of a search")
    return packet, list(candidates(packet))


def _ticks(typed: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_TICK) for name in typed if name.startswith(_TICK)]


async def picked(call: Call) -> Response:
    """Hold a request for what was ticked, and for nothing else; nobody is contacted."""
    typed = call.request.form()
    try:
        ids = await call.app.deciding.do(partial(_held, call.subject, typed))
    except ThreeGateError as exc:
        return await _found_form(call, typed, told_of(exc))
    call.app.events.tell("held", requests=len(ids))
    return redirect(f"/request/{ids[0]}")


def _held(packet_id: str, typed: Mapping[str, str], desk: Desk) -> list[str]:
    _, listed = _read(packet_id, desk)
    return hold_wanted(_chosen(listed, _ticks(typed)), typed, desk)


def _chosen(listed: Sequence[Candidate], ticks: Sequence[str]) -> list[Reference]:
    """Return the references of what was ticked, each once."""
    named = {str(one.number): one.reference for one in listed}
    chosen: dict[Reference, None] = {}
    for tick in ticks:
        reference = named.get(tick)
        if reference is None:
            raise UsageError("something was ticked that cannot be asked for")
        chosen[reference] = None
    if not chosen:
        raise UsageError("tick what is to be fetched")
    return list(chosen)
