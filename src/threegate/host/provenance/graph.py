"""The provenance graph: sources of an artifact and artifacts made from it; as text, DOT and SVG.

SECURITY
    Titles and references in nodes are foreign text.  Labels are made visible and cut first, then
    escaped for the format.  The SVG has no script, no link and no outside reference.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from typing import Any, Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.base.forms import KINDS
from threegate.base.text import quote, visible
from threegate.handoff.states import state_of
from threegate.handoff.store import Store
from threegate.host.provenance.headlines import Lookup, Read, headline_for, lookup
from threegate.host.workspace.index import Index
from threegate.host.workspace.index_rows import described
from threegate.host.workspace.packets import PacketOrigin
from threegate.host.workspace.places import is_forgotten, place_of, read_anywhere

MAX_NODES: Final = 2000


@dataclass(frozen=True, slots=True)
class Node:
    """One artifact, present or missing; `facts` are its origin and policy."""

    id: str
    kind: str
    state: str
    title: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Artifacts and their edges."""

    root: str
    nodes: dict[str, Node]
    edges: frozenset[tuple[str, str]]  # (source, artifact made from it)
    cut: bool  # there was more than MAX_NODES

    def document(self) -> dict[str, Any]:
        """Return the graph for scripts."""
        edges = [{"from": source, "to": made} for source, made in sorted(self.edges)]
        nodes = [asdict(self.nodes[key]) for key in sorted(self.nodes)]
        return {"root": self.root, "nodes": nodes, "edges": edges, "cut": self.cut}


def provenance(store: Store, index: Index, artifact_id: str) -> Graph:
    """Return all ancestors and descendants of `artifact_id`."""
    if place_of(store, artifact_id) is None and not is_forgotten(store, artifact_id):
        raise UsageError(f"no artifact {artifact_id} in this workspace")
    below = index.derived_from(artifact_id)
    found: dict[str, tuple[Node, tuple[str, ...]]] = {}
    # Not cached: 2000 artifacts may be large.
    look = lookup(partial(read_anywhere, store), index)
    _collect(store, look, found, below[:MAX_NODES])
    _collect(store, look, found, _ancestors(look.read, artifact_id))
    nodes = {key: node for key, (node, _) in found.items()}
    edges = frozenset(
        (source, key)
        for key, (_, sources) in found.items()
        for source in sources
        if source in found
    )
    return Graph(artifact_id, nodes, edges, cut=len(below) > MAX_NODES or len(nodes) >= MAX_NODES)


def _ancestors(read: Read, artifact_id: str) -> list[str]:
    """Return the sources of an artifact, their sources and so on, nearest first."""
    found = {artifact_id: None}
    waiting = [artifact_id]
    while waiting and len(found) < MAX_NODES:
        artifact = read(waiting.pop(0))
        new = [item for item in (artifact.parents() if artifact else ()) if item not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)[:MAX_NODES]


def _collect(
    store: Store,
    look: Lookup,
    found: dict[str, tuple[Node, tuple[str, ...]]],
    ids: Iterable[str],
) -> None:
    for artifact_id in ids:
        if artifact_id not in found:
            artifact = look.read(artifact_id)
            sources = artifact.parents() if artifact is not None else ()
            found[artifact_id] = (_node(store, look, artifact_id, artifact), sources)


def _node(store: Store, look: Lookup, artifact_id: str, artifact: Artifact | None) -> Node:
    kind = KINDS[prefix_of(artifact_id)]
    place = place_of(store, artifact_id)
    if artifact is None or place is None:
        gone = "forgotten" if is_forgotten(store, artifact_id) else "not here"
        return Node(artifact_id, kind, gone, "", ())
    _, _, made = described(artifact)
    headline = headline_for(artifact_id, artifact, look)
    facts = (*headline.ours, *_facts(artifact, look.origins(artifact_id)), f"made {made}")
    return Node(artifact_id, kind, state_of(place), headline.text, facts)


def _facts(artifact: Artifact, origin: PacketOrigin) -> tuple[str, ...]:
    if isinstance(artifact, ResearchPacket):
        also = (f"and {item.url}" for item in artifact.also)
        if origin.is_brought:  # this workspace asked no host
            return (f"names {artifact.url}",)
        return (f"from {artifact.url}", *also)
    if isinstance(artifact, Approval):
        sections = (f"policy {item.name} {item.sha256[:12]}" for item in artifact.policy)
        return (f"by {quote(artifact.approver)}", *sections)
    if isinstance(artifact, Analysis):
        return (f"policy {artifact.policy_sha256[:12]}",)
    return ()


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
    """Return two trees: its sources, and the artifacts made from it."""
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
    """Return the nodes after the root, indented by distance; repeated ones without subtree."""
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
    """Return a picture: sources on the left, artifacts made from them to the right."""
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
    """Return column and row of every node; each is to the right of all its sources."""
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
    # The inner picture clips wide text: foreign text stays in its box.
    inner = f'<svg x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}">'
    lines = [f'{box} fill="{_FILLS[node.kind]}" stroke="{stroke}"/>', inner]
    for number, text in enumerate(_label(node)[:4]):
        bold = ' font-weight="bold"' if node.title and not number else ""
        lines.append(f'<text x="10" y="{18 + 16 * number}"{bold}>{escape(text)}</text>')
    return "\n".join([*lines, "</svg>"])


def _label(node: Node) -> list[str]:
    """Return the lines of a box: the title in quotes, the id and the facts."""
    lines = [f"{short(node.id)}  {node.kind}, {node.state}", *map(_cut, node.facts)]
    return [f'"{_cut(node.title, TITLE_CHARS)}"', *lines[:3]] if node.title else lines


def _cut(text: str, most: int = LABEL_CHARS) -> str:
    shown = visible(text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."
