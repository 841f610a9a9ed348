"""Layout of a report: its blocks in the order a reader needs them, checks before claims."""

from collections.abc import Iterator, Sequence
from typing import Final

from threegate.artifacts.ids import prefix_of, short
from threegate.host.ask.labels import is_sentence
from threegate.host.ask.storage import NEAREST, NOTHING_CLAIMED
from threegate.host.ask.text_form import RESTS_ON_BROUGHT
from threegate.host.output import counted
from threegate.host.provenance.headlines import Headline
from threegate.host.report.facts import (
    NOTHING,
    Block,
    Card,
    Cells,
    CheckStep,
    Command,
    Computed,
    DrawnPicture,
    Fact,
    Foreign,
    Heading,
    Picture,
    Quote,
    ReportClaim,
    ReportFacts,
    ReportImage,
    ReportLine,
    ReportList,
    Table,
    Title,
    cite,
    foreign,
    line,
    loud,
    mono,
)
from threegate.host.report.sources import FOUND

MEANINGS: Final = {
    "quote found": "its quotes occur in their sources, and its numbers in the quotes",
    "number differs": "a number of the claim occurs in none of its quotes",
    "unchecked": "it rests on no quote that was found",
    "source retracted": "a source it rests on was retracted",
}
QUESTION_CHARS: Final = 300  # of a title; a longer question follows it whole
_IN_ONE_PIECE: Final = (
    "The answer in one piece, as it is stored. Labels speak of the numbered claims only, not of "
    "words that stand only here."
)


def lay_out(report: ReportFacts) -> list[Block]:
    """Return the whole report."""
    return [
        *_top(report),
        *_answer(report),
        *_evidence(report),
        *_sources(report),
        *_computed(report),
        Heading(2, "How it was made"),
        fact_list(report.made),
        *_left_out(report),
        Heading(2, "Where it comes from"),
        Picture(report.trace),
        *_approvals(report),
        *check_blocks(report.checks),
    ]


def _top(report: ReportFacts) -> Iterator[Block]:
    question = " ".join(report.question.split())
    yield Title(f"Report on {short(report.id)}", question[:QUESTION_CHARS])
    if report.question != question[:QUESTION_CHARS]:
        yield Foreign(report.question)
    yield line(f"This report is {report.confidentiality}. Analysis ", mono(short(report.id)))
    if report.loud:
        yield ReportList(tuple(line(loud(text)) for text in report.loud))
    yield Heading(2, "What was checked")
    beside = sum(claim.beside for claim in report.claims)
    own = len(report.claims) - beside
    if not report.claims:
        yield line("No claims: nothing of this answer was checked.")
    else:
        claimed = f"{counted(own, 'claim')}." if own else NOTHING_CLAIMED
        yield line(
            f"{claimed} No label says that a claim is true; each quote was looked up again for "
            "this report."
        )
    yield ReportList(
        tuple(line(f"{number} {label}: {MEANINGS[label]}") for label, number in report.counts)
    )
    if beside:
        yield line(f"Not counted: {counted(beside, 'nearest sentence')}, not chosen by the model.")


def _answer(report: ReportFacts) -> Iterator[Block]:
    yield Heading(2, "Answer")
    if report.answer is not None:
        if report.claims:
            yield line(_IN_ONE_PIECE)
        yield Foreign(report.answer)
    nearest = next((claim for claim in report.claims if claim.beside), None)
    for claim in report.claims:
        if claim is nearest:
            yield line(NEAREST if claim.number > 1 else f"{NOTHING_CLAIMED} {NEAREST}")
        how = (
            ", word for word" if is_sentence(claim.text, [one.text for one in claim.quotes]) else ""
        )
        how += f", {RESTS_ON_BROUGHT}" if claim.brought else ""
        yield Heading(3, f"{claim.name.capitalize()}: {claim.label}{how}", f"claim-{claim.number}")
        yield Foreign(claim.text, fixed=_is_output(claim))
        yield _cited(report, claim)


def _is_output(claim: ReportClaim) -> bool:
    """Tell whether a claim is what a run printed, word for word."""
    return any(one.text == claim.text and prefix_of(one.artifact) == "res" for one in claim.quotes)


def _cited(report: ReportFacts, claim: ReportClaim) -> Block:
    """Return the sources of a claim: number, pages, marks, and last the headline."""
    if not claim.quotes:
        return line("No source.")
    found = []
    for number in claim.sources:
        headline = report.sources[number - 1].headline
        pages = sorted({one.page for one in claim.quotes if one.source == number and one.page})
        words = [f"page {page}" for page in pages] + [*headline.ours, short(headline.id)]
        found.append(line(cite(number), f" {', '.join(words)}: ", foreign(headline.text)))
    return ReportList(tuple(found))


