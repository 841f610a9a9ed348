"""Pages to read: packets, answers, results, where they come from, and questions.

SECURITY
    Shows what artifacts hold.  Every text goes through the spelling of the reports, and stands
    in elements of its own.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import is_id, prefix_of
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.console.application import Call
from threegate.console.files import left_by
from threegate.console.messages import Malformed, Response, as_json, redirect
from threegate.console.review_pages import page_number
from threegate.console.workspace_threads import Desk
from threegate.host.ask.answer import Wish
from threegate.host.ask.text_form import Brought, how_made, label_line, plain
from threegate.host.fetch.candidates import is_search
from threegate.host.provenance.graph import Graph, provenance
from threegate.host.provenance.headlines import Headline, Lookup, headline_for
from threegate.host.provenance.picture import as_svg, as_text
from threegate.host.provenance.retraction import (
    brought,
    brought_cites,
    lookup,
    marked,
    repeats_noted,
    retractions,
)
from threegate.host.provenance.texts import texts_of
from threegate.host.report.recheck import relabelled
from threegate.host.workspace.index import Row
from threegate.host.workspace.origin import PacketOrigin
from threegate.host.workspace.places import Reader, refuse_absent
from threegate.host.workspace.render import Shown, field_lines, section_texts, shown

PAGE: Final = 25
LISTS: Final = {
    "packets": ("Packets", ("rp",)),
    "analyses": ("Answers", ("an",)),
    "results": ("Results", ("res",)),
}
MAX_QUESTION_CHARS: Final = 4000


@dataclass(frozen=True, slots=True)
class ArtifactListing:
    """A page of artifacts: each with its headline, and with what must be known first."""

    rows: list[tuple[Row, Headline, PacketOrigin | None, tuple[str, ...]]]
    number: int
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // PAGE))


async def listing(call: Call) -> Response:
    """Show a page of a kind of artifacts, the newest or those that hold some words."""
    name = call.request.path.removeprefix("/")
    title, kinds = LISTS[name]
    words = call.request.query.get("q", "").strip()
    number = page_number(call.request.query.get("page", "1"))
    found = await call.app.reading.do(partial(_listed, kinds, words, number))
    return call.page("listing", here=name, title=title, page=found, q=words)


def _listed(kinds: tuple[str, ...], words: str, number: int, desk: Desk) -> ArtifactListing:
    skip = (number - 1) * PAGE
    if words:
        rows = desk.index.search(words, kinds, limit=PAGE, skip=skip)
        total = desk.index.count_found(words, kinds)
    else:
        rows = desk.index.page(kinds, state=None, limit=PAGE, skip=skip)
        total = desk.index.count(kinds, state=None)
    look, retracted = _look(desk), retractions(desk.ws.store, desk.index)
    read = {row.id: look.read(row.id) for row in rows}
    page = {
        one: marked(headline_for(one, found, look), found, retracted) for one, found in read.items()
    }
    page = repeats_noted(desk.index, page)
    shown = [
        (row, page[row.id], _origin(desk, row.id), _cautions(look, page[row.id], read[row.id]))
        for row in rows
    ]
    return ArtifactListing(shown, number, total)


def _look(desk: Desk) -> Lookup:
    return lookup(Reader(desk.ws.store), desk.index)


def _origin(desk: Desk, artifact_id: str) -> PacketOrigin | None:
    return desk.index.origin(artifact_id) if prefix_of(artifact_id) == "rp" else None


def _cautions(look: Lookup, headline: Headline, packet: Artifact | None) -> tuple[str, ...]:
    if not isinstance(packet, ResearchPacket):
        return headline.marks
    found = look.warned(headline.id, packet)
    return (*found, *(f"{one.count} x {one.name}" for one in packet.hazards))


async def artifact(call: Call) -> Response:
    """Show an artifact; of a quote that is named, the place."""
    if prefix_of(call.subject) in ("fr", "tr"):
        return redirect(f"/request/{call.subject}")
    read = await call.app.reading.do(partial(_read, call.subject))
    found = read.artifact
    if isinstance(found, Analysis):
        return call.page(
            "analysis",
            here="analyses",
            analysis=read.cited,
            headline=read.headline,
            labels=label_line(found, read.brought),
            made=how_made(found),
        )
    view = shown(found)
    place = _place(call.request.query)
    texts = _texts(found, view, place)
    of_run = isinstance(found, ToolResult)
    return call.page(
        "artifact",
        here="results" if of_run else "packets",
        of_run=of_run,
        left=await left_by(call, found) if isinstance(found, ToolResult) else (),
        view=view,
        headline=read.headline,
        fields=list(field_lines(view.fields)),
        texts=texts,
        cautions=read.cautions,
        origin=read.origin,
        sought=None if place is None else any(mark for _, text in texts for _, mark in text),
        chooses=isinstance(found, ResearchPacket) and is_search(found),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    artifact: Artifact
    headline: Headline
    origin: PacketOrigin | None
    cautions: tuple[str, ...]
    brought: Brought  # of an answer
    cited: dict[str, Any]  # of an answer: claims and sources


def _read(artifact_id: str, desk: Desk) -> _Read:
    store = desk.ws.store
    refuse_absent(store, artifact_id)
    look = _look(desk)
    found, cited = store.read(artifact_id), dict[str, Any]()
    resting: Brought = ()
    if isinstance(found, Analysis):
        found = relabelled(store, desk.index, found)
        resting = brought_cites(found, brought(store, desk.index.origin))
        cited = plain(artifact_id, found, look, resting)
    headline = headline_for(artifact_id, found, look)
    return _Read(
        found,
        headline,
        _origin(desk, artifact_id),
        _cautions(look, headline, found),
        resting,
        cited,
    )


def _place(query: Any) -> tuple[int, int, int] | None:
    """Return which characters of which text a link asks for."""
    values = [query.get(name) for name in ("text", "offset", "length")]
    if None in values:
        return None
    if not all(value.isascii() and value.isdigit() and len(value) < 9 for value in values):
        raise Malformed("that is not a place in a text")
    first, second, third = map(int, values)
    return first, second, third


def _texts(
    found: Artifact, view: Shown, place: tuple[int, int, int] | None
) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return each text under its heading, in pieces: the quote that is sought, and the rest."""
    made = [(heading, [(text, False)]) for heading, text in section_texts(view.sections)]
    quotable = texts_of(found)
    if place is None or not 0 < place[0] <= len(quotable):
        return made
    number, start, end = place[0], place[1], place[1] + place[2]
    if not start < end <= len(quotable[number - 1].open_for_display()):
        return made
    # Numbered as they stand there; equal beginnings are no reason to take another one.
    heading, ((text, _),) = made[number - 1]
    pieces = [(text[:start], False), (text[start:end], True), (text[end:], False)]
    made[number - 1] = heading, pieces
    return made


