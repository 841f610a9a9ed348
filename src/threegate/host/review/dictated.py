"""Whether a draft of CORE repeats a source: who may have dictated it.

A hint, never a gate: a source can dictate in words that are not its own.

SECURITY
    Opens foreign text to compare it.  What is shown of it are names and numbers.
"""

from collections.abc import Iterator
from typing import Final

from threegate.artifacts.registry import Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.host.provenance.copied import copied_from
from threegate.host.provenance.headlines import Read
from threegate.host.provenance.texts import Material
from threegate.host.review.parts import Flag

MAX_COMPARED_CHARS: Final = 8 * 2**20  # what is compared in a second or two


def dictated_flags(request: Request, read: Read) -> Iterator[Flag]:
    """Yield which parts of a draft stand in which source."""
    if request.origin != "core":
        return
    sources, left_out = _compared_sources(request, read)
    for one in copied_from(request, sources):
        words = f"its {one.part} repeats {one.where}: that source may have dictated it"
        yield Flag("dictated", words)
    if left_out:
        yield Flag("dictated", f"{left_out} of its sources were too long to be compared with it")


def _compared_sources(request: Request, read: Read) -> tuple[list[Material], int]:
    found: list[Material] = []
    left, left_out = MAX_COMPARED_CHARS, 0
    for parent in request.derived_from:
        artifact = read(parent)
        # What an analysis says it took from these.
        if not isinstance(artifact, ResearchPacket | ToolResult):
            continue
        material = Material(parent, artifact)
        left -= sum(len(text.open_for_validation()) for text in material.texts)
        if left < 0:
            left_out += 1
        else:
            found.append(material)
    return found, left_out
