"""What is said of a claim: the most that was checked, and nothing more.

| label | what was checked |
|---|---|
| `source retracted` | a work it rests on was retracted, whatever else holds |
| `unchecked` | it rests on no quote |
| `number differs` | a number of the claim stands in none of its quotes |
| `quote found` | its quotes stand in their sources, and its numbers in the quotes |

A claim that rests on a claim of an earlier analysis is no better founded than that one.

SECURITY
    Looks at claims a model wrote.  If this module is wrong, a claim looks better founded than
    it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from threegate.artifacts.analysis import CLAIM_LABELS
from threegate.host.ask.numbers import differing
from threegate.host.ask.quotes import Quoted
from threegate.host.provenance.retraction import Retracted

QUOTE_FOUND, NUMBER_DIFFERS, UNCHECKED, SOURCE_RETRACTED = CLAIM_LABELS


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim with its label and the quotes it rests on."""

    text: str  # foreign
    label: str
    quotes: tuple[Quoted, ...]


def labelled(text: str, quotes: Sequence[Quoted], retracted: Retracted) -> Checked:
    """Return a claim with its label."""
    kept = tuple(quotes)
    if any(retracted(one.cite.artifact, one.cite.excerpt) for one in kept):
        return Checked(text, SOURCE_RETRACTED, kept)
    if not kept:
        return Checked(text, UNCHECKED, ())
    behind = {one.label for one in kept}
    if UNCHECKED in behind:
        return Checked(text, UNCHECKED, kept)
    if NUMBER_DIFFERS in behind or differing(text, [one.text for one in kept]):
        return Checked(text, NUMBER_DIFFERS, kept)
    return Checked(text, QUOTE_FOUND, kept)


def is_sentence(text: str, quotes: Sequence[str]) -> bool:
    """Tell whether a claim is its only quote, word for word: whoever chose it, no words are new."""
    return list(quotes) == [text]


def counts(labels: Sequence[str]) -> dict[str, int]:
    """Return how many claims have each label, in the order of the table."""
    return {label: labels.count(label) for label in CLAIM_LABELS}
