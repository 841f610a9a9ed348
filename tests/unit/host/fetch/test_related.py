"""Which identifiers of a work sources are asked by, and what is fetched first to know one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.holdings import found_by_search, paper
from tests.support.samples import box
from tests.support.workspaces import make_workspace
from threegate.artifacts import registry
from threegate.artifacts.references import RELATIONS, parse_reference
from threegate.artifacts.research_packet import Identifier, ResearchPacket
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit
from threegate.host.fetch.candidates import (
    candidate_document,
    candidates,
    chosen,
    listed,
    packets_here,
    read_numbers,
)
from threegate.host.fetch.related import KnownWork, known_work, lookup_target, related_target
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

DOI = parse_reference("doi:10.5555/tg.7")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def index(ws: Workspace) -> Iterator[Index]:
    found = Index(ws.store, ws.seals)
    yield found
    found.close()


def put(ws: Workspace, index: Index, packet: ResearchPacket) -> str:
    """Admit a packet; return its id."""
    (told,) = admit(ws.store, [Untrusted(registry.emit(packet))], now=ws.now)
    assert told.id is not None, told
    index.catch_up(None)
    return told.id


def names(*texts: str) -> tuple[Identifier, ...]:
    spelled = (text.split(":", 1) for text in sorted(texts))
    return tuple(Identifier(scheme, box(value)) for scheme, value in spelled)


def spelled(work: KnownWork) -> list[str]:
    return [name.text for name in work.names]


def test_a_packet_adds_the_identifiers_that_a_reference_lacks(ws: Workspace, index: Index) -> None:
    before = known_work(ws.store, index, DOI.text)
    assert spelled(before) == ["doi:10.5555/tg.7"], "control"
    packet = paper(7, "x", identifiers=names("doi:10.5555/tg.7", "openalex:W7", "pmid:31452104"))
    packet_id = put(ws, index, packet)
    whole = ["doi:10.5555/tg.7", "pmid:31452104", "openalex:W7"]
    assert spelled(known_work(ws.store, index, DOI.text)) == whole
    assert spelled(known_work(ws.store, index, packet_id)) == whole
    assert spelled(known_work(ws.store, index, packet_id[:15])) == whole


def test_a_page_that_names_a_work_lends_it_no_identifier(ws: Workspace, index: Index) -> None:
    page: dict[str, Any] = {"source": "url", "reference": box("https://example.org/a")}
    false = names("doi:10.5555/tg.7", "openalex:W666")
    put(ws, index, paper(7, "x", identifiers=false, **page))
    assert spelled(known_work(ws.store, index, DOI.text)) == ["doi:10.5555/tg.7"]
    put(ws, index, paper(7, "y", identifiers=names("doi:10.5555/tg.7", "openalex:W7")))
    assert "openalex:W7" in spelled(known_work(ws.store, index, DOI.text)), "control"


def test_a_list_is_as_confidential_as_the_packet_that_was_named(
    ws: Workspace, index: Index
) -> None:
    secret = put(ws, index, paper(7, "x", confidentiality="confidential"))
    sources = RELATIONS["references"]
    for text, level in ((secret, "confidential"), (DOI.text, "internal")):
        work = known_work(ws.store, index, text)
        made = related_target(
            "references", work, ws.bundle, sources=sources, rows=5, confidentiality="internal"
        )
        assert made.confidentiality == level


def test_what_is_no_work_has_no_list(ws: Workspace, index: Index) -> None:
    search = put(ws, index, found_by_search("title: t"))
    nameless = put(ws, index, paper(7, "x", identifiers=(), reference=box("https://example.org/")))
    for text, why in (
        (search, "lists candidates"),
        (nameless, "names no identifier"),
        ("https://example.org/", "not pages"),
        ("10.5555", "not a DOI"),
        ("tr-" + "0" * 64, "no artifact"),
    ):
        with pytest.raises(UsageError, match=why):
            known_work(ws.store, index, text)


def test_the_work_is_fetched_first_only_where_openalex_needs_it(ws: Workspace) -> None:
    def first(work: KnownWork, *sources: str) -> bool:
        found = lookup_target(work, ws.bundle, sources=sources, confidentiality="public")
        return found is not None

    only = KnownWork(DOI, (DOI,))
    assert first(only, "crossref", "openalex")
    assert not first(only, "crossref", "semanticscholar")
    assert not first(KnownWork(DOI, (DOI, parse_reference("openalex:W7"))), "openalex")
    preprint = parse_reference("arxiv:1706.03762")
    assert not first(KnownWork(preprint, (preprint,)), "openalex")


def test_a_source_without_a_usable_identifier_is_a_clear_error(ws: Workspace) -> None:
    with pytest.raises(UsageError, match="openalex: cannot be asked by doi") as caught:
        related_target(
            "cited-by",
            KnownWork(DOI, (DOI,)),
            ws.bundle,
            sources=("openalex",),
            rows=5,
            confidentiality="public",
        )
    assert "`threegate fetch doi:10.5555/tg.7`" in caught.value.hint


# -- what is here, and what was chosen --

LIST = found_by_search(
    "title: One\nauthors: A; B; C; and 4 more\npublished: 2024\ndoi:10.5555/TG.1",
    "title: Two\npmid:31452104\ndoi:10.5555/tg.2",
    "title: Nameless",
)


def test_works_that_are_here_are_marked_by_any_of_their_identifiers(
    ws: Workspace, index: Index
) -> None:
    here = packets_here(index)
    assert not any("already here" in line for line in listed(LIST, here)), "control"
    one = put(ws, index, paper(1, "x"))
    other: dict[str, Any] = {
        "reference": box("pmid:31452104"),
        "identifiers": names("pmid:31452104"),
    }
    second = put(ws, index, paper(9, "x", retraction="retracted", **other))
    assert list(listed(LIST, here)) == [
        f"1. doi:10.5555/tg.1 (already here {one[:15]})  One (A et al., 2024)",
        f"2. doi:10.5555/tg.2 (already here {second[:15]}, which says RETRACTED)  Two",
        "3. no reference  Nameless",
    ]
    told = [candidate_document(entry, here) for entry in candidates(LIST)]
    assert [(item["number"], item["here"]) for item in told] == [(1, one), (2, second), (3, None)]
    assert told[0]["authors"] == "A; B; C; and 4 more"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", (1,)), ("1,3-5", (1, 3, 4, 5)), (" 2 , 2-3", (2, 3)), ("256", (256,))],
)
def test_numbers_of_a_list(text: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1-", "3-2", "1,,2", "257", "1-9999", "١", "1 2", "all", "1e2"]
)
def test_what_is_no_number_of_a_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a choice from a list"):
        read_numbers(text)


def test_only_entries_with_an_identifier_can_be_chosen() -> None:
    entries = list(candidates(LIST))
    assert [one.text for one in chosen(entries, (2, 1, 2))] == [
        "doi:10.5555/tg.2",
        "doi:10.5555/tg.1",
    ]
    with pytest.raises(UsageError, match="number 3 has no identifier"):
        chosen(entries, (1, 3))
    with pytest.raises(UsageError, match="no number 4; its last is 3"):
        chosen(entries, (4,))
