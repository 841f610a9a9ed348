"""Labels under attack: nothing looks better founded than it was found to be."""

from typing import Any

import pytest

from tests.support.core_doubles import (
    FakeAskGates,
    claim,
    program,
    said,
    wanted_source,
    written,
)
from tests.support.holdings import paper
from tests.support.samples import approval, tool_result
from tests.support.workspaces import soft_signer, take_in
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.forms import CONFIDENTIALITY
from threegate.gates.core.messages import CoreSaid
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.ask.answer import Outcome, TypedQuestion, answer_by_model
from threegate.host.ask.labels import differing
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import forget
from threegate.host.workspace.workspace import Workspace

QUOTE_FOUND, NUMBER_DIFFERS, UNCHECKED, RETRACTED = (
    *("quote found", "number differs", "unchecked", "source retracted"),
)


def ask(ws: Workspace, index: Index, answer: CoreSaid | FakeAskGates, **wish: Any) -> Outcome:
    index.catch_up()
    sides = answer if isinstance(answer, FakeAskGates) else FakeAskGates(answer)
    return answer_by_model(ws, index, TypedQuestion(**{"question": "Which ice?", **wish}), sides)


def label(outcome: Outcome) -> str:
    """Return the label of the one claim that the model made."""
    ((found, _),) = written(outcome)
    return found


# What a claim says, a quote that says something else, and the claim that the quote does support.
LIES = {
    "full-width digits": ("\uff13\uff14 beams", "14 beams", "\uff11\uff14 beams"),
    "Arabic digits": ("\u0663.\u0664 MPa", "1.2 MPa", "\u0661\u066b\u0662 MPa"),
    "mathematical digits": ("\U0001d7d1 beams", "7 beams", "\U0001d7d5 beams"),
    "circled digits": ("\u2462 beams", "7 beams", "\u2466 beams"),
    "a keycap": ("3\ufe0f\u20e3 beams", "7 beams", "7\ufe0f\u20e3 beams"),
    "a joiner between digits": ("1\u200d3 beams", "1 of 3 beams", "1 and 3 beams"),
    "a mark between digits": ("1\u03323 beams", "1 of 3 beams", "1 and 3 beams"),
    "raised digits": ("10\u00b2 beams", "102 beams", "102 beams"),
    "a raised power": ("10\u207b\u2076 m", "10\u2076 m", "10^6 m"),
    "a vulgar fraction": ("\u00bd of it", "1 of 2 of it", "1 of 2"),
    "a Roman numeral": ("phase \u2163", "phase 4", "phase 4"),
    "a Chinese numeral": ("\u4e09 beams", "4 beams", "4 beams"),
    "no zero before the point": ("p < .05", "5 beams, p < 0.5", "p < .5"),
    "a raised point": ("1\u00b72 MPa", "1 of 2 MPa", "1 of 2"),
    "a decimal comma": ("1,2 MPa", "1 of 2 MPa", "1 and 2"),
    "an apostrophe in thousands": ("1'200 km", "1 of 200 km", "200 km"),
    "a power of ten": ("1e6 km", "1 of 6 km", "1 and 6"),
    "a dash for a minus": ("\u20135 degrees", "5 degrees", "5 degrees"),
    "a minus in words": ("minus 5 degrees", "5 degrees", "5 degrees"),
    "a number in words": ("three beams", "two beams", "2 beams"),
    "a large number in words": ("Twenty-five beams", "twenty, then five", "20 and five"),
    "a power in words": ("3 million km", "3 thousand km", "three thousand km"),
    "a percentage": ("12% of them", "12 of them", "12 of them"),
    "no percentage": ("12 of them", "12 percent of them", "12 % of them"),
    "a range of percentages": ("10 to 12%", "10 to 12 days", "10-12 days"),
    "a range": ("3-6 days", "3-5 days", "from 3 to 5 days"),
    "a large range": ("3,000-5,000", "3-5 thousand", "3 to 5 thousand"),
    "half a number": ("200 km", "1,200 km", "1200 km"),
}


