"""An answer in the words of the sources: cited, labelled, derived from all that was read."""

import pytest

from tests.support.holdings import paper, shelf
from tests.support.samples import analysis, box, fetch_request
from tests.support.workspaces import take_in
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts
from threegate.host.ask.storage import NOTHING_FOUND, StoredAnalysis
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

QUESTION = "At which pressure did sea ice break?"


def ask(ws: Workspace, index: Index, question: str = QUESTION, **wish: object) -> StoredAnalysis:
    index.catch_up()
    return answer_by_extracts(ws, index, TypedQuestion(question, **wish)).stored  # type: ignore[arg-type]


def quotes_of(stored: Analysis) -> list[str]:
    return [quote.open_for_display() for quote in stored.quotes]


def test_the_answer_is_sentences_of_the_sources_word_for_word(ws: Workspace, index: Index) -> None:
    ice, *_ = take_in(ws, *shelf())
    stored = ask(ws, index)
    made = ws.store.read(stored.id)
    assert made == stored.analysis
    assert isinstance(made, Analysis)
    assert (made.method, made.model) == ("extractive", None)
    assert quotes_of(made)[0] == "Sea ice at -5 \u00b0C broke at 1.2 MPa."
    assert made.answer.open_for_display().startswith("Sea ice at -5 \u00b0C broke at 1.2 MPa. [1]")
    assert {claim.label for claim in made.claims} == {"quote found"}
    assert made.claims[0].cites[0].artifact == ice


# claim TG-C-78
def test_every_quote_stands_where_it_says(ws: Workspace, index: Index) -> None:
    take_in(ws, *shelf())
    made = ask(ws, index, "ice snow tern density km").analysis
    cites = [cite for claim in made.claims for cite in claim.cites]
    assert len(cites) >= 3
    for cite, quote in zip(cites, quotes_of(made), strict=True):
        source = ws.store.read(cite.artifact)
        assert isinstance(source, ResearchPacket)
        text = source.texts[cite.excerpt - 1].open_for_display()
        assert text[cite.offset : cite.offset + cite.length] == quote


def test_the_same_question_selects_and_says_the_same(ws: Workspace, index: Index) -> None:
    take_in(ws, *shelf())
    first, second = ask(ws, index).analysis, ask(ws, index).analysis
    assert (first.answer, first.notes, first.claims) == (second.answer, second.notes, second.claims)
    assert first.nonce != second.nonce


def test_a_retracted_source_is_said_to_be_one(ws: Workspace, index: Index) -> None:
    take_in(ws, paper(1, "Sea ice broke at 9.9 MPa.", retraction="retracted"))
    made = ask(ws, index).analysis
    assert [claim.label for claim in made.claims] == ["source retracted"]


def test_a_retraction_that_came_later_counts_for_the_older_packet(
    ws: Workspace, index: Index
) -> None:
    old, _ = take_in(
        ws,
        paper(1, "Sea ice broke at 9.9 MPa."),
        paper(2, "Sea ice was seen from a ship that passed by."),
    )
    control = ask(ws, index, packets=[old]).analysis
    assert [claim.label for claim in control.claims] == ["quote found"]
    take_in(ws, paper(1, "Another text.", retraction="retracted"))
    made = ask(ws, index, packets=[old]).analysis
    assert [claim.label for claim in made.claims] == ["source retracted"]


# claim TG-C-77
def test_it_is_derived_from_everything_that_could_be_read(ws: Workspace, index: Index) -> None:
    secret, asked = take_in(
        ws,
        paper(1, "A plan nobody may see.", confidentiality="confidential"),
        fetch_request(confidentiality="confidential"),
    )
    (earlier,) = take_in(
        ws,
        analysis(
            selection=(secret,),
            derived_from=(secret,),
            confidentiality="confidential",
            claims=(),
            claim_texts=(),
            quotes=(),
        ),
    )
    request = fetch_request(
        origin="core",
        integrity="external",
        confidentiality="confidential",
        derived_from=(earlier, secret),
    )
    (drafted,) = take_in(ws, request)
    (packet,) = take_in(
        ws, paper(2, "Sea ice broke.", request=drafted, confidentiality="confidential")
    )
    made = ask(ws, index, packets=[packet]).analysis
    assert made.selection == (packet,)
    assert made.derived_from == tuple(sorted((packet, secret, earlier)))
    assert made.confidentiality == "confidential"
    assert asked.startswith("fr-")


