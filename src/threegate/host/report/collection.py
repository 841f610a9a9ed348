"""Collection of an analysis and everything it rests on, from the workspace into a report.

It uses no clock and no randomness: the same workspace gives the same report.

SECURITY
    Opens foreign text for display.  Statements of the analysis about itself are compared with what
    is stored and logged here; where that is not possible, the report says so.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from threegate import __version__
from threegate.artifacts import registry
from threegate.artifacts.analysis import CLAIM_LABELS, Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.forms import CONFIDENTIALITY
from threegate.handoff.store import Store
from threegate.host.ask.storage import NEAREST, NOTHING_CLAIMED, answer_line, own_claims
from threegate.host.output import counted
from threegate.host.provenance.graph import Graph, provenance
from threegate.host.provenance.headlines import (
    Lookup,
    Read,
    brought_cites,
    headline_of,
    lookup,
    page_of,
    retractions,
)
from threegate.host.provenance.headlines import brought as brought_behind
from threegate.host.provenance.lines import line_of
from threegate.host.report.approvals import LoggedArrival, approval_card, approvals_behind, stored
from threegate.host.report.facts import Card, Fact, Quote, ReportClaim, ReportFacts
from threegate.host.report.outputs import See, Viewer, computed_behind
from threegate.host.report.provenance import checks_of, trace
from threegate.host.report.sources import FOUND, Rechecked, card_of, recheck
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import ArtifactReader, read_anywhere
from threegate.host.workspace.workspace import Workspace

MOST_NAMED: Final = 50
ASKED: Final = "ask"  # the change that stores an answer of this workspace
_METHODS: Final = {
    "extractive": "sentences of the sources, word for word; no words were generated",
    "model": "a model wrote the claims; the host cut the quotes out of the sources",
    "map-reduce": "a model took notes of parts and wrote the claims; the host cut the quotes",
}
_WHERE: Final = {
    "embedded": "on this machine, in a sandbox without network",
    "bridge": "on this machine, by a server of the operator's behind the bridge",
}


def gather(ws: Workspace, index: Index, analysis_id: str, see: See | None = None) -> ReportFacts:
    """Return the report on a stored analysis; `see` makes images of runs fit to be shown."""
    analysis = ws.store.read(analysis_id)
    assert isinstance(analysis, Analysis)
    retracted = cache(retractions(ws.store, index))  # an answer cites the same text many times
    look = lookup(ArtifactReader(ws.store), index)
    rechecked = recheck(analysis, look.read, retracted)
    brought = cache(brought_behind(ws.store, index.origin))
    resting = brought_cites(analysis, brought)
    cited = list(dict.fromkeys(cite.artifact for one in analysis.claims for cite in one.cites))
    own = own_claims(analysis)
    claims = tuple(
        _claim(
            number, one, cited, look.read, beside=number > own, brought=bool(resting[number - 1])
        )
        for number, one in enumerate(rechecked, 1)
    )
    sources = tuple(card_of(ws.store, look, one, retracted, brought) for one in cited)
    behind = approvals_behind(ws.store, index, analysis.derived_from)
    entries = stored(ws.store.journal.log, {analysis_id, *behind})
    approvals = tuple(approval_card(ws, key, used, entries) for key, used in behind.items())
    came = entries.get(analysis_id)
    return ReportFacts(
        id=analysis_id,
        question=analysis.question.open_for_display(),
        confidentiality=analysis.confidentiality,
        counts=tuple((label, _count(claims[:own], label)) for label in CLAIM_LABELS),
        loud=tuple(_loud(analysis, came, claims, sources, approvals)),
        answer=_answer(analysis),
        claims=claims,
        sources=sources,
        made=(Fact("analysis", analysis_id), *_made(analysis, came)),
        left_out=tuple(_left_out(look, analysis, came, cited)),
        notes=tuple(note.open_for_display() for note in analysis.notes),
        trace=traced(ws.store, index, analysis_id, claims),
        approvals=approvals,
        checks=checks_of(ws.store, analysis_id, analysis, cited, tuple(behind)),
        computed=computed_behind(ws.store, analysis.derived_from, see or Viewer(ws.bundle)),
    )


def traced(store: Store, index: Index, root: str, claims: Sequence[ReportClaim] = ()) -> Graph:
    """Return the picture; artifacts made from another may be more confidential than it."""
    whole = provenance(store, index, root)
    own = registry.labels_of(store.read(root)).confidentiality
    private = [one for one in whole.nodes if _more_private(read_anywhere(store, one), own)]
    return trace(whole, claims, nameless=private)


def _more_private(artifact: Artifact | None, than: str) -> bool:
    if artifact is None:
        return False
    level = registry.labels_of(artifact).confidentiality
    return CONFIDENTIALITY.index(level) > CONFIDENTIALITY.index(than)


def _claim(
    number: int, one: Rechecked, cited: Sequence[str], read: Read, *, beside: bool, brought: bool
) -> ReportClaim:
    quotes = tuple(
        Quote(
            source=cited.index(cite.artifact) + 1,
            artifact=cite.artifact,
            excerpt=cite.excerpt,
            offset=cite.offset,
            length=cite.length,
            sha256=cite.sha256,
            text=text,
            standing=standing,
            page=page_of(cite.artifact, cite.excerpt, read),
            line=line_of(cite.artifact, cite.excerpt, cite.offset, read),
        )
        for cite, text, standing in one.quotes
    )
    return ReportClaim(number, one.text, one.label, one.stored, quotes, beside, brought)


def _count(claims: Sequence[ReportClaim], label: str) -> int:
    return sum(claim.label == label for claim in claims)


def _answer(analysis: Analysis) -> str | None:
    """Return the answer where it says more than its claims; each claim has its own check."""
    answer = analysis.answer.open_for_display()
    texts = [text.open_for_display() for text in analysis.claim_texts]
    lines = [answer_line(text, n) for n, text in enumerate(texts, 1)]
    own = own_claims(analysis)
    if own < len(texts):
        lines[own:own] = [NEAREST] if own else [NOTHING_CLAIMED, NEAREST]
    return None if texts and answer.split("\n") == lines else answer


def _loud(
    analysis: Analysis,
    came: LoggedArrival | None,
    claims: Sequence[ReportClaim],
    sources: Sequence[Card],
    approvals: Sequence[Card],
) -> Iterator[str]:
    yield from _loud_sources(sources)
    lowered = [claim for claim in claims if claim.label != claim.stored]
    if lowered:
        numbers = ", ".join(str(claim.number) for claim in lowered)
        yield f"LABELS LOWERED: less was found now than the analysis says, in claim {numbers}"
    missing = sum(quote.standing != FOUND for claim in claims for quote in claim.quotes)
    if missing:
        yield f"QUOTES NOT FOUND AGAIN: {counted(missing, 'quote')}"
    for card in approvals:
        for text in card.loud:
            yield f"approval {short(card.id)}: {text}"
    if came is None or came.op != ASKED:
        yield "BROUGHT FROM ELSEWHERE: no question asked here made this analysis"
    if analysis.model is not None and analysis.model.host is not None:
        yield f"SENT AWAY: the question and the sources went to {analysis.model.host}"


def _loud_sources(sources: Sequence[Card]) -> Iterator[str]:
    """Yield each warning once, with the numbers of its sources."""
    said: dict[str, list[int]] = {}
    for number, card in enumerate(sources, 1):
        for text in card.loud:
            said.setdefault(text, []).append(number)
    for text, numbers in said.items():
        if len(numbers) == 1:
            yield f"source {numbers[0]} ({short(sources[numbers[0] - 1].id)}): {text}"
        else:
            yield f"sources {', '.join(map(str, numbers))}: {text}"


def _made(analysis: Analysis, came: LoggedArrival | None) -> Iterator[Fact]:
    model = analysis.model
    yield Fact("method", f"{analysis.method}: {_METHODS[analysis.method]}")
    if model is not None:
        yield Fact("model", model.name, foreign=True)
        digest = model.sha256 and f"sha256 {model.sha256}"
        yield Fact("model file", digest or "not known: the server does not show its file")
        sent = f"on {model.host}: the question and the sources were sent there"
        yield Fact("it ran", _WHERE[model.server] if model.host is None else sent)
    if came is None or came.op != ASKED:
        yield Fact("so says", "the analysis itself; it was not made in this workspace")
    if came is not None:
        yield Fact("stored", f"{came.time}, log entry {came.seq}, by `{came.op}`")
    yield Fact("dated", analysis.created)
    yield Fact("role", analysis.role)
    yield Fact("policy", f"sha256 {analysis.policy_sha256}")
    if analysis.continues is not None:
        yield Fact("goes on from", analysis.continues)
    yield Fact("report by", f"ThreeGate {__version__}")


def _left_out(
    look: Lookup, analysis: Analysis, came: LoggedArrival | None, cited: Sequence[str]
) -> Iterator[Fact]:
    left = came.detail.get("left_out") if came is not None and came.op == ASKED else None
    known = type(left) is int
    yield Fact("texts read and not selected", str(left) if known else "not known")
    unread = [one for one in analysis.derived_from if one not in analysis.selection]
    quiet = [one for one in analysis.selection if one not in cited]
    yield from _named("read and not cited", quiet, look)
    yield from _named("behind these, not read", unread, look)
    for artifact_id in cited:
        artifact = look.read(artifact_id) if prefix_of(artifact_id) == "rp" else None
        for gap in artifact.gaps if isinstance(artifact, ResearchPacket) else ():
            name = f"{short(artifact_id)}, {gap.source}: {gap.reason}"
            yield Fact(name, gap.reference.open_for_display(), foreign=True)


def _named(what: str, ids: Sequence[str], look: Lookup) -> Iterator[Fact]:
    """Yield how many there are, then each by its headline."""
    more = f", of which {MOST_NAMED} follow" if len(ids) > MOST_NAMED else ""
    yield Fact(what, f"{len(ids)}{more}" if ids else "nothing")
    for one in ids[:MOST_NAMED]:
        headline = headline_of(one, look)
        yield Fact(", ".join((short(one), *headline.ours)), headline.text or "-", foreign=True)
