"""Risk flags of a request: author, sources, data, limits, characters, and copied text.

Detection is a hint, never a gate: nothing here allows or refuses anything.  A draft of CORE that
repeats a source may have been dictated by it; a source can also dictate in other words.

SECURITY
    Opens foreign text to compare it.  Only names and numbers of it are shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.registry import Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import HandoffTampered
from threegate.base.text import quote
from threegate.host.provenance.headlines import Read
from threegate.host.provenance.texts import Material, copied_from
from threegate.host.review.characters import FoundCharacter
from threegate.host.review.code_flags import imitates
from threegate.host.review.parts import (
    Flag,
    Limit,
    RuleOfTwo,
    SheetInput,
    SheetReference,
    SheetSources,
)
from threegate.host.workspace.packets import brought_words
from threegate.policy.bundle import Bundle
from threegate.policy.leaves import BYTES

LONG_REFERENCE_CHARS = 200
MANY_REFERENCES = 20


def common_flags(
    request: Request, sources: SheetSources, found: Sequence[FoundCharacter], two: RuleOfTwo
) -> Iterator[Flag]:
    """Yield the flags of any request."""
    if two.joined:
        yield Flag("rule-of-two", "joins external input, confidential data and network")
    if request.origin == "core":
        count = len(sources.found) + len(sources.missing) + sources.more
        reason = f"CORE wrote it; it could read {count} artifacts, and text in them may have"
        yield Flag("external-author", f"{reason} shaped it")
    yield from _characters(found)
    texts = {"purpose": request.purpose}
    if isinstance(request, ToolRequest):
        texts["risks"] = request.risks
    for name, text in texts.items():
        if imitates(text.open_for_display()):
            yield Flag("imitation", f"its {name} has a line that looks like one of this program")
    yield from _sources(sources)


def _sources(sources: SheetSources) -> Iterator[Flag]:
    for source in sources.found:
        for remark in source.remarks:
            yield Flag("source", f"goes back to {source.id[:15]}: {remark}")
    brought = [source.id for source in sources.found if source.brought]
    if brought:
        yield Flag("brought", f"goes back to packets {brought_words(brought)}")
    if sources.missing:
        reason = f"{len(sources.missing)} of the artifacts it goes back to are not here any more"
        yield Flag("source-missing", reason)


def _characters(found: Sequence[FoundCharacter]) -> Iterator[Flag]:
    kinds: dict[tuple[str, str], list[FoundCharacter]] = {}
    for item in found:
        kinds.setdefault((item.kind, item.where), []).append(item)
    for (kind, where), items in kinds.items():
        count = sum(item.count for item in items)
        first = min(items, key=lambda item: item.line)
        like = f" that looks like {quote(first.like)}" if first.like.strip() else ""
        reason = f"{count} x {kind} in {where}, first {first.point} {first.name}{like}"
        yield Flag(kind.replace(" ", "-"), reason, _line(first))


def _line(found: FoundCharacter) -> int | None:
    return found.line if found.where == "code" else None


def tampered_flags(aside: Mapping[str, HandoffTampered]) -> Iterator[Flag]:
    """Yield a flag for each similar request whose files are not what the log recorded.

    It may have been denied, and the change may be meant to hide that.
    """
    for request_id, error in aside.items():
        reason = f"a similar request, {short(request_id)}, cannot be compared: {error.message}"
        yield Flag("meddled", f"{reason} [{error.code}]")


def tool_flags(
    request: ToolRequest, limits: Sequence[Limit], inputs: Sequence[SheetInput], bundle: Bundle
) -> Iterator[Flag]:
    """Yield the flags of a run: its lane, network, data and limits."""
    if request.backend != "monty":
        yield Flag("heavy-lane", "leaves the lite lane: files and programs inside a guest")
        if "runsc" in bundle.words("tool-exec", "lanes", request.backend, "engines"):
            reason = "policy lets runsc isolate it: a user-space kernel, not a microVM"
            yield Flag("user-space-kernel", reason)
    if request.network != "none":
        yield Flag("network", f"what it reads may leave this machine: {request.network}")
    if request.confidentiality == "confidential":
        yield Flag("confidential", "handles confidential data; its result will be confidential")
    external = [
        given.name
        for given in inputs
        if given.is_external or not given.artifact.startswith("blob-")
    ]
    if external:
        reason = f"reads data from outside ({', '.join(external[:8])}): values may be hostile"
        yield Flag("external-data", reason)
    for given in inputs:
        if given.problem:
            yield Flag("input", f"input {given.name}: {given.problem}")
    for limit in limits:
        if limit.raised:
            asked, usual, _ = limit.shown
            yield Flag("limit", f"{limit.words}: {asked}, without asking it would be {usual}")
    yield from _sizes(request, bundle)


def _sizes(request: ToolRequest, bundle: Bundle) -> Iterator[Flag]:
    path = ("tool-exec", "lanes", request.backend, "max")
    sizes = {
        "source_bytes": len(request.code.open_for_display().encode("utf-8")),
        "input_bytes": sum(item.bytes for item in request.inputs),
    }
    for key, size in sizes.items():
        most = bundle.integer(*path, key)
        if size > most:
            what = "code" if key == "source_bytes" else "input"
            where = bundle.ref(*path, key)
            reason = f"{size} bytes of {what}, {where} allows {BYTES.show(most)}: it will fail"
            yield Flag("too-large", reason)


def fetch_flags(request: FetchRequest, references: Sequence[SheetReference]) -> Iterator[Flag]:
    """Yield the flags of a fetch request: its references leave this machine."""
    if request.confidentiality == "confidential":
        yield Flag("confidential", "its author could read confidential data, and a URL leaves")
    if len(references) > MANY_REFERENCES:
        yield Flag("many", f"{len(references)} references: many small parts carry a large whole")
    for number, reference in enumerate(references, 1):
        if len(reference.text) > LONG_REFERENCE_CHARS:
            yield Flag("long-reference", f"reference {number} has {len(reference.text)} characters")
        for part in reference.components:
            if part.remark:
                reason = f"reference {number}, {part.where}, {part.bits} bits: {part.remark}"
                yield Flag("outbound", reason)


# -- drafts that repeat a source -------------------------------------------------------------

MAX_COMPARED_CHARS: Final = 8 * 2**20  # what is compared in a second or two


def dictated_flags(request: Request, read: Read) -> Iterator[Flag]:
    """Yield the parts of a draft that occur in a source."""
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
        # An analysis quotes its sources, so it is not compared separately.
        if not isinstance(artifact, ResearchPacket | ToolResult):
            continue
        material = Material(parent, artifact)
        left -= sum(len(text.open_for_validation()) for text in material.texts)
        if left < 0:
            left_out += 1
        else:
            found.append(material)
    return found, left_out
