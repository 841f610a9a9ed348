"""The picture of a report, from packets to claims to the answer, and how a reader checks it.

The answer names everything it could read, so most edges would be redundant: an edge is drawn only
if no longer path connects the same nodes.

SECURITY
    Titles and claims are foreign.  They are spelled out here, as everywhere in a report; the
    picture cuts and escapes them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff.store import Store
from threegate.host.output import counted
from threegate.host.provenance.graph import Graph, Node
from threegate.host.report.facts import CheckStep, ReportClaim
from threegate.host.review.characters import on_one_line

MOST_CLAIMS: Final = 24
MOST_PACKETS: Final = 24
MOST_OTHERS: Final = 40  # requests, approvals, results, earlier answers
CLAIM: Final = "claim"
BESIDE: Final = "nearest sentence"
MORE_PRIVATE: Final = "more private than this report"

Edge = tuple[str, str]


def trace(whole: Graph, claims: Sequence[ReportClaim], nameless: Sequence[str] = ()) -> Graph:
    """Return the graph of an answer with its claims in it, small enough to look at.

    `nameless` artifacts are shown by id and kind only.
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
    """Return the transitive reduction of the edges; the graph has no cycles."""
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


# How a reader checks a report without trusting it: commands with the ids in them.

IN_ONE_LINE: Final = 4  # ids of one command
_WHOLE: Final = "the log is whole, and every file matches it"
_ENDS: Final = "the same code on the same input ends the same"
_SIGNED: Final = "approval, signature and signers, and how OpenSSH alone checks them"
_GRAPH: Final = "what it was made from, and what was made from it"
_AGAIN: Final = "this report again, byte for byte, as long as nothing it speaks of changes"


def checks_of(
    store: Store,
    analysis_id: str,
    analysis: Analysis,
    cited: Sequence[str],
    approvals: Sequence[str],
) -> tuple[CheckStep, ...]:
    """Return the commands that check everything a report says."""
    return tuple(_checks(store, analysis_id, analysis, cited, approvals))


def _checks(
    store: Store,
    analysis_id: str,
    analysis: Analysis,
    cited: Sequence[str],
    approvals: Sequence[str],
) -> Iterator[CheckStep]:
    yield CheckStep("threegate audit verify", _WHOLE)
    yield CheckStep(
        f"threegate analysis show {short(analysis_id)} --raw | sha256sum",
        f"the analysis is the one of this name: {analysis_id.partition('-')[2]}",
    )
    here = [one for one in cited if store.locate(one) is not None]
    packets = [one for one in here if prefix_of(one) == "rp"]
    made = [one for one in packets if _was_fetched(store, one)]
    for part in _parts(made):
        yield CheckStep(
            f"threegate packet remake {part}", "the packets are what their raw bytes say"
        )
    for one in packets:
        shows = "the excerpts; a quote stands at its offset, counted in characters from 0"
        yield CheckStep(f"threegate packet show {short(one)}", shows)
    results = [one for one in analysis.derived_from if prefix_of(one) == "res"]
    for part in _parts([one for one in results if store.locate(one) is not None]):
        yield CheckStep(f"threegate replay {part}", _ENDS)
    for one in approvals:
        if store.locate(one) is not None:
            yield CheckStep(f"threegate review export {short(one)} DIRECTORY", _SIGNED)
    yield CheckStep(f"threegate audit graph {short(analysis_id)}", _GRAPH)
    yield CheckStep(f"threegate report {short(analysis_id)}", _AGAIN)


def checks_of_run(result_id: str, result: ToolResult) -> tuple[CheckStep, ...]:
    """Return the commands that check a report on a result."""
    name = short(result_id)
    found = [CheckStep("threegate audit verify", _WHOLE)]
    shows = f"the result is the one of this name: {result_id.partition('-')[2]}"
    found.append(CheckStep(f"threegate result show {name} --raw | sha256sum", shows))
    if result.backend == "monty":
        found.append(CheckStep(f"threegate replay {name}", _ENDS))
    if result.files:
        shows = "the files, with the digests listed here"
        found.append(CheckStep(f"threegate result export {name} DIRECTORY", shows))
    found.append(CheckStep(f"threegate review export {short(result.approval)} DIRECTORY", _SIGNED))
    found.append(CheckStep(f"threegate audit graph {name}", _GRAPH))
    return (*found, CheckStep(f"threegate report {name}", _AGAIN))


def _was_fetched(store: Store, packet_id: str) -> bool:
    packet = store.read(packet_id)
    return isinstance(packet, ResearchPacket) and packet.record_sha256 is not None


def _parts(ids: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(ids), IN_ONE_LINE):
        yield " ".join(short(one) for one in ids[start : start + IN_ONE_LINE])
