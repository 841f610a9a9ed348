"""Headlines: title, author and year before the id, and nothing in them passes for our words."""

import io
from dataclasses import replace
from typing import Any

import pytest

from tests.support.holdings import paper, put_results
from tests.support.samples import analysis, box, digest, fetch_request, packet, tool_request
from tests.support.workspaces import fetched_in, soft_signer, take_in
from threegate.artifacts.analysis import Cite, Claim
from threegate.artifacts.ids import short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.ask.text_form import plain, tell
from threegate.host.output import GUTTER, Output
from threegate.host.provenance.headlines import (
    ABSENT,
    TITLE_CHARS,
    Headline,
    Lookup,
    cautions,
    headline_of,
    own_words,
    packet_headline,
    page_of,
)
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import RETRIEVED_HERE, logged_origins
from threegate.host.workspace.places import ArtifactReader
from threegate.host.workspace.removal import forget
from threegate.host.workspace.workspace import Workspace

RP = "rp-" + "0" * 64


def headline(**changes: Any) -> Headline:
    one = packet("Ice.", **changes)
    return packet_headline(RP, one, cautions(one, RETRIEVED_HERE))


def called(**changes: Any) -> str:
    return headline(**changes).text


def look(ws: Workspace) -> Lookup:
    return own_words(ArtifactReader(ws.store), logged_origins(ws.store))


@pytest.mark.parametrize(
    ("authors", "published", "by"),
    [
        (("Ada Example", "Björn Muster"), "2024-03", " (Ada Example et al., 2024)"),
        (("Example, Ada", "Muster, Björn"), "2024", " (Example et al., 2024)"),
        (("World Ice Organization",), "2024-03-01", " (World Ice Organization, 2024)"),
        (("Ada Example",), None, " (Ada Example)"),
        ((), "2024", " (2024)"),
        ((), None, ""),
        ((", Ada",), None, " (, Ada)"),
    ],
)
def test_a_packet_is_called_by_title_first_author_and_year(
    authors: tuple[str, ...], published: str | None, by: str
) -> None:
    found = called(title=box("Ice"), authors=tuple(map(box, authors)), published=published)
    assert found == f"Ice{by}"


def test_a_packet_without_a_title_is_called_by_what_was_asked_for() -> None:
    found = called(title=box(" "), authors=(), published=None)
    assert found == "doi:10.5555/12345678"


def test_a_headline_is_one_line_and_bounded() -> None:
    found = called(title=box("a\nb \t c " + "W" * 900), authors=(box("N" * 300),))
    assert found.startswith("a b c WWW")
    assert "\n" not in found
    assert len(found) < 2 * TITLE_CHARS


@pytest.mark.parametrize(
    "said", ["RETRACTED: ", "Retracted: ", "RETRACTED ARTICLE: ", "[RETRACTED] ", "RETRACTED: " * 3]
)
# claim TG-C-452
def test_retracted_is_said_once_and_by_us(said: str) -> None:
    marked = headline(title=box(f"{said}Ice"), retraction="retracted")
    assert (marked.marks, marked.text) == (("RETRACTED",), "Ice (Ada Example et al., 2024)")
    assert marked.title == f"{said}Ice".strip(), "scripts and exports get the whole title"
    alone = headline(title=box(f"{said}Ice"), retraction="none")
    assert alone.marks == ()
    assert alone.text.startswith(said.strip()), "control: the source's word is not ours to remove"


def test_a_title_that_is_nothing_else_keeps_its_word() -> None:
    found = headline(title=box("RETRACTED:"), retraction="retracted")
    assert found.text.startswith("RETRACTED: (")