@pytest.mark.parametrize("kind", LIES)
# claim TG-C-149
def test_a_number_no_quote_holds_is_found_however_it_is_spelled(kind: str) -> None:
    lie, quote, truth = LIES[kind]
    assert differing(truth, [quote]) == [], "control"
    assert differing(lie, [quote]) != []


@pytest.mark.parametrize(
    ("claim", "quote"),
    [
        ("between 10 and 12%", "10% to 12%"),
        ("10% of it", "between 10 and 12 per cent"),
        ("25 beams", "twenty-five beams"),
        ("Three million", "3 million"),
        ("one of them", "some of them"),
        ("\u00bd of it", "nearly \u00bd"),
        ("70 m\u00b2", "70 m2"),
        ("1e3 km", "1,000 km"),
        ("0.5 MPa", ".5 MPa"),
    ],
)
def test_a_number_that_a_quote_holds_is_not_accused(claim: str, quote: str) -> None:
    assert differing(claim, [quote]) == []


@pytest.mark.parametrize(
    ("first", "label_of_first"),
    [
        (claim("Ice broke at 99 MPa.", (1, 1, 1)), NUMBER_DIFFERS),
        (claim("Ice broke at 99 MPa."), UNCHECKED),
        (claim("Ice broke at 1.2 MPa.", (1, 1, 1)), QUOTE_FOUND),  # the control
    ],
)
# claim TG-C-149
def test_a_claim_read_back_is_no_better_founded_than_it_was(
    ws: Workspace, index: Index, first: Any, label_of_first: str
) -> None:
    (packet,) = take_in(ws, paper(1, "Ice broke at 1.2 MPa."))
    before = ask(ws, index, said(first), packets=[packet])
    assert label(before) == label_of_first
    text = first.text.open_for_display()
    again = ask(ws, index, said(claim(text, (1, 1, 1))), continues=before.stored.id)
    assert again.stored.analysis.claims[0].cites[0].artifact == before.stored.id
    assert label(again) == label_of_first
    third = ask(ws, index, said(claim(text, (1, 1, 1))), continues=again.stored.id)
    assert label(third) == label_of_first


@pytest.mark.parametrize("cited", [True, False])
@pytest.mark.parametrize("retraction", ["retracted", "none"])
# claim TG-C-149
def test_what_was_retracted_stays_so_behind_an_analysis(
    ws: Workspace, index: Index, retraction: str, *, cited: bool
) -> None:
    (packet,) = take_in(ws, paper(1, "Ice is warm.", retraction=retraction))
    cites = ((1, 1, 1),) if cited else ()
    before = ask(ws, index, said(claim("Ice is warm.", *cites)), packets=[packet])
    again = ask(ws, index, said(claim("Ice is warm.", (1, 1, 1))), continues=before.stored.id)
    assert again.stored.analysis.claims[0].cites[0].artifact == before.stored.id
    control = QUOTE_FOUND if cited else UNCHECKED
    assert label(again) == (RETRACTED if retraction == "retracted" else control)
    forget(ws, index, packet, "no longer needed", soft_signer())
    later = ask(ws, index, said(claim("Ice is warm.", (1, 1, 1))), packets=[before.stored.id])
    assert label(later) == label(before), "also when nobody can look at the packet any more"


def put_result(ws: Workspace, request: str, value: str, confidentiality: str) -> str:
    ap = registry.emit(approval(request=request))
    made = tool_result(
        value,
        request=request,
        approval="ap-" + sha256_hex(ap),
        confidentiality=confidentiality,
    )
    data = registry.emit(made)
    name = f"res-{sha256_hex(data)}"
    with ws.store.locked() as journal:
        spent = Put(states.directory_of("ap", "spent"), f"ap-{sha256_hex(ap)}.md", ap)
        journal.run("finish", [spent, Put("handoff/results/accepted", f"{name}.md", data)])
    return name


