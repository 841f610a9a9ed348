"""A provenance graph as text, as a Graphviz file and as an SVG picture.

SECURITY
    Labels hold foreign text: they are made visible and cut first, then escaped for the
    format.  The SVG has no script, no link and no outside reference.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.text import visible
from threegate.host.provenance.graph import Graph, Node

LABEL_CHARS: Final = 44
TITLE_CHARS: Final = 38  # of a title, which is bold and in quotes
LINE_CHARS: Final = 120  # of a title in text
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 330, 74, 70, 20, 20
_FILLS: Final = {
    "research-packet": "#e3eefb",
    "fetch-request": "#fdf3d8",
    "tool-request": "#fdf3d8",
    "approval": "#e2f4e4",
    "tool-result": "#f1e6fa",
    "analysis": "#fbe6e6",
    "claim": "#ffffff",  # in the picture of a report
}

_ARROW_HEAD: Final = (
    '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
)


def as_text(graph: Graph) -> str:
    """Return two trees: sources upwards, what was made from it downwards."""
    sources, made_from = defaultdict(list), defaultdict(list)
    for source, made in sorted(graph.edges):
        sources[made].append(source)
        made_from[source].append(made)
    lines = [_line(graph.nodes[graph.root])]
    for heading, following in (("made from", sources), ("used in", made_from)):
        tree = _tree(graph, following)
        lines += [f"{heading}:", *tree] if tree else [f"{heading}: nothing"]
    return "\n".join([*lines, "there is more than is shown"] if graph.cut else lines)


def _tree(graph: Graph, following: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what follows the root, indented by distance; what comes again is only named."""
    lines = []
    seen = {graph.root}
    waiting = [(1, key) for key in reversed(following.get(graph.root, ()))]
    while waiting:
        depth, key = waiting.pop()
        again = key in seen
        lines.append("  " * depth + (f"{short(key)} (above)" if again else _line(graph.nodes[key])))
        if not again:
            seen.add(key)
            waiting += [(depth + 1, item) for item in reversed(following.get(key, ()))]
    return lines


def _line(node: Node) -> str:
    facts = ", ".join(visible(fact) for fact in node.facts)
    title = f' "{_cut(node.title, LINE_CHARS)}"' if node.title else ""
    return f"{short(node.id)} {node.kind}, {node.state}" + (f", {facts}" if facts else "") + title


def as_dot(graph: Graph) -> str:
    """Return the graph for Graphviz."""
    lines = ["digraph threegate {", "  rankdir=LR;", "  node [shape=box, style=filled];"]
    for node in sorted(graph.nodes.values(), key=lambda node: node.id):
        label = "\\n".join(_quoted(text) for text in _label(node))
        lines.append(f'  "{node.id}" [label="{label}", fillcolor="{_FILLS[node.kind]}"];')
    lines += [f'  "{source}" -> "{made}";' for source, made in sorted(graph.edges)]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def as_svg(graph: Graph) -> str:
    """Return a picture: sources on the left, what was made from them to the right."""
    places = _places(graph)
    columns = max(x for x, _ in places.values()) + 1
    rows = max(y for _, y in places.values()) + 1
    width = 2 * _MARGIN + columns * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f"<title>{escape(graph.root)}</title>",
        _ARROW_HEAD,
        *(_arrow(places[source], places[made]) for source, made in sorted(graph.edges)),
        *(_box(node, places[key], root=key == graph.root) for key, node in graph.nodes.items()),
        "</svg>",
    ]
    return "\n".join(lines)


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return column and row of every node; a column further than every source."""
    columns: dict[str, int] = dict.fromkeys(graph.nodes, 0)
    for _ in range(len(graph.nodes)):  # digests cannot form a circle, so this ends early
        moved = [(made, columns[source] + 1) for source, made in graph.edges]
        moved = [(made, column) for made, column in moved if columns[made] < column]
        if not moved:
            break
        for made, column in moved:
            columns[made] = max(columns[made], column)
    rows: dict[int, int] = {}
    places = {}
    for key in sorted(graph.nodes):
        column = columns[key]
        places[key] = (column, rows.get(column, 0))
        rows[column] = rows.get(column, 0) + 1
    return places


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return _MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y)


def _arrow(source: tuple[int, int], made: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = _corner(source), _corner(made)
    x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
    middle = (x1 + x2) // 2
    curve = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    return f'<path d="{curve}" fill="none" stroke="#555" marker-end="url(#head)"/>'


def _box(node: Node, place: tuple[int, int], *, root: bool) -> str:
    x, y = _corner(place)
    stroke = "#000" if root else "#888"
    box = f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"'
    # The inner picture cuts off what is wider than the box: foreign text stays in its box.
    inner = f'<svg x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}">'
    lines = [f'{box} fill="{_FILLS[node.kind]}" stroke="{stroke}"/>', inner]
    for number, text in enumerate(_label(node)[:4]):
        bold = ' font-weight="bold"' if node.title and not number else ""
        lines.append(f'<text x="10" y="{18 + 16 * number}"{bold}>{escape(text)}</text>')
    return "\n".join([*lines, "</svg>"])


def _label(node: Node) -> list[str]:
    """Return the lines of a box: the title in quotes, then the id and what is known."""
    lines = [f"{short(node.id)}  {node.kind}, {node.state}", *map(_cut, node.facts)]
    return [f'"{_cut(node.title, TITLE_CHARS)}"', *lines[:3]] if node.title else lines


def _cut(text: str, most: int = LABEL_CHARS) -> str:
    shown = visible(text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."