def test_what_holds_no_word_of_the_question_says_so(ws: Workspace, index: Index) -> None:
    _, snow, _ = take_in(ws, *shelf())
    made = ask(ws, index, "Zebras?", packets=[snow]).analysis
    assert (made.claims, made.answer.open_for_display()) == ((), NOTHING_FOUND)


def test_the_selection_is_recorded(ws: Workspace, index: Index) -> None:
    ice, snow, _ = take_in(ws, *shelf())
    note = ask(ws, index, "density of snow", packets=[ice, snow]).analysis.notes[0]
    lines = note.open_for_display().split("\n")
    assert lines[0] == "Selected by words, best first; texts by number (and characters)."
    assert lines[1:] == [f"{snow}: 1", f"{ice}: 1, 2", "Looked at and left out: 0 passages."]


@pytest.mark.parametrize(
    ("wish", "error", "words"),
    [
        ({"question": "Zebras?"}, UsageError, "no source here matches"),
        ({"question": " "}, UsageError, "empty"),
        ({"question": "x" * 4001}, UsageError, "longer than 4000"),
        ({"question": "a\u202eb"}, ThreeGateError, "bidi"),
        ({"question": "a\udcffb"}, ThreeGateError, "not UTF-8"),
        ({"packets": ["rp-000000000000"]}, UsageError, "no artifact"),
        ({"packets": ["x"]}, UsageError, "not an artifact id"),
        ({"packets": ["rp-000000000000"], "query": "ice"}, UsageError, "both"),
        ({"query": "zebra"}, UsageError, "no source here matches"),
        ({"role": "king"}, UsageError, "no role"),
        ({"continues": "an-000000000000"}, UsageError, "no artifact"),
    ],
)
def test_a_question_that_cannot_be_asked(
    ws: Workspace, index: Index, wish: dict[str, object], error: type[Exception], words: str
) -> None:
    take_in(ws, *shelf())
    before = ws.store.journal.log.head.seq
    with pytest.raises(error, match=words):
        ask(ws, index, **wish)  # type: ignore[arg-type]
    assert ws.store.journal.log.head.seq == before, "nothing was stored"
    assert ask(ws, index).id, "control: this one can"


def test_more_packets_than_policy_allows_are_not_named(ws: Workspace, index: Index) -> None:
    found = take_in(ws, *(paper(n, f"Sea ice of kind {n} broke.") for n in range(65)))
    assert ask(ws, index, packets=found[:64]).analysis.claims
    with pytest.raises(PolicyDenied, match="allows 64"):
        ask(ws, index, packets=found)


def test_a_request_is_nothing_to_read(ws: Workspace, index: Index) -> None:
    (request,) = take_in(ws, fetch_request())
    with pytest.raises(UsageError, match="not readable for CORE"):
        ask(ws, index, packets=[request])


def test_an_earlier_analysis_is_read_back_with_its_sources(ws: Workspace, index: Index) -> None:
    take_in(ws, *shelf())
    first = ask(ws, index)
    second = ask(ws, index, "What about fresh ice?", continues=first.id)
    assert second.analysis.continues == first.id
    assert first.id in second.analysis.selection
    assert set(first.analysis.derived_from) < set(second.analysis.derived_from)
    assert "Fresh ice of the same age broke at 2.4 MPa." in quotes_of(second.analysis)


def test_a_source_that_repeats_itself_is_quoted_once(ws: Workspace, index: Index) -> None:
    take_in(ws, *(paper(n, "Sea ice broke at 1.2 MPa here.") for n in range(5)))
    assert len(ask(ws, index).analysis.claims) == 1


def test_title_words_count(ws: Workspace, index: Index) -> None:
    _, found = take_in(
        ws,
        paper(1, "It was measured at noon.", title="Stars"),
        paper(2, "It was measured at noon, too.", title="Sea ice"),
    )
    made = ask(ws, index, "What was measured of sea ice?").analysis
    assert made.claims[0].cites[0].artifact == found
    assert box("") not in made.claim_texts


def test_a_list_of_what_a_search_found_is_no_source_unless_it_is_named(
    ws: Workspace, index: Index
) -> None:
    found = paper(4, "Sea ice broke at 9.9 MPa.", reference=box("search:crossref:ice"))
    (listed,) = take_in(ws, found)
    with pytest.raises(UsageError, match="no source here matches that question"):
        ask(ws, index)
    named = ask(ws, index, packets=(listed,)).analysis
    assert quotes_of(named) == ["Sea ice broke at 9.9 MPa."], "control: it could be quoted"