async def provenance_page(call: Call) -> Response:
    """Show what an artifact was made from, and what was made from it."""
    graph = await call.app.reading.do(partial(_graph, call.subject))
    return call.page("provenance", graph=graph, lines=as_text(graph).split("\n"))


async def provenance_picture(call: Call) -> Response:
    """Draw the same."""
    graph = await call.app.reading.do(partial(_graph, call.subject))
    return Response(body=as_svg(graph).encode("utf-8"), kind="image/svg+xml")


def _graph(artifact_id: str, desk: Desk) -> Graph:
    return provenance(desk.ws.store, desk.index, artifact_id)


async def ask(call: Call) -> Response:
    """Show the form, and the question that is being answered."""
    roles = await call.app.reading.do(lambda desk: sorted(desk.ws.bundle.words("core", "roles")))
    continues = call.request.query.get("continues", "")
    if continues and not is_id(continues):
        raise Malformed("that is not the id of an answer")
    return call.page("ask", job=call.app.asking.job, roles=roles, continues=continues)


async def state(call: Call) -> Response:
    """Tell a page whether its question is answered, should it have missed that."""
    return as_json({"over": not call.app.asking.busy})


async def start(call: Call) -> Response:
    """Begin to answer a question."""
    form = call.request.form()
    question = form.get("question", "").replace("\r\n", "\n").strip()
    continues = form.get("continues", "").strip()
    if not 0 < len(question) <= MAX_QUESTION_CHARS:
        raise Malformed("a question has 1 to 4000 characters")
    if continues and not is_id(continues):
        raise Malformed("that is not the id of an answer")
    query, role = form.get("query", "").strip(), form.get("role", "")
    wish = Wish(question, [], query or None, continues or None, role or None)
    call.app.asking.start(wish, extractive=form.get("extractive") == "yes")
    return redirect("/ask")
