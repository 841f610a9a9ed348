"""Pages of stored artifacts: lists, packets, answers, results, provenance and reports.

SECURITY
    Shows foreign text.  Every text goes through the spelling of the reports and is in its own
    element.  A report is a separate document that loads and runs nothing; its own content policy
    allows its one style sheet and no script.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.console.file_pages import left_by
from threegate.console.messages import HTML, Response, redirect
from threegate.console.page import (
    Call,
    ConsolePage,
    TextPlace,
    at_place,
    page_number,
    pages_of,
    text_place,
)
from threegate.host.ask.text_form import Brought, how_made, label_line, plain
from threegate.host.provenance.graph import Graph, as_svg, as_text, provenance
from threegate.host.provenance.headlines import (
    Headline,
    Lookup,
    brought,
    brought_cites,
    headline_for,
    lookup,
    marked,
    repeats_noted,
    retractions,
)
from threegate.host.provenance.texts import texts_of
from threegate.host.report.collection import gather
from threegate.host.report.facts import Block
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown
from threegate.host.report.page import as_page, policy_of
from threegate.host.report.page_drawer import can_draw
from threegate.host.report.pdf import as_pdf
from threegate.host.report.sources import relabelled
from threegate.host.workspace.index import IndexRow
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.packets import PacketOrigin, is_search, names_of
from threegate.host.workspace.places import ArtifactReader, refuse_absent
from threegate.host.workspace.text_form import ShownArtifact, field_lines, section_texts, shown

PAGE: Final = 25
LISTS: Final = {
    "/packets": ("Packets", ("rp",)),
    "/analyses": ("Answers", ("an",)),
    "/results": ("Results", ("res",)),
}


@dataclass(frozen=True, slots=True)
class ArtifactListing:
    """A page of artifacts: each with its headline and its warnings."""

    rows: list[tuple[IndexRow, Headline, PacketOrigin | None, tuple[str, ...]]]
    number: int
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return pages_of(self.total, PAGE)


async def listing(call: Call) -> Response:
    """Show a page of one kind of artifacts: the newest, or those with the words of a search."""
    _, kinds = LISTS[call.page.path]
    words = call.request.query.get("q", "").strip()
    found = await call.app.reading.do(partial(_listed, kinds, words, page_number(call)))
    return call.show("listing", page=found, q=words)


def _listed(
    kinds: tuple[str, ...], words: str, number: int, live: LiveWorkspace
) -> ArtifactListing:
    skip = (number - 1) * PAGE
    if words:
        rows = live.index.search(words, kinds, limit=PAGE, skip=skip)
        total = live.index.count_found(words, kinds)
    else:
        rows = live.index.page(kinds, state=None, limit=PAGE, skip=skip)
        total = live.index.count(kinds, state=None)
    look, retracted = _look(live), retractions(live.ws.store, live.index)
    read = {row.id: look.read(row.id) for row in rows}
    page = {
        one: marked(headline_for(one, found, look), found, retracted) for one, found in read.items()
    }
    page = repeats_noted(live.index, page)
    shown = [
        (row, page[row.id], _origin(live, row.id), _cautions(look, page[row.id], read[row.id]))
        for row in rows
    ]
    return ArtifactListing(shown, number, total)


def _look(live: LiveWorkspace) -> Lookup:
    return lookup(ArtifactReader(live.ws.store), live.index)


def _origin(live: LiveWorkspace, artifact_id: str) -> PacketOrigin | None:
    return live.index.origin(artifact_id) if prefix_of(artifact_id) == "rp" else None


def _cautions(look: Lookup, headline: Headline, packet: Artifact | None) -> tuple[str, ...]:
    if not isinstance(packet, ResearchPacket):
        return headline.marks
    found = look.warned(headline.id, packet)
    return (*found, *(f"{one.count} x {one.name}" for one in packet.hazards))


async def artifact(call: Call) -> Response:
    """Show an artifact, with the quote marked that a link names."""
    if prefix_of(call.subject) in ("fr", "tr"):
        return redirect(f"/request/{call.subject}")
    read = await call.app.reading.do(partial(_read, call.subject))
    found = read.artifact
    if isinstance(found, Analysis):
        return call.show(
            "analysis",
            here="/analyses",
            analysis=read.cited,
            with_pdf=read.with_pdf,
            headline=read.headline,
            labels=label_line(found, read.brought),
            made=how_made(found),
        )
    view = shown(found)
    place = text_place(call)
    texts = _texts(found, view, place)
    of_run = isinstance(found, ToolResult)
    return call.show(
        "artifact",
        here="/results" if of_run else "/packets",
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
        is_work=isinstance(found, ResearchPacket) and bool(names_of(found)),
        drawn=None if not read.with_pdf else _drawn_page(found, place),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    artifact: Artifact
    headline: Headline
    origin: PacketOrigin | None
    cautions: tuple[str, ...]
    brought: Brought  # of an answer
    cited: dict[str, Any]  # of an answer: claims and sources
    with_pdf: frozenset[str]  # of the packets it shows, those whose pages can be drawn


def _read(artifact_id: str, live: LiveWorkspace) -> _Read:
    store = live.ws.store
    refuse_absent(store, artifact_id)
    look = _look(live)
    found, cited = store.read(artifact_id), dict[str, Any]()
    resting: Brought = ()
    if isinstance(found, Analysis):
        found = relabelled(store, live.index, found)
        resting = brought_cites(found, brought(store, live.index.origin))
        cited = plain(artifact_id, found, look, resting)
    headline = headline_for(artifact_id, found, look)
    shown_ids = [artifact_id, *(found.selection if isinstance(found, Analysis) else ())]
    return _Read(
        found,
        headline,
        _origin(live, artifact_id),
        _cautions(look, headline, found),
        resting,
        cited,
        frozenset(one for one in shown_ids if can_draw(look.read(one), one, look.origins)),
    )


def _drawn_page(found: Artifact, place: TextPlace | None) -> str:
    """Return the path of the picture: the page of the quote, or the first one."""
    assert isinstance(found, ResearchPacket)
    pages = f"/packet/{registry.id_of(found)}/page"
    if place is not None and 0 < place[0] <= len(found.excerpts):
        page = found.excerpts[place[0] - 1].page
        if page is not None:
            return at_place(f"{pages}/{page}", place)
    return f"{pages}/1"


def _texts(
    found: Artifact, view: ShownArtifact, place: TextPlace | None
) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return each text under its heading, in pieces: the quote, and the rest."""
    made = [(heading, [(text, False)]) for heading, text in section_texts(view.sections)]
    quotable = texts_of(found)
    if place is None or not 0 < place[0] <= len(quotable):
        return made
    number, start, end = place[0], place[1], place[1] + place[2]
    if not start < end <= len(quotable[number - 1].open_for_display()):
        return made
    # Texts are found by number, not by content: two texts may begin alike.
    heading, ((text, _),) = made[number - 1]
    pieces = [(text[:start], False), (text[start:end], True), (text[end:], False)]
    made[number - 1] = heading, pieces
    return made


