"""The rows that the index holds of one artifact: pure, also for comparing a kept index.

SECURITY
    Parses artifacts again and returns copies of foreign text.  If this module is wrong, a
    retraction is missed, or something made from a withdrawn artifact stays.
"""

from dataclasses import dataclass
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.identity import joins_names, names_of
from threegate.host.workspace.origin import PacketOrigin
from threegate.host.workspace.places import blobs_of
from threegate.host.workspace.searchable import described


@dataclass(frozen=True, slots=True)
class Rows:
    """Everything the index holds of one artifact."""

    artifact: tuple[Any, ...]
    text: tuple[str, str]
    sources: list[tuple[str, str]]
    contents: list[tuple[str, str]]
    names: list[tuple[Any, ...]]


def rows_of(artifact_id: str, state: str, data: bytes) -> Rows:
    """Return the rows of an artifact in a state."""
    artifact = registry.parse(Untrusted(data))
    labels = registry.labels_of(artifact)
    title, body, made = described(artifact)
    values = (artifact_id, prefix_of(artifact_id), state, title, made, len(data))
    contents, names = [], []
    if isinstance(artifact, FetchRequest | ToolRequest):
        contents = [(artifact_id, registry.content_digest(artifact))]
    if isinstance(artifact, ResearchPacket):
        said = (int(joins_names(artifact)), int(artifact.retraction == "retracted"))
        # A work without any name is found by the packet's own id.
        found = names_of(artifact) or (("packet", artifact_id),)
        names = [(scheme, value, artifact_id, *said) for scheme, value in found]
    return Rows(
        (*values, labels.integrity, labels.confidentiality),
        (title, body),
        sources_of(artifact_id, artifact),
        contents,
        names,
    )


def sources_of(artifact_id: str, artifact: Artifact) -> list[tuple[str, str]]:
    """Return what an artifact names as its sources, raw bytes included."""
    parents = [*artifact.parents(), *(f"blob-{digest}" for digest in blobs_of(artifact))]
    return [(artifact_id, parent) for parent in parents]


def origin_row(packet_id: str, origin: PacketOrigin) -> tuple[str, str, str, int]:
    """Return the row of a packet's origin."""
    return packet_id, origin.name, origin.by, int(origin.consistent)