def _evidence(report: ReportFacts) -> Iterator[Block]:
    yield Heading(2, "Evidence")
    quoted = [claim for claim in report.claims if claim.quotes]
    if not quoted:
        yield NOTHING
    for claim in quoted:
        yield Heading(3, f"Quotes of {claim.name}: {claim.label}")
        if claim.label != claim.stored:
            words = f"The analysis says `{claim.stored}`; that was not found now."
            yield line(loud("LABEL LOWERED"), f" {words}")
        for quote in claim.quotes:
            yield from _quote(quote, claim)


def _quote(quote: Quote, claim: ReportClaim) -> Iterator[Block]:
    yield (
        line(f"The {claim.name.split()[0]} is this quote, word for word.")
        if quote.text == claim.text
        else Foreign(quote.text, fixed=prefix_of(quote.artifact) == "res")
    )
    page = "" if quote.page is None else f"page {quote.page}, "
    place = f"{page}text {quote.excerpt}, {quote.length} characters from {quote.offset}"
    standing = quote.standing if quote.standing == FOUND else loud(quote.standing)
    yield line(
        *(cite(quote.source), " ", mono(short(quote.artifact)), f", {place}: ", standing),
        *("; sha256 ", mono(quote.sha256)),
    )
    if quote.line is not None:
        yield line("at ", foreign(quote.line))
    if quote.drawn is not None:
        yield line(f"{quote.drawn.words}.")
        if quote.drawn.image is not None:
            yield DrawnPicture(quote.drawn.image, "the page of the quote")


def _sources(report: ReportFacts) -> Iterator[Block]:
    yield Heading(2, "Sources")
    if not report.sources:
        yield line("Nothing is cited.")
    for number, card in enumerate(report.sources, 1):
        yield headed(f"[{number}]", card.headline, f"source-{number}")
        yield from card_blocks(card)


def _computed(report: ReportFacts) -> Iterator[Block]:
    if report.computed:
        yield Heading(2, "What runs left")
        yield line("Code made these files. Nobody checked their content.")
    for result in report.computed:
        yield headed("Files of", result.headline)
        yield line(", ".join((*result.headline.ours, short(result.headline.id))))
        yield from file_blocks(result)


def file_blocks(result: Computed) -> Iterator[Block]:
    """Yield each file that a run left, and what can be shown of it."""
    for file in result.files:
        how = f", {file.words}" if file.words else ""
        size = counted(file.bytes, "byte")
        yield line(f"{size}, sha256 ", mono(file.sha256), f"{how}: ", foreign(file.name))
        if isinstance(file.shown, ReportImage):
            yield DrawnPicture(file.shown)
        elif isinstance(file.shown, Table):
            yield Cells(file.shown.rows)


def headed(words: str, headline: Headline, anchor: str = "") -> Heading:
    """Return a heading that ends in a headline, or in the id where there is none."""
    text = words if headline.text else f"{words} {short(headline.id)}"
    return Heading(3, text, anchor, headline.text)


def card_blocks(card: Card) -> Iterator[Block]:
    """Yield the blocks of a source or an approval."""
    if card.loud:
        yield ReportList(tuple(line(loud(text)) for text in card.loud))
    yield fact_list((*card.facts, *card.digests))


def fact_list(facts: Sequence[Fact]) -> ReportList:
    """Return facts, one on a line."""
    return ReportList(tuple(_fact(fact) for fact in facts))


def _fact(fact: Fact) -> ReportLine:
    return line(f"{fact.name}: ", foreign(fact.text) if fact.foreign else fact.text)


def _left_out(report: ReportFacts) -> Iterator[Block]:
    yield Heading(2, "What was left out")
    yield fact_list(report.left_out)
    for number, note in enumerate(report.notes, 1):
        yield Heading(3, f"Note {number} of the analysis")
        yield Foreign(note)


def _approvals(report: ReportFacts) -> Iterator[Block]:
    yield Heading(2, "Appendix: approvals")
    if not report.approvals:
        yield line("Nothing behind this answer needed an approval.")
    for card in report.approvals:
        words = "Approval of" if card.headline.text else "Approval"
        yield headed(words, card.headline)
        yield from card_blocks(card)


def check_blocks(checks: Sequence[CheckStep]) -> Iterator[Block]:
    """Yield the commands that check a report."""
    yield Heading(2, "How to check it")
    yield line("In the workspace it comes from:")
    for check in checks:
        yield Command(check.command)
        yield line(f"shows: {check.shows}")
