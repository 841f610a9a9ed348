"""Pictures of provenance: foreign labels cannot leave their place."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from threegate.artifacts.ids import sha256_hex, short
from threegate.host.provenance.graph import Graph, Node, as_dot, as_svg, as_text

HOSTILE = '"];evil</text><script>alert(1)</script>&#x1b;\x1b]52;c;x\x07\u202e\n"quoted" \\'


def an_id(prefix: str, word: str) -> str:
    return f"{prefix}-{sha256_hex(word.encode())}"


RP, RP2, AN, RES = an_id("rp", "a"), an_id("rp", "b"), an_id("an", "c"), an_id("res", "d")


def node(artifact_id: str, kind: str = "analysis", title: str = "A title") -> Node:
    return Node(artifact_id, kind, "accepted", title, ("made 2026-11-15T12:00:00Z",))


def graph(title: str = "A title") -> Graph:
    nodes = {
        RP: Node(RP, "research-packet", "accepted", title, ("from https://example.org/x",)),
        RP2: Node(RP2, "research-packet", "forgotten", "", ()),
        AN: node(AN, title=title),
        RES: node(RES, "tool-result"),
    }
    return Graph(AN, nodes, frozenset({(RP, AN), (RP2, AN), (RP, RES), (AN, RES)}), cut=False)


def test_text_shows_both_directions() -> None:
    lines = as_text(graph()).splitlines()
    assert lines[0].startswith(f"{short(AN)} analysis, accepted")
    above, below = lines.index("made from:"), lines.index("used in:")
    assert sorted(line.split()[0] for line in lines[above + 1 : below]) == sorted(
        map(short, (RP, RP2))
    )
    assert [line.split()[0] for line in lines[below + 1 :]] == [short(RES)]


def test_text_names_again_what_it_has_shown() -> None:
    whole = graph()
    shown = as_text(Graph(RP, whole.nodes, whole.edges, cut=True)).splitlines()
    assert sum(line.strip().startswith(short(RES)) for line in shown) == 2
    assert sum(line.endswith("(above)") for line in shown) == 1
    assert shown[-1] == "there is more than is shown"


def test_a_long_line_of_descent_is_no_problem() -> None:
    ids = [an_id("an", str(number)) for number in range(2000)]
    nodes = {key: node(key) for key in ids}
    long = Graph(ids[0], nodes, frozenset(itertools.pairwise(ids)), cut=False)
    assert len(as_text(long).splitlines()) == 2002


def test_svg_is_well_formed_and_inert_whatever_the_title_says() -> None:
    drawn = as_svg(graph(HOSTILE))
    root = ET.fromstring(drawn)  # noqa: S314 -- our own output
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names == {"svg", "title", "defs", "marker", "path", "rect", "text"}
    texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert any(text and text.startswith('""];evil</text><script>') for text in texts), "control"
    assert "\x1b" not in drawn
    assert not re.search(r"(?:href|src|on\w+)=", drawn)


# claim TG-C-455
def test_svg_draws_every_text_in_an_inner_picture_no_larger_than_its_box() -> None:
    root = ET.fromstring(as_svg(graph("W" * 500)))  # noqa: S314 -- our own output
    texts = [one for one in root.iter() if one.tag.endswith("}text")]
    inner = [one for one in root if one.tag.endswith("}svg")]
    boxes = [one for one in root if one.tag.endswith("}rect")]
    assert [one for one in texts if "WWW" in (one.text or "")], "control: the title is drawn"
    assert sorted(map(id, texts)) == sorted(id(one) for part in inner for one in part)
    sides = ("x", "y", "width", "height")
    assert [[one.attrib[side] for side in sides] for one in inner] == [
        [one.attrib[side] for side in sides] for one in boxes
    ]
    assert not [one for one in inner if "overflow" in one.attrib], "the default is to cut off"
    titles = [
        part[0].text or "" for part in inner if len(part) and part[0].attrib.get("font-weight")
    ]
    assert titles
    assert all(title[0] == title[-1] == '"' for title in titles)


def test_svg_puts_what_was_made_to_the_right_of_its_sources() -> None:
    root = ET.fromstring(as_svg(graph()))  # noqa: S314 -- our own output
    boxes = [element for element in root.iter() if element.tag.endswith("}rect")]
    places = dict(zip(graph().nodes, (int(box.attrib["x"]) for box in boxes), strict=True))
    assert places[RP] == places[RP2] < places[AN] < places[RES]


def test_dot_strings_cannot_be_closed_from_inside() -> None:
    drawn = as_dot(graph(HOSTILE))
    for line in drawn.splitlines()[3:-1]:
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
        assert re.fullmatch(r'  ""(?: \[label="", fillcolor=""\]| -> "");', outside), line
    assert "evil" in drawn, "control: the title is there"
    assert "\x1b" not in drawn


@pytest.mark.parametrize("draw", [as_text, as_dot, as_svg])
def test_a_lone_artifact_can_be_drawn(draw: object) -> None:
    assert callable(draw)
    lone = Graph(AN, {AN: node(AN)}, frozenset(), cut=False)
    assert short(AN) in draw(lone)