@pytest.mark.parametrize("level", CONFIDENTIALITY)
# claim TG-C-150
def test_no_chain_of_answers_loses_a_source_or_its_confidentiality(
    ws: Workspace, index: Index, level: str
) -> None:
    secret, other = take_in(
        ws, paper(1, "Ice is cold.", confidentiality=level), paper(2, "Snow is white.")
    )
    answer = said(claim("Ice is cold.", (1, 1, 1)), drafts=(program("1", 1),))
    first = ask(ws, index, answer, packets=[secret])
    ((request, made),) = first.stored.drafts
    assert made.confidentiality == level
    result = put_result(ws, request, "1", level)
    second = ask(ws, index, said(claim("One.", (1, 1, 1))), continues=first.stored.id)
    third = ask(ws, index, said(), packets=[second.stored.id, other])
    chain = {secret, first.stored.id, result, second.stored.id, other}
    assert set(third.stored.analysis.derived_from) == chain
    assert third.stored.analysis.confidentiality == level
    alone = ask(ws, index, said(), packets=[other])
    assert alone.stored.analysis.confidentiality == "public", "control"
    assert alone.stored.analysis.derived_from == (other,)


@pytest.mark.parametrize("named", [True, False])
# claim TG-C-150
def test_forgetting_what_stood_between_does_not_let_a_result_feed_fetch(
    ws: Workspace, index: Index, *, named: bool
) -> None:
    """The last answer names the result, or was made when that one was forgotten already."""

    def gone(artifact_id: str) -> None:
        forget(ws, index, artifact_id, "no longer needed", soft_signer())

    (packet,) = take_in(ws, paper(1, "Ice is cold."))
    answer = said(claim("Ice is cold.", (1, 1, 1)), drafts=(program("1", 1),))
    first = ask(ws, index, answer, packets=[packet])
    result = put_result(ws, first.stored.drafts[0][0], "key 1234", "public")
    second = ask(ws, index, said(claim("1234", (1, 1, 1))), continues=first.stored.id)
    if not named:
        gone(result)
    third = ask(ws, index, said(claim("1234", (1, 1, 1))), packets=[second.stored.id])
    assert (result in third.stored.analysis.derived_from) == named
    if named:
        gone(result)
    gone(second.stored.id)
    sides = FakeAskGates(said())
    ask(ws, index, sides, packets=[third.stored.id])
    assert sides.tasks[0].may_draft == ("tool-request",)
    control = FakeAskGates(said(drafts=(wanted_source("doi:10.5555/9"),)))
    assert ask(ws, index, control, packets=[packet]).stored.drafts, "control"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Ice is warm. [1] More.", "Ice is warm. (1) More. [2]"),
        ("Ice is warm [1, 2].", "Ice is warm (1, 2). [2]"),
        ("Ice [is] warm.", "Ice [is] warm. [2]"),
    ],
)
# claim TG-C-149
def test_no_claim_passes_for_another_one_in_the_answer(
    ws: Workspace, index: Index, text: str, line: str
) -> None:
    (packet,) = take_in(ws, paper(1, "Ice is cold."))
    answer = said(claim("Ice is cold.", (1, 1, 1)), claim(text))
    made = ask(ws, index, answer, packets=[packet]).stored.analysis
    assert made.answer.open_for_display() == f"Ice is cold. [1]\n{line}"
    assert made.claim_texts[1].open_for_display() == text, "the claim itself is kept as it is"


# claim TG-C-149
def test_a_claim_of_two_lines_is_left_out_and_told(ws: Workspace, index: Index) -> None:
    (packet,) = take_in(ws, paper(1, "Ice is cold."))
    answer = said(claim("Ice is cold.", (1, 1, 1)), claim("Ice.\nIce is warm. [1]"))
    outcome = ask(ws, index, answer, packets=[packet])
    assert outcome.stored.analysis.answer.open_for_display() == "Ice is cold. [1]"
    assert outcome.notices == ("claim 2 holds characters that are not allowed in an analysis",)
