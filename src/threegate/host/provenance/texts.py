"""Texts of artifacts: quotable texts, copies of them in drafts, and labels of derived answers.

| artifact | its texts, counted from 1 |
|---|---|
| research packet | its excerpts |
| tool result | value, standard output, standard error |
| analysis | its claims |

`copied_from` finds parts of a draft in sources.  A draft that a source dictated usually repeats it:
an address, a line of code, a run of words.  A match is a hint for the reviewer, never a gate: a
source can dictate in other words.

`derivation_of` computes from stored artifacts everything that an answer was derived from; the
author of the answer has no say.

SECURITY
    Opens stored artifacts, whose text strangers wrote.  Each is read again from its checked bytes.
    If this module is wrong, a quote is taken from another text than the one that was shown, or a
    hint on a dictated draft is missing, or an answer loses a source and with it a label: something
    confidential could be shown as public, or a result could feed a fetch request.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.labels import Labels, join_all
from threegate.artifacts.limits import MAX_DERIVED_FROM, MAX_EXCERPT_CHARS, MAX_EXCERPTS
from threegate.artifacts.registry import Artifact, Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import UsageError
from threegate.base.sentences import spans
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff.store import Store
from threegate.host.workspace.places import read_anywhere
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_read
from threegate.policy.decision import Deny

READABLE: Final = ("rp", "res", "an")

PASSAGE_CHARS: Final = 1200  # about as much as an embedder reads; a paragraph or two

Key = tuple[str, int, int]  # artifact, number of its text, first character
Readable = ResearchPacket | ToolResult | Analysis


@dataclass(frozen=True, slots=True)
class Passage:
    """Some sentences of a text of an artifact, and their position."""

    artifact: str
    number: int  # of the text
    start: int
    text: Untrusted[str]
    whole: bool  # it is the whole text

    @property
    def key(self) -> "Key":
        """The key of the passage."""
        return self.artifact, self.number, self.start

    def where(self) -> str:
        """Return its position in the artifact, for people."""
        end = self.start + len(self.text.open_for_validation())
        return str(self.number) if self.whole else f"{self.number} ({self.start}-{end})"


@dataclass(frozen=True, slots=True)
class Material:
    """An artifact that may be shown to a model."""

    id: str
    artifact: Readable

    @property
    def texts(self) -> tuple[Untrusted[str], ...]:
        """All its texts, empty ones too, so that each keeps its number."""
        return texts_of(self.artifact)

    def passages(self) -> Iterator[Passage]:
        """Yield all sentences in passages, in order."""
        for number, text in enumerate(self.texts, 1):
            untrusted = text.open_for_validation()
            cut = list(_cuts(untrusted))
            for start, end in cut:
                part = Untrusted(untrusted[start:end])
                yield Passage(self.id, number, start, part, whole=len(cut) == 1)

    @property
    def title(self) -> Untrusted[str]:
        """Its title; foreign text."""
        if isinstance(self.artifact, ResearchPacket):
            named = self.artifact.title.open_for_validation()
            return self.artifact.title if named.strip() else self.artifact.reference
        if isinstance(self.artifact, Analysis):
            return self.artifact.question
        return Untrusted(f"{self.artifact.exit}, of {self.artifact.request}")


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each passage: whole sentences, as many as fit."""
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
    # Only the beginning is cut out, so offsets stay valid.
    return Untrusted(text.open_for_validation()[:MAX_EXCERPT_CHARS])


def read_material(store: Store, bundle: Bundle, artifact_id: str) -> Material:
    """Return an artifact CORE may read, or raise `PolicyDenied` or `UsageError`."""
    kind = prefix_of(artifact_id)
    if kind not in READABLE:
        hint = f"sources are of kind {', '.join(READABLE)}"
        raise UsageError(f"{quote(artifact_id)} is not readable for CORE", hint=hint)
    decision = may_read(bundle, "core", kind)
    if isinstance(decision, Deny):
        raise decision.error(f"reading {artifact_id[:15]}")
    artifact = store.read(artifact_id)
    assert isinstance(artifact, ResearchPacket | ToolResult | Analysis)
    return Material(artifact_id, artifact)


# Sources that contain the words of a draft: a hint where the draft comes from.
#
# A draft that a source dictated usually repeats it: an address, a line of code, a run of words.
# The hint is for the reviewer and decides nothing: a source can dictate in other words.
#
# SECURITY: compares text of a model with text of strangers. If this is wrong, a hint is missing;
# `derived_from` still lists everything that could be read.

