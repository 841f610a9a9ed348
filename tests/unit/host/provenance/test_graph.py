"""Provenance: both directions, what is gone, and a bound on how much is drawn."""

import pytest

from tests.support.holdings import paper
from tests.support.samples import analysis, packet
from tests.support.workspaces import fetched_in, soft_signer
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.host.provenance import graph
from threegate.host.provenance.graph import Graph, as_dot, as_svg, as_text, provenance
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.workspace import Workspace


def drawn(ws: Workspace, artifact_id: str) -> Graph:
    index = Index(ws.store, ws.seals)
    try:
        index.catch_up()
        return provenance(ws.store, index, artifact_id)
    finally:
        index.close()


def source(number: int) -> ResearchPacket:
    return packet(f"Source {number}.")


def made_of(*ids: str, question: str = "Why?") -> Analysis:
    parents = tuple(sorted(ids))
    return analysis(
        selection=parents, derived_from=parents, claims=(), claim_texts=(), quotes=(),
        question=packet(question).texts[0],
    )  # fmt: skip


def family(ws: Workspace) -> tuple[str, str, str, str]:
    """Return two sources, what was made from both, and what was made from that."""
    first, second = fetched_in(ws, source(1), source(2))
    (middle,) = fetched_in(ws, made_of(first, second))
    (last,) = fetched_in(ws, made_of(middle, question="And then?"))
    return first, second, middle, last


def test_everything_before_and_after_is_in_it(ws: Workspace) -> None:
    first, second, middle, last = family(ws)
    (apart,) = fetched_in(ws, source(3))
    found = drawn(ws, middle)
    assert set(found.nodes) == {first, second, middle, last}
    assert found.edges == {(first, middle), (second, middle), (middle, last)}
    assert not found.cut
    assert set(drawn(ws, apart).nodes) == {apart}


def test_seen_from_a_source_the_other_source_is_no_relative(ws: Workspace) -> None:
    first, _, middle, last = family(ws)
    found = drawn(ws, first)
    assert set(found.nodes) == {first, middle, last}


def test_nodes_tell_where_things_came_from_and_under_which_policy(ws: Workspace) -> None:
    first, _, middle, _ = family(ws)
    nodes = drawn(ws, middle).nodes
    assert nodes[first].facts[0] == "from https://api.crossref.org/works/10.5555/12345678"
    assert nodes[middle].facts[0].startswith("policy ")
    assert nodes[middle].title == "Why?"


def test_a_test_source_and_a_retraction_are_marked_in_every_picture(ws: Workspace) -> None:
    hard = paper(9, "Source 1.", retraction="retracted", trust_anchor="ab" * 32)
    (first,) = fetched_in(ws, hard)
    (plain,) = fetched_in(ws, source(2))
    (made,) = fetched_in(ws, made_of(first, plain))
    found = drawn(ws, made)
    assert found.nodes[first].facts[:2] == ("RETRACTED", "TEST SOURCE")
    assert found.nodes[plain].facts[0].startswith("from "), "control"
    for draw in (as_text, as_dot, as_svg):
        assert draw(found).count("TEST SOURCE") == 1
        assert draw(found).count("RETRACTED") == 1


def test_what_was_withdrawn_or_forgotten_is_named_with_its_fate(ws: Workspace) -> None:
    first, second, middle, last = family(ws)
    index = Index(ws.store, ws.seals)
    withdraw(ws, index, middle, "wrong")
    forget(ws, index, second, "private", soft_signer())
    index.close()
    states = {key: node.state for key, node in drawn(ws, last).nodes.items()}
    assert states == {
        first: "accepted",
        second: "forgotten",
        middle: "quarantine",
        last: "quarantine",
    }


def test_an_id_that_was_never_here_is_a_usage_error(ws: Workspace) -> None:
    with pytest.raises(UsageError, match="no artifact"):
        drawn(ws, "rp-" + "0" * 64)


def test_a_crowd_is_cut_and_said_to_be(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fetched_in(ws, *(source(number) for number in range(8)))
    (made,) = fetched_in(ws, made_of(*ids))
    assert not drawn(ws, made).cut, "control"
    monkeypatch.setattr(graph, "MAX_NODES", 4)
    found = drawn(ws, made)
    assert found.cut
    assert len(found.nodes) == 4


def test_the_document_has_ids_states_and_edges(ws: Workspace) -> None:
    first, second, middle, _ = family(ws)
    document = drawn(ws, middle).document()
    assert document["root"] == middle
    assert {"from": first, "to": middle} in document["edges"]
    assert second in [node["id"] for node in document["nodes"]]
