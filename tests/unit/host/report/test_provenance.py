"""The picture of a report: claims between packets and answer, and never more than fits."""

from threegate.host.provenance.graph import Graph, Node, as_svg, as_text
from threegate.host.report.facts import Quote, ReportClaim
from threegate.host.report.provenance import MOST_CLAIMS, MOST_PACKETS, reduced, trace
from threegate.host.report.sources import FOUND

AN, TR, RES = "an-" + "a" * 64, "tr-" + "b" * 64, "res-" + "c" * 64
KINDS = {"rp": "research-packet", "an": "analysis", "tr": "tool-request", "res": "tool-result"}


def packet(number: int) -> str:
    return f"rp-{number:064x}"


def whole(packets: int, *more: tuple[str, str]) -> Graph:
    edges = {(packet(number), AN) for number in range(packets)} | set(more)
    names = {AN, *(name for edge in edges for name in edge)}
    nodes = {
        name: Node(name, KINDS[name.partition("-")[0]], "accepted", f"of {name[:9]}", ())
        for name in sorted(names)
    }
    return Graph(AN, nodes, frozenset(edges), cut=False)


def claim(number: int, *sources: str) -> ReportClaim:
    quotes = tuple(Quote(1, one, 1, 0, 1, "0" * 64, "x", FOUND) for one in sources)
    return ReportClaim(number, f"says {number}", "quote found", "quote found", quotes)


def test_claims_stand_between_packets_and_the_answer() -> None:
    graph = trace(whole(2, (AN, TR), (TR, RES), (AN, RES)), [claim(1, packet(0), packet(1))])
    assert graph.edges == {
        (packet(0), "claim-1"),
        (packet(1), "claim-1"),
        ("claim-1", AN),
        (AN, TR),
        (TR, RES),
    }, "what a longer way says is not said again"
    text = as_text(graph)
    assert text.index("made from:") < text.index("claim-1 claim, quote found") < text.index("rp-0")
    assert text.index("used in:") < text.index("tr-bbbb") < text.index("res-cccc")


def test_a_crowd_is_summed_up() -> None:
    cited = [packet(number) for number in range(100)]
    claims = [claim(number + 1, one) for number, one in enumerate(cited)]
    graph = trace(whole(150), claims)
    assert len(graph.nodes) == 1 + MOST_CLAIMS + MOST_PACKETS + 2
    more = {node.kind: node.state for node in graph.nodes.values() if node.id.startswith("more-")}
    assert more == {"research-packet": "126 more", "claim": "76 more"}
    assert as_svg(graph).count("<rect") == len(graph.nodes)


def test_foreign_labels_are_spelled_out_once() -> None:
    one = ReportClaim(1, "p\u0430ypal \u202e\n\\u{41}", "unchecked", "unchecked", ())
    graph = trace(whole(1), [one])
    assert graph.nodes["claim-1"].title == "p\\u{430}ypal \\u{202e}\\u{a}\\u{5c}u{41}"
    assert "p\\u{430}ypal \\u{202e}\\u{a}\\u{5c}u{41}" in as_text(graph)


def test_reduction_keeps_what_only_one_edge_says() -> None:
    assert reduced({("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")}) == {
        ("a", "b"),
        ("b", "c"),
        ("a", "d"),
    }