RUN_WORDS: Final = 4  # words in a row that are hardly equal by chance
LEAST_CHARS: Final = 8  # of an address or a string
_WORD: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(r"[^\s\"'(){}\[\],;<>]+")


@dataclass(frozen=True, slots=True)
class Copied:
    """A part of a request that occurs in a source."""

    part: str  # purpose, code or reference
    artifact: str
    number: int  # of the text; 0 is the title

    @property
    def where(self) -> str:
        """Return the position in words."""
        return f"{short(self.artifact)} {f'text {self.number}' if self.number else 'title'}"


def copied_from(request: Request, sources: Iterable[Material]) -> list[Copied]:
    """Return which parts of a request occur in which texts, each source once per part."""
    parts = [(name, _marks(text), _runs(text)) for name, text in _parts(request)]
    found: dict[tuple[str, str], Copied] = {}
    for material in sources:
        for number, text in enumerate((_title(material), *material.texts)):
            untrusted = text.open_for_validation()
            lowered, runs = untrusted.lower(), _runs(untrusted)
            for name, marks, own in parts:
                key = (name, material.id)
                if key not in found and (own & runs or any(mark in lowered for mark in marks)):
                    found[key] = Copied(name, material.id, number)
    return sorted(found.values(), key=lambda one: (one.artifact, one.part))


def _title(material: Material) -> Untrusted[str]:
    """Return the title of a packet, which the model saw too; other titles are not foreign."""
    return material.title if isinstance(material.artifact, ResearchPacket) else Untrusted("")


def _parts(request: Request) -> Iterator[tuple[str, str]]:
    yield "purpose", request.purpose.open_for_validation()
    if isinstance(request, ToolRequest):
        yield "code", request.code.open_for_validation()
    if isinstance(request, FetchRequest):
        for reference in request.references:
            yield "reference", reference.open_for_validation()


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words: Sequence[str] = [word.lower() for word in _WORD.findall(text)]
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))


def _marks(text: str) -> list[str]:
    """Return tokens that identify a source alone: addresses, identifiers, long strings."""
    found = []
    for token in _TOKEN.findall(text.lower()):
        bare = re.sub(r"\A(?:https?://|doi:|arxiv:|pmid:|openalex:)", "", token).strip("./:?!")
        telling = not bare.isalpha() and any(sign in bare for sign in "./:=@")
        if telling and len(bare) >= LEAST_CHARS:
            found.append(bare)
    return found


# What an answer was made from: everything that could be read, and its own sources.
#
# The host derives this from stored artifacts; the author of an answer is not asked.
#
# SECURITY: if this is wrong, an answer loses a source and with it a label: confidential data could
# be shown as public, or a result could feed a fetch request.

MAX_WALKED: Final = 4 * MAX_DERIVED_FROM


@dataclass(frozen=True, slots=True)
class DraftOrigin:
    """Everything an answer was derived from, and the joined labels."""

    derived_from: tuple[str, ...]  # sorted; those that are still here
    labels: Labels
    read_a_result: bool  # one of them is a tool result, or was or may have been made from one


def origin_of(store: Store, readable: Iterable[str]) -> DraftOrigin:
    """Return the derivation of something whose author could read all of this."""
    waiting = list(dict.fromkeys(readable))
    seen = set(waiting)
    here: list[str] = []
    labels = [Labels("external", "public")]
    unknown = False
    while waiting:
        artifact_id = waiting.pop()
        artifact = read_anywhere(store, artifact_id)
        if artifact is None:  # forgotten: artifacts made from it still name it
            # The sources of a forgotten analysis are unknown; one may have been a result.
            unknown = unknown or prefix_of(artifact_id) == "an"
            continue
        labels.append(registry.labels_of(artifact))
        if prefix_of(artifact_id) in READABLE and store.locate(artifact_id) is not None:
            here.append(artifact_id)
        new = [parent for parent in artifact.parents() if parent not in seen]
        seen.update(new)
        waiting += new
        if len(seen) > MAX_WALKED or len(here) > MAX_DERIVED_FROM:
            hint = "name fewer sources with --packets"
            detail = f"it was derived from more than {MAX_DERIVED_FROM} artifacts"
            raise UsageError(detail, hint=hint)
    results = unknown or any(prefix_of(one) == "res" for one in seen)
    return DraftOrigin(tuple(sorted(here)), join_all(labels), results)