async def provenance_page(call: Call) -> Response:
    """Show the provenance of an artifact, as a list and a picture."""
    graph = await call.app.reading.do(partial(_graph, call.subject))
    return call.show("provenance", graph=graph, lines=as_text(graph).split("\n"))


async def provenance_picture(call: Call) -> Response:
    """Send the picture of the provenance."""
    graph = await call.app.reading.do(partial(_graph, call.subject))
    return Response(body=as_svg(graph).encode("utf-8"), kind="image/svg+xml")


def _graph(artifact_id: str, live: LiveWorkspace) -> Graph:
    return provenance(live.ws.store, live.index, artifact_id)


# -- reports -----------------------------------------------------------------------------


_FILES: Final = {
    "md": (as_markdown, "text/markdown; charset=utf-8"),
    "pdf": (as_pdf, "application/pdf"),
}


async def report(call: Call) -> Response:
    """Show the report on an answer."""
    body, policy = await call.app.slow.do(partial(_page, call.subject))
    return Response(body=body, kind=HTML, policy=f"{policy}; frame-ancestors 'none'")


async def report_file(call: Call) -> Response:
    """Send the report as a file."""
    form = call.request.path.rpartition("/")[2]
    body = await call.app.slow.do(partial(_file, call.subject, form))
    name = f'attachment; filename="report-{short(call.subject)}.{form}"'
    return Response(body=body, kind=_FILES[form][1], headers=(("Content-Disposition", name),))


def _page(analysis_id: str, live: LiveWorkspace) -> tuple[bytes, str]:
    blocks = _blocks(analysis_id, live)
    return as_page(blocks), policy_of(blocks)


def _file(analysis_id: str, form: str, live: LiveWorkspace) -> bytes:
    return _FILES[form][0](_blocks(analysis_id, live))


def _blocks(analysis_id: str, live: LiveWorkspace) -> list[Block]:
    refuse_absent(live.ws.store, analysis_id)
    return lay_out(gather(live.ws, live.index, analysis_id))


PAGES: Final = (
    *(
        ConsolePage(path, listing, title=title, listed=True, follows=True)
        for path, (title, _) in LISTS.items()
    ),
    ConsolePage("/artifact/ID", artifact),
    ConsolePage("/provenance/ID", provenance_page),
    ConsolePage("/provenance/ID/picture", provenance_picture),
    ConsolePage("/report/(an-[0-9a-f]{64})", report),
    ConsolePage("/report/(an-[0-9a-f]{64})/(?:md|pdf)", report_file),
)
