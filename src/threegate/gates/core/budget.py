"""How much fits before a model: what is shown at once, in portions if need be.

CORE has no tokenizer, so it guesses high: a token for every two and a half bytes of text.
Where the guess was still too low the server says so, and less is shown.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.core.fences import QuotedSentence

_BYTES_FOR_TWO_TOKENS: Final = 5
_LINE_TOKENS: Final = 4  # the number before a sentence
_SOURCE_TOKENS: Final = 90  # the two lines around a source, marker and provenance
MOST_LINES: Final = 4000  # at once: a form names each by its number, and has a bound
FIXED_TOKENS: Final = 900  # invariants, policy, role and the step's own words


def guessed_tokens(text: str) -> int:
    """Return at least about as many tokens as a model will count."""
    return 2 * len(text.encode("utf-8")) // _BYTES_FOR_TWO_TOKENS + 1


def portions(lines: Sequence[QuotedSentence], room: int) -> list[list[QuotedSentence]]:
    """Return the sentences in as few portions as fit, in order; too long ones are left out."""
    found: list[list[QuotedSentence]] = []
    used = room + 1
    for line in lines:
        size = guessed_tokens(line.text) + _LINE_TOKENS
        if size + _SOURCE_TOKENS > room:
            continue
        new_source = not found or not found[-1] or found[-1][-1].cited.source != line.cited.source
        more = size + (_SOURCE_TOKENS if new_source else 0)
        if used + more > room or len(found[-1]) >= MOST_LINES:
            found.append([])
            used, more = 0, size + _SOURCE_TOKENS
        found[-1].append(line)
        used += more
    return found