def test_requests_results_and_answers_are_called_by_what_they_are_for(ws: Workspace) -> None:
    (result,) = put_results(ws, ["out"])
    tool, fetch, answer = take_in(
        ws,
        tool_request(inputs=(), purpose=box("Mean of\nthree.")),
        fetch_request(),
        analysis(
            selection=(), claims=(), claim_texts=(), quotes=(), derived_from=(),
            question=box("How tough\nis ice?"),
        ),
    )  # fmt: skip
    read = look(ws)
    assert headline_of(tool, read).text == "Mean of three."
    assert headline_of(fetch, read).text == "Find the measured toughness."
    assert headline_of(answer, read).text == "How tough is ice?"
    found = headline_of(result, read)
    assert (found.text, found.ours) == ("The mean of three measurements.", ("ended ok",))


def test_what_is_gone_is_said_in_our_words(ws: Workspace, index: Index) -> None:
    (one,) = take_in(ws, packet("Ice."))
    assert headline_of(one, look(ws)).text, "control: it is here"
    forget(ws, index, one, "private", soft_signer())
    assert headline_of(one, look(ws)) == Headline(one, note=ABSENT)
    assert page_of(one, 1, ArtifactReader(ws.store)) is None


def on_page(number: int, **changes: Any) -> ResearchPacket:
    found = paper(1, "Sea ice broke.", **changes)
    places = tuple(replace(one, page=number) for one in found.excerpts)
    return replace(found, excerpts=places)


def shown(ws: Workspace, source: ResearchPacket) -> tuple[str, list[str], dict[str, Any]]:
    """Return the id of a source, and how an answer that quotes it is printed."""
    (packet_id,) = fetched_in(ws, source)
    cite = Cite(packet_id, 1, 0, 7, digest("Sea ice"))
    answer = analysis(
        claims=(Claim("quote found", (cite,)),),
        claim_texts=(box("Ice broke."),),
        quotes=(box("Sea ice"),),
    )
    out = io.StringIO()
    tell(Output(out, io.StringIO(), io.StringIO()), "an-1", answer, look(ws), ((),))
    cites = plain("an-1", answer, look(ws), ((),))["claims"][0]["cites"]
    return packet_id, out.getvalue().split("\n"), cites[0]


# claim TG-C-450
def test_an_answer_names_its_sources_by_title_author_year_and_page(ws: Workspace) -> None:
    packet_id, lines, cite = shown(ws, on_page(7, title="On sea ice"))
    at = lines.index("  in")
    assert lines[at + 1] == f"{GUTTER}On sea ice (Ada Example et al., 2024)"
    assert lines[at + 2] == f"  page 7, text 1 from character 0, {short(packet_id)}"
    assert (cite["source"], cite["page"]) == ("On sea ice (Ada Example et al., 2024)", 7)


HOSTILE = (
    "rp-0123456789ab",
    "  page 1, text 1 from character 0, rp-0123456789ab",
    "Claim 2: quote found, word for word",
    "RETRACTED, TEST SOURCE",
    "x" + " " * 300 + "page 9, text 1 from character 0, rp-0123456789ab",
    "Ice) " * 60 + "page 9, text 1 from character 0, rp-0123456789ab",
    "\u05d0\u05d1\u05d2 rp-0123456789ab \u05d3",
)


@pytest.mark.parametrize("title", HOSTILE)
# claim TG-C-451
def test_a_title_that_plays_an_id_a_label_or_a_mark_stays_behind_the_gutter(
    ws: Workspace, title: str
) -> None:
    packet_id, lines, _ = shown(ws, on_page(7, title="An ordinary title"))
    assert any("An ordinary title" in line for line in lines), "control: titles are printed"
    ours = [line for line in lines if not line.startswith(GUTTER)]
    other_id, lines, _ = shown(ws, on_page(7, title=title))
    assert any(title.split(maxsplit=1)[0] in line for line in lines if line.startswith(GUTTER)), (
        "control"
    )
    same = [line.replace(short(other_id), short(packet_id)) for line in lines]
    found = [line for line in same if not line.startswith(GUTTER)]
    assert found == ours, "no line of ours is added, changed or missing"
