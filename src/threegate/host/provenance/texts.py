"""What of an artifact can be put before a model and quoted: its texts, counted from 1.

| artifact | its texts |
|---|---|
| research packet | its excerpts |
| tool result | value, standard output, standard error |
| analysis | its claims |

SECURITY
    Opens stored artifacts, whose text strangers wrote.  Each is read again from its checked
    bytes.  If this module is wrong, a quote is taken from another text than the one that was
    shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.limits import MAX_EXCERPT_CHARS, MAX_EXCERPTS
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import UsageError
from threegate.base.sentences import spans
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff.store import Store
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_read
from threegate.policy.decision import Deny

READABLE: Final = ("rp", "res", "an")

PASSAGE_CHARS: Final = 1200  # about as much as an embedder reads; a paragraph or two

Key = tuple[str, int, int]  # artifact, number of its text, first character
Readable = ResearchPacket | ToolResult | Analysis


@dataclass(frozen=True, slots=True)
class Passage:
    """Some sentences of a text of an artifact, and where they stand in it."""

    artifact: str
    number: int  # of the text
    start: int
    text: Untrusted[str]
    whole: bool  # there is no more of that text

    @property
    def key(self) -> "Key":
        """What names it."""
        return self.artifact, self.number, self.start

    def where(self) -> str:
        """Return its place in its artifact, for people."""
        end = self.start + len(self.text.open_for_validation())
        return str(self.number) if self.whole else f"{self.number} ({self.start}-{end})"


@dataclass(frozen=True, slots=True)
class Material:
    """An artifact that may be put before a model."""

    id: str
    artifact: Readable

    @property
    def texts(self) -> tuple[Untrusted[str], ...]:
        """All its texts, empty ones too, so that each keeps its number."""
        return texts_of(self.artifact)

    def passages(self) -> Iterator[Passage]:
        """Yield all sentences, a few at a time, in order."""
        for number, text in enumerate(self.texts, 1):
            untrusted = text.open_for_validation()
            cut = list(_cuts(untrusted))
            for start, end in cut:
                part = Untrusted(untrusted[start:end])
                yield Passage(self.id, number, start, part, whole=len(cut) == 1)

    @property
    def title(self) -> Untrusted[str]:
        """What it is called; foreign text."""
        if isinstance(self.artifact, ResearchPacket):
            named = self.artifact.title.open_for_validation()
            return self.artifact.title if named.strip() else self.artifact.reference
        if isinstance(self.artifact, Analysis):
            return self.artifact.question
        return Untrusted(f"{self.artifact.exit}, of {self.artifact.request}")


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where passages start and end: whole sentences, as many as fit."""
    found = spans(text)
    if not found:
        return
    start, end = found[0]
    for first, last in found[1:]:
        if last - start > PASSAGE_CHARS:
            yield start, end
            start = first
        end = last
    yield start, end


def texts_of(artifact: Artifact) -> tuple[Untrusted[str], ...]:
    """Return the texts of an artifact that can be quoted; the first is number 1."""
    if isinstance(artifact, ResearchPacket):
        return artifact.texts
    if isinstance(artifact, ToolResult):
        streams = (artifact.value_text, artifact.stdout_text, artifact.stderr_text)
        return tuple(_cut(text) for text in streams)
    if isinstance(artifact, Analysis):
        return artifact.claim_texts[:MAX_EXCERPTS]
    return ()


def _cut(text: Untrusted[str]) -> Untrusted[str]:
    # Its beginning, so that an offset in it is an offset in the whole.
    return Untrusted(text.open_for_validation()[:MAX_EXCERPT_CHARS])


def read_material(store: Store, bundle: Bundle, artifact_id: str) -> Material:
    """Return an artifact CORE may read, or raise `PolicyDenied` or `UsageError`."""
    kind = prefix_of(artifact_id)
    if kind not in READABLE:
        hint = f"sources are of kind {', '.join(READABLE)}"
        raise UsageError(f"{quote(artifact_id)} is nothing to read", hint=hint)
    decision = may_read(bundle, "core", kind)
    if isinstance(decision, Deny):
        raise decision.error(f"reading {artifact_id[:15]}")
    artifact = store.read(artifact_id)
    assert isinstance(artifact, ResearchPacket | ToolResult | Analysis)
    return Material(artifact_id, artifact)
