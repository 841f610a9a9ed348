"""An answer without a model: the sentences nearest to the question, word for word.

Every claim is a sentence of a source and its own quote.  It says nothing that no source says; the
reader judges whether it answers the question.  A few extracts are shown next to a model's answer
too: if the model leaves out half of a question, the other half is often among them.

SECURITY
    Selects sentences that strangers wrote.  A hostile source can get its sentences selected, under
    its own name; it can do nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts.analysis import Cite
from threegate.artifacts.ids import prefix_of
from threegate.base.sentences import spans
from threegate.base.untrusted import Untrusted
from threegate.host.ask.labels import Checked, Quoted, labelled, quote_span
from threegate.host.ask.selection import (
    Nearness,
    Selection,
    bm25,
    by_score,
    fused,
)
from threegate.host.provenance.headlines import Retracted
from threegate.host.provenance.texts import Key, Passage
from threegate.host.words.folding import cut
from threegate.host.words.languages import languages_of
from threegate.host.words.query import question_terms
from threegate.host.words.tokens import tokens_of

MOST_SENTENCES: Final = 8
MOST_BESIDE: Final = 3  # of them next to what a model claims
LEAST_WORDS: Final = 4  # a heading or a broken line answers nothing
ALIKE: Final = 0.8  # share of words from which on a sentence says the same again
BY_MEANING: Final = 128  # sentences whose vectors are computed
PLACE_WEIGHT: Final = 0.5  # a sentence of the best text counts half as much again as of the last


@dataclass(frozen=True, slots=True)
class _Sentence:
    artifact: str
    number: int
    start: int
    end: int
    language: str  # of its text
    words: tuple[str, ...]  # as tokens
    place: int  # of its text in the selection, best 0


def extract(
    selection: Selection, retracted: Retracted, *, most: int, near: Nearness | None = None
) -> list[Checked]:
    """Return the sentences of a selection that answer best, in order of their rank."""
    pieces = _pieces(selection)
    query = question_terms(selection.question, {piece.language for piece in pieces})
    scores = bm25(query, [piece.words for piece in pieces])
    places = max(1, len(selection.passages))
    ranked = by_score(
        {
            number: score * (1 + PLACE_WEIGHT * (1 - pieces[number].place / places))
            for number, score in enumerate(scores)
        }
    )
    if near is not None:
        ranked = fused(ranked, _by_meaning(selection, pieces, ranked, near))
    # What somebody computed for this has no words to be found by.
    asked_for = [number for number, piece in enumerate(pieces) if _is_outcome(selection, piece)]
    claims: list[Checked] = []
    taken: list[_Sentence] = []
    for number in dict.fromkeys([*asked_for, *ranked]):
        if len(claims) >= min(most, MOST_SENTENCES):
            break
        piece = pieces[number]
        quoted = None if _is_known(piece, taken) else _quote(selection, piece)
        if quoted is not None:
            taken.append(piece)
            claims.append(labelled(quoted.text, [quoted], retracted))
    return claims


def beside(
    selection: Selection,
    claims: Sequence[Checked],
    retracted: Retracted,
    near: Nearness | None = None,
) -> list[Checked]:
    """Return the few best sentences, without those that the claims of a model quote already.

    None of an earlier analysis: a model wrote those words.
    """
    quoted = [one.cite for claim in claims for one in claim.quotes]
    own = tuple(one for one in selection.passages if prefix_of(one.artifact) != "an")
    best = extract(replace(selection, passages=own), retracted, most=MOST_BESIDE, near=near)
    return [one for one in best if not any(_within(one.quotes[0].cite, cite) for cite in quoted)]


def _within(cite: Cite, other: Cite) -> bool:
    same = (cite.artifact, cite.excerpt) == (other.artifact, other.excerpt)
    end, other_end = cite.offset + cite.length, other.offset + other.length
    return same and other.offset <= cite.offset and end <= other_end


def _by_meaning(
    selection: Selection, pieces: Sequence[_Sentence], ranked: Sequence[int], near: Nearness
) -> list[int]:
    """Return sentences by meaning: those with words of the question, and of the best texts."""
    worth = dict.fromkeys([*ranked, *range(len(pieces))])
    numbers = {(one.artifact, one.number, one.start): at for at, one in enumerate(pieces)}
    texts = []
    for at in list(worth)[:BY_MEANING]:
        one = pieces[at]
        text = selection.materials[one.artifact].texts[one.number - 1].open_for_validation()
        part = Untrusted(text[one.start : one.end])
        texts.append(Passage(one.artifact, one.number, one.start, part, whole=False))
    return [numbers[key] for key in near.order(selection.question, texts)]


def _pieces(selection: Selection) -> list[_Sentence]:
    found: list[_Sentence] = []
    languages = _languages(selection.passages)
    for place, passage in enumerate(selection.passages):
        text, at = passage.text.open_for_validation(), passage.start
        language = languages[passage.key]
        for start, end in spans(text):
            words = tuple(tokens_of(cut(text[start:end]), language))
            if len(words) >= LEAST_WORDS or passage.artifact.startswith("res-"):
                where = (passage.artifact, passage.number, at + start, at + end)
                found.append(_Sentence(*where, language, words, place))
    return found


def _languages(passages: Sequence[Passage]) -> dict[Key, str]:
    """Return the language of each passage; one that does not tell has that of its artifact."""
    own: dict[str, list[Passage]] = {}
    for passage in passages:
        own.setdefault(passage.artifact, []).append(passage)
    found: dict[Key, str] = {}
    for group in own.values():
        texts = [cut(passage.text.open_for_validation()) for passage in group]
        found.update(zip((passage.key for passage in group), languages_of(texts), strict=True))
    return found


def _is_outcome(selection: Selection, piece: _Sentence) -> bool:
    """Tell whether this is the beginning of the value of a result that is being read back."""
    is_value = piece.artifact.startswith("res-") and piece.number == 1 and piece.start == 0
    return is_value and piece.artifact in selection.first


def _quote(selection: Selection, piece: _Sentence) -> Quoted | None:
    material = selection.materials[piece.artifact]
    return quote_span(material, piece.number, piece.start, piece.end)


def _is_known(piece: _Sentence, taken: Sequence[_Sentence]) -> bool:
    words = set(piece.words)
    for other in taken:
        both = words & set(other.words)
        if len(both) >= ALIKE * max(1, min(len(words), len(set(other.words)))):
            return True
    return False
