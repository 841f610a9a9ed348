"""Quotes: cut by the host out of stored texts, with their place and digest.

SECURITY
    Whoever wrote a claim chose numbers only.  The text of a quote never comes from there: it
    is cut here, from the artifact as it is stored.  If this module is wrong, an analysis
    shows words that its source does not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from threegate.artifacts.analysis import Analysis, Cite
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.limits import MAX_QUOTE_CHARS
from threegate.base.sentences import spans
from threegate.host.provenance.texts import Material, Passage


@dataclass(frozen=True, slots=True)
class Quoted:
    """A quote with where it stands."""

    cite: Cite
    text: str  # foreign
    label: str | None = None  # of the claim it is taken from, if it is one


def quote_sentences(
    material: Material, passage: Passage, sentences: Sequence[int]
) -> Quoted | None:
    """Return the passage from the first to the last of these sentences, counted from 1.

    None if there is no such sentence, or they are longer than a quote together.
    """
    found = spans(passage.text.open_for_validation())
    if not sentences or not all(1 <= one <= len(found) for one in sentences):
        return None
    start, end = found[min(sentences) - 1][0], found[max(sentences) - 1][1]
    return quote_span(material, passage.number, passage.start + start, passage.start + end)


def quote_span(material: Material, number: int, start: int, end: int) -> Quoted | None:
    """Return the characters from `start` to `end` of a text, None if that is no quote."""
    text = material.texts[number - 1].open_for_validation()
    quoted = text[start:end]
    if not 0 <= start < end <= len(text) or len(quoted) > MAX_QUOTE_CHARS:
        return None
    digest = sha256_hex(quoted.encode("utf-8"))
    artifact = material.artifact
    label = artifact.claims[number - 1].label if isinstance(artifact, Analysis) else None
    return Quoted(Cite(material.id, number, start, len(quoted), digest), quoted, label)
