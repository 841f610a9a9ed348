"""What a report says of an analysis: no more than is found in the workspace when it is made."""

from dataclasses import replace
from typing import Any

from tests.support import samples
from tests.support.core_doubles import FakeAskGates, claim, said
from tests.support.holdings import ICE, paper, shelf
from tests.support.requests import approve_for, request_for
from tests.support.samples import box, digest
from tests.support.workspaces import fetched_in, public_of, soft_signer
from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis, Cite, Claim, ModelUsed
from threegate.artifacts.ids import short
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts, answer_by_model
from threegate.host.ask.storage import NEAREST, NOTHING_CLAIMED
from threegate.host.provenance.headlines import brought, lookup, retractions
from threegate.host.report import approvals
from threegate.host.report.collection import gather
from threegate.host.report.facts import Card, ReportFacts
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown
from threegate.host.report.sources import (
    FORGOTTEN,
    FOUND,
    GONE,
    NOT_FOUND,
    WITHDRAWN,
    card_of,
)
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import ArtifactReader
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE

QUESTION = "At which pressure did sea ice break?"


def report_on(ws: Workspace, index: Index, analysis_id: str) -> ReportFacts:
    index.catch_up()
    return gather(ws, index, analysis_id)


def asked(ws: Workspace, index: Index, **wish: Any) -> str:
    index.catch_up()
    return answer_by_extracts(ws, index, TypedQuestion(QUESTION, **wish)).stored.id


def saying(packet: str, *claims: tuple[str, str, str, int]) -> Analysis:
    """Return an analysis with claims (text, label, quote, offset) about the first excerpt."""
    cites = [Cite(packet, 1, at, len(quote), digest(quote)) for _, _, quote, at in claims]
    return samples.analysis(
        selection=(packet,),
        derived_from=(packet,),
        claims=tuple(
            Claim(label, (cite,)) for (_, label, _, _), cite in zip(claims, cites, strict=True)
        ),
        claim_texts=tuple(box(text) for text, _, _, _ in claims),
        quotes=tuple(box(quote) for _, _, quote, _ in claims),
    )


def facts_of(card: Card) -> dict[str, str]:
    return {fact.name: fact.text for fact in (*card.facts, *card.digests)}


def test_an_answer_of_this_workspace_is_reported_as_it_is(ws: Workspace, index: Index) -> None:
    ice, *_ = fetched_in(ws, *shelf())
    report = report_on(ws, index, asked(ws, index))
    assert dict(report.counts) == {
        "quote found": len(report.claims),
        "number differs": 0,
        "unchecked": 0,
        "source retracted": 0,
    }
    assert report.loud == ()
    assert report.answer is None, "it is its claims"
    assert {quote.standing for claim in report.claims for quote in claim.quotes} == {FOUND}
    assert report.claims[0].sources == (1,)
    assert report.sources[0].id == ice
    said = facts_of(report.sources[0])
    headline = report.sources[0].headline
    assert headline.text == "On the strength of sea ice (Ada Example et al., 2024)"
    assert said["authors"] == "Ada Example; Bj\u00f6rn Muster"
    assert (said["DOI"], said["published"]) == ("10.5555/tg.1", "2024-03")
    assert said["raw bytes"] == f"3, sha256 {digest('raw')}"
    assert "by `ask`" in {fact.name: fact.text for fact in report.made}["stored"]
    assert report_on(ws, index, report.id) == report, "no clock, no chance"


def test_counts_are_of_the_claims_and_not_of_the_sentences_beside_them(
    ws: Workspace, index: Index
) -> None:
    fetched_in(ws, *shelf())
    index.catch_up()
    for claims in ((claim("Sea ice broke at 1.2 MPa.", (1, 1, 1)),), ()):
        sides = FakeAskGates(said(*claims))
        outcome = answer_by_model(ws, index, TypedQuestion(QUESTION), sides)
        report = report_on(ws, index, outcome.stored.id)
        assert [one.beside for one in report.claims] == [
            *([False] * len(claims)),
            *([True] * outcome.beside),
        ]
        assert outcome.beside > 0
        assert {one.label for one in report.claims} == {"quote found"}, "control: all have labels"
        assert sum(number for _, number in report.counts) == len(claims)
        assert report.answer is None, "it is its claims and what stands beside them"
        text = as_markdown(lay_out(report)).decode()
        assert f"- {len(claims)} quote found: " in text
        assert f"Not counted: {outcome.beside} nearest sentence" in text
        assert (NOTHING_CLAIMED in text) == (not claims)
        first, heading = f"### Sentence {len(claims) + 1}: quote found, word for word", NEAREST
        assert text.index(heading) < text.index(first)
        assert text.count("### Claim ") == len(claims)


