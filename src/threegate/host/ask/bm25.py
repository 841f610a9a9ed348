"""BM25: how well texts answer to the words of a question.  Pure, and the same every time."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

K1: Final = 1.2
B: Final = 0.75
FUSION: Final = 60  # of reciprocal ranks: the usual constant, nothing depends on it much

Key = TypeVar("Key", bound=Hashable)


def bm25(query: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
    """Return the score of each text; 0 for one that has no word of the query."""
    counts = [Counter(text) for text in texts]
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    scores = [0.0] * len(texts)
    for word in query:
        holding = sum(word in count for count in counts)
        weight = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        for number, count in enumerate(counts):
            often = count[word]
            if often:
                length = 1 - B + B * len(texts[number]) / average
                scores[number] += weight * often * (K1 + 1) / (often + K1 * length)
    return scores


def by_score(scores: Mapping[Key, float]) -> list[Key]:
    """Return the keys with a score above 0, best first; equal ones in the order of keys."""
    found = [key for key, score in scores.items() if score > 0]
    return sorted(found, key=lambda key: (-round(scores[key], 9), key))


def fused(*rankings: Sequence[Key]) -> list[Key]:
    """Return one ranking from several, by the sum of reciprocal ranks."""
    scores: dict[Key, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION + place)
    return by_score(scores)
