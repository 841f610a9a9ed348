"""The picture of a report: from packets to claims to the answer, and on to what came of it.

The answer names everything it could read, so most lines would be said twice: a line is drawn
only where no longer way leads to the same place.

SECURITY
    Titles and claims are foreign.  They are spelled out here, as everywhere in a report; the
    picture cuts and escapes them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from threegate.artifacts.ids import prefix_of
from threegate.host.output import counted
from threegate.host.provenance.graph import Graph, Node
from threegate.host.report.facts import Claim
from threegate.host.review.characters import on_one_line

MOST_CLAIMS: Final = 24
MOST_PACKETS: Final = 24
MOST_OTHERS: Final = 40  # requests, approvals, results, earlier answers
CLAIM: Final = "claim"
BESIDE: Final = "nearest sentence"
MORE_PRIVATE: Final = "more private than this report"

Edge = tuple[str, str]


def trace(whole: Graph, claims: Sequence[Claim], nameless: Sequence[str] = ()) -> Graph:
    """Return the graph of an answer with its claims in it, small enough to look at.

    Of what is `nameless` only id and kind are shown.
    """
    drawn = claims[:MOST_CLAIMS]
    cited = list(dict.fromkeys(one.artifact for claim in claims for one in claim.quotes))
    kept = _kept(whole, cited)
    nodes = {key: _spelled(whole.nodes[key], named=key not in nameless) for key in kept}
    edges = {edge for edge in whole.edges if edge[0] in nodes and edge[1] in nodes}
    for claim in drawn:
        name = f"{CLAIM}-{claim.number:0{len(str(len(claims)))}}"
        facts = (BESIDE,) if claim.beside else ()
        nodes[name] = Node(name, CLAIM, claim.label, on_one_line(claim.text), facts)
        edges |= {(one.artifact, name) for one in claim.quotes if one.artifact in nodes}
        edges.add((name, whole.root))
    edges = reduced(edges)
    _sum_up(nodes, edges, whole, hidden_claims=len(claims) - len(drawn))
    return Graph(whole.root, nodes, frozenset(edges), cut=whole.cut)


def _kept(whole: Graph, cited: Sequence[str]) -> list[str]:
    packets = [key for key in cited if key in whole.nodes and prefix_of(key) == "rp"]
    others = [key for key in whole.nodes if prefix_of(key) != "rp" and key != whole.root]
    wanted = [key for key in cited if key in others]
    others = list(dict.fromkeys([*wanted, *sorted(others)]))
    return [whole.root, *packets[:MOST_PACKETS], *others[:MOST_OTHERS]]


def _sum_up(nodes: dict[str, Node], edges: set[Edge], whole: Graph, *, hidden_claims: int) -> None:
    """Add one node for all that is not drawn of each kind."""
    hidden = [key for key in whole.nodes if key not in nodes]
    packets = sum(prefix_of(key) == "rp" for key in hidden)
    rest = (
        ("packets", packets, "research-packet", "not cited, or further down the list"),
        ("claims", hidden_claims, CLAIM, "further down the list"),
        ("others", len(hidden) - packets, "analysis", "requests, results and more, not drawn"),
    )
    for which, number, kind, why in rest:
        if number:
            name = f"more-{which}"
            nodes[name] = Node(name, kind, counted(number, "more", "more"), why, ())
            edges.add((name, whole.root))


def _spelled(node: Node, *, named: bool) -> Node:
    if not named:
        return replace(node, title="", facts=(MORE_PRIVATE,))
    facts = tuple(on_one_line(fact) for fact in node.facts)
    return replace(node, title=on_one_line(node.title), facts=facts)


def reduced(edges: set[Edge]) -> set[Edge]:
    """Return the edges without those that a longer way says as well; there are no circles."""
    following: defaultdict[str, set[str]] = defaultdict(set)
    for source, made in edges:
        following[source].add(made)
    return {
        (source, made)
        for source, made in edges
        if not any(_leads(following, via, made) for via in following[source] - {made})
    }


def _leads(following: Mapping[str, set[str]], start: str, end: str) -> bool:
    waiting, seen = [start], {start}
    while waiting:
        here = waiting.pop()
        if here == end:
            return True
        new = following.get(here, set()) - seen
        seen |= new
        waiting += new
    return False