# claim TG-C-156
def test_a_label_is_never_more_than_what_is_found_now(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(ws, paper(1, *ICE))
    found = "Sea ice at -5 \u00b0C broke at 1.2 MPa."
    analysis = saying(
        packet,
        ("Sea ice broke at 1.2 MPa.", "quote found", found, 0),
        ("Sea ice broke at 1.2 MPa.", "quote found", found, 1),
        ("Sea ice broke at 1.2 MPa.", "quote found", "Sea ice breaks at 1.2 MPa.", 0),
        ("Sea ice broke at 7.7 MPa.", "quote found", found, 0),
        ("Sea ice broke at 1.2 MPa.", "unchecked", found, 0),
    )
    (stored,) = fetched_in(ws, analysis)
    report = report_on(ws, index, stored)
    assert [claim.label for claim in report.claims] == [
        "quote found",  # control
        "unchecked",
        "unchecked",
        "number differs",
        "unchecked",  # the analysis itself says no more
    ]
    standings = [claim.quotes[0].standing for claim in report.claims]
    assert standings == [FOUND, NOT_FOUND, NOT_FOUND, FOUND, FOUND]
    assert any("LABELS LOWERED" in text and "2, 3, 4" in text for text in report.loud)
    assert any("QUOTES NOT FOUND AGAIN: 2 quotes" in text for text in report.loud)
    assert dict(report.counts)["quote found"] == 1


def test_a_text_that_the_source_does_not_have_is_not_found(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(ws, paper(1, "Only one text."))
    for excerpt in (0, 2):
        cite = Cite(packet, excerpt, 0, 4, digest("Only"))
        base = saying(packet, ("Only.", "quote found", "Only", 0))
        (stored,) = fetched_in(ws, replace(base, claims=(Claim("quote found", (cite,)),)))
        assert report_on(ws, index, stored).claims[0].quotes[0].standing == NOT_FOUND


def test_what_became_of_a_source_later_is_said_loud(ws: Workspace, index: Index) -> None:
    old, gone, *_ = fetched_in(
        ws,
        paper(1, "Sea ice broke at 9.9 MPa."),
        paper(2, "Sea ice did break at a pressure of 2 MPa."),
    )
    stored = asked(ws, index, packets=[old, gone])
    assert report_on(ws, index, stored).loud == (), "control"
    (notice,) = fetched_in(ws, paper(1, "Another text.", retraction="retracted"))
    report = report_on(ws, index, stored)
    first = next(card for card in report.sources if card.id == old)
    said = f"RETRACTED: according to {short(notice)}, another packet of this work"
    assert first.loud == (said,)
    labels = {claim.quotes[0].artifact: claim.label for claim in report.claims}
    assert labels == {old: "source retracted", gone: "quote found"}


def test_a_forgotten_source_leaves_its_quotes_unchecked(ws: Workspace, index: Index) -> None:
    kept, gone = fetched_in(
        ws,
        paper(1, "Sea ice broke at 9.9 MPa."),
        paper(2, "Sea ice did break at a pressure of 2 MPa."),
    )
    stored = asked(ws, index, packets=[kept, gone])
    index.catch_up()
    forget(ws, index, gone, "asked to", soft_signer())
    report = report_on(ws, index, stored)
    labels = {claim.quotes[0].artifact: claim.label for claim in report.claims}
    assert labels == {kept: "quote found", gone: "unchecked"}
    standings = {one.standing for claim in report.claims for one in claim.quotes}
    assert standings == {FOUND, GONE}
    assert any(FORGOTTEN in text for text in report.loud)


def test_marks_of_a_source_are_loud(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(
        ws,
        paper(1, "Sea ice broke at 1 MPa.", retraction="retracted", trust_anchor=digest("ca")),
    )
    report = report_on(ws, index, asked(ws, index, packets=[packet]))
    assert [text.partition(":")[0] for text in report.sources[0].loud] == [
        "RETRACTED",
        "TEST SOURCE",
    ]
    assert len(report.loud) == 2, "and again at the top"


def test_what_holds_for_several_sources_is_said_once(ws: Workspace, index: Index) -> None:
    packets = fetched_in(
        ws,
        paper(1, "Old sea ice of the bay broke at 2 MPa.", trust_anchor=digest("ca")),
        paper(2, "Wet sea ice from a lagoon broke at 1 MPa.", trust_anchor=digest("ca")),
        paper(3, "Sea ice that was thin and clear broke at 3 MPa.", retraction="retracted"),
    )
    report = report_on(ws, index, asked(ws, index, packets=packets))
    retracted = next(n for n, card in enumerate(report.sources, 1) if card.id == packets[2])
    both = ", ".join(str(n) for n in (1, 2, 3) if n != retracted)
    assert sorted(text.partition(":")[0] for text in report.loud) == [
        f"source {retracted} ({packets[2][:15]})",
        f"sources {both}",
    ]


def test_what_was_brought_from_elsewhere_is_said(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(ws, paper(1, *ICE))
    base = saying(packet, ("Ice.", "quote found", "Sea ice", 0))
    model = ModelUsed("made-up", None, "remote:llm.example.org")
    (stored,) = fetched_in(ws, replace(base, model=model, answer=box("Something else.")))
    report = report_on(ws, index, stored)
    assert any("BROUGHT FROM ELSEWHERE" in text for text in report.loud)
    assert "SENT AWAY: the question and the sources went to llm.example.org" in report.loud
    assert report.answer == "Something else.", "words no label speaks of"
    said = {fact.name: fact.text for fact in report.made}
    assert said["it ran"].startswith("on llm.example.org: the question")
    assert said["so says"].startswith("the analysis itself")


def permitted(ws: Workspace, **changes: Any) -> tuple[str, str]:
    """Store an analysis of a tool result; return its id and that of the approval."""
    request = request_for(ws, "1.2 + 1.2")
    (request_id,) = fetched_in(ws, request)
    approval = approve_for(ws, request, **changes)
    result = samples.tool_result("2.4", request=request_id, approval=approval)
    (result_id,) = fetched_in(ws, result)
    cite = Cite(result_id, 1, 0, 3, digest("2.4"))
    analysis = samples.analysis(
        selection=(result_id,),
        derived_from=(result_id,),
        confidentiality="internal",
        claims=(Claim("quote found", (cite,)),),
        claim_texts=(box("It is 2.4."),),
        quotes=(box("2.4"),),
    )
    return fetched_in(ws, analysis)[0], approval


# claim TG-C-158
def test_every_approval_behind_a_result_is_shown_and_checked(ws: Workspace, index: Index) -> None:
    stored, approval = permitted(ws)
    report = report_on(ws, index, stored)
    assert report.claims[0].label == "quote found", "a result can be quoted"
    (card,) = report.approvals
    said = facts_of(card)
    assert card.id == approval
    assert card.loud == (approvals.NOT_USED,), "the result was brought in: nothing ran here"
    assert said["approver"] == "operator"
    assert said["key"] == public_of().fingerprint
    assert said["policy"] == f"sha256 {ws.bundle.digest}"
    assert said["signature"] == "checked again for this report: good"
    assert said["rules of tool-exec"] == f"sha256 {ws.bundle.section_digest('tool-exec')}"
    assert said["code"].startswith(f"sha256 {digest('1.2 + 1.2')}")
    assert "log entry" in said["approved"]
    commands = [check.command for check in report.checks]
    assert f"threegate review export {approval[:15]} DIRECTORY" in commands
    assert any(command.startswith("threegate replay res-") for command in commands)
    # Somebody else's signature in its place is seen.
    place = ws.store.locate(approval)
    file = ws.root / str(place) / f"{approval}.sig"
    data = registry.emit(ws.store.read(approval))
    file.write_bytes(soft_signer("stranger").sign(data, NAMESPACE))
    (card,) = report_on(ws, index, stored).approvals
    assert any("is not an allowed signer" in text for text in card.loud)
    assert "signature" not in facts_of(card)
    file.write_bytes(soft_signer().sign(b"other bytes", NAMESPACE))
    (card,) = report_on(ws, index, stored).approvals
    assert any("does not fit these bytes" in text for text in card.loud)
    # So is a name that the key does not belong to.
    stored, _ = permitted(ws, approver="somebody")
    (card,) = report_on(ws, index, stored).approvals
    assert any("the key belongs to somebody else" in text for text in card.loud)
    assert "signature" not in facts_of(card)


def test_a_withdrawn_source_is_marked(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(ws, paper(1, *ICE))
    base = saying(packet, ("Ice.", "quote found", "Sea ice", 0))
    (stored,) = fetched_in(ws, base)
    index.catch_up()
    withdraw(ws, index, packet, "wrong")
    look, is_brought = lookup(ArtifactReader(ws.store), index), brought(ws.store, index.origin)
    card = card_of(ws.store, look, packet, retractions(ws.store, index), is_brought)
    assert WITHDRAWN in card.loud
    assert ws.store.locate(stored) is None, "control: what was made from it went with it"


def test_what_came_of_it_keeps_its_secrets(ws: Workspace, index: Index) -> None:
    (packet,) = fetched_in(ws, paper(1, *ICE))
    (stored,) = fetched_in(ws, saying(packet, ("Ice.", "quote found", "Sea ice", 0)))
    made_from = {"derived_from": (stored, packet), "origin": "core", "integrity": "external"}
    secret, known = fetched_in(
        ws,
        samples.tool_request(
            purpose=box("A secret plan."), confidentiality="confidential", inputs=(), **made_from
        ),
        samples.tool_request(
            purpose=box("A known plan."), confidentiality="public", inputs=(), **made_from
        ),
    )
    nodes = report_on(ws, index, stored).trace.nodes
    assert nodes[known].title == "A known plan.", "control"
    assert (nodes[secret].title, nodes[secret].facts) == ("", ("more private than this report",))
