"""Provenance: what an artifact was made from, and what was made from it.

SECURITY
    Titles and references in nodes are foreign text; whoever draws them spells them out.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.handoff.states import state_of
from threegate.handoff.store import Store
from threegate.host.provenance.headlines import Lookup, Read, headline_for
from threegate.host.provenance.retraction import lookup
from threegate.host.workspace.index import Index
from threegate.host.workspace.index_rows import described
from threegate.host.workspace.packets import PacketOrigin
from threegate.host.workspace.places import KINDS, is_forgotten, place_of, read_anywhere

MAX_NODES: Final = 2000


@dataclass(frozen=True, slots=True)
class Node:
    """One artifact, here or gone; `facts` says where it came from and under which policy."""

    id: str
    kind: str
    state: str
    title: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Artifacts and which was made from which."""

    root: str
    nodes: dict[str, Node]
    edges: frozenset[tuple[str, str]]  # (source, what was made from it)
    cut: bool  # there was more than MAX_NODES

    def document(self) -> dict[str, Any]:
        """Return the graph for scripts."""
        edges = [{"from": source, "to": made} for source, made in sorted(self.edges)]
        nodes = [asdict(self.nodes[key]) for key in sorted(self.nodes)]
        return {"root": self.root, "nodes": nodes, "edges": edges, "cut": self.cut}


def provenance(store: Store, index: Index, artifact_id: str) -> Graph:
    """Return everything `artifact_id` was made from or that was made from it."""
    if place_of(store, artifact_id) is None and not is_forgotten(store, artifact_id):
        raise UsageError(f"no artifact {artifact_id} in this workspace")
    below = index.derived_from(artifact_id)
    found: dict[str, tuple[Node, tuple[str, ...]]] = {}
    # Not kept: 2000 of them may be large.
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
        if origin.is_brought:  # no host was asked
            return (f"names {artifact.url}",)
        return (f"from {artifact.url}", *also)
    if isinstance(artifact, Approval):
        sections = (f"policy {item.name} {item.sha256[:12]}" for item in artifact.policy)
        return (f"by {quote(artifact.approver)}", *sections)
    if isinstance(artifact, Analysis):
        return (f"policy {artifact.policy_sha256[:12]}",)
    return ()
