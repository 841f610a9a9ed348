"""The place of a quote among the characters of a page.

Both are reduced to letters, digits and mathematical signs before they are compared.  Line breaks,
hyphens, ligatures, accents drawn as separate characters and punctuation do not count.

SECURITY
    Compares text of a hostile PDF with text that the host sent.  Pure: no I/O.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

MAX_PLACES: Final = 64  # that are marked on a page
MIN_PIECE_LETTERS: Final = 16  # of a quote whose parts are sought one by one

Place = tuple[int, int]  # first character and the one after the last


def find_words(page: str, words: str) -> tuple[list[Place], bool]:
    """Return where the words are in the text of a page, and whether all of them were found.

    A quote that is not there in one piece is sought in long pieces: a footnote or the end of the
    page may interrupt it.
    """
    letters, places = _letters(page)
    sought, _ = _letters(words)
    if not sought:
        return [], False
    found = _whole(letters, sought, lambda at: _is_word(page, places, at, len(sought)))
    found = found or _whole(letters, sought, lambda _: True)
    if found:
        return [(places[at], places[at + len(sought) - 1] + 1) for at in found], True
    pieces = list(_pieces(letters, sought))
    covered = sum(size for _, size in pieces)
    spans = [(places[at], places[at + size - 1] + 1) for at, size in pieces]
    return spans, covered == len(sought)


def _letters(text: str) -> tuple[str, Sequence[int]]:
    """Return the characters that count, and the place of each in the text."""
    found: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text):
        kept = _folded(character)
        if not kept and character in ".," and _in_number(text, at):
            kept = character
        found.append(kept)
        places += [at] * len(kept)
    return "".join(found), places


@cache
def _folded(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(one for one in plain if unicodedata.category(one) in _COUNTED)


# Letters, digits, currency, mathematical and other signs; no marks, punctuation or spaces.
_COUNTED: Final = frozenset({"Ll", "Lm", "Lo", "Lt", "Lu", "Nd", "Nl", "No", "Sc", "Sm", "So"})


def _in_number(text: str, at: int) -> bool:
    return text[at - 1 : at].isdigit() and text[at + 1 : at + 2].isdigit()


def _whole(letters: str, sought: str, counts: Callable[[int], bool]) -> list[int]:
    found: list[int] = []
    at = letters.find(sought)
    while at >= 0 and len(found) < MAX_PLACES:
        taken = counts(at)
        found += [at] if taken else []
        at = letters.find(sought, at + (len(sought) if taken else 1))
    return found


def _is_word(page: str, places: Sequence[int], at: int, size: int) -> bool:
    """Tell whether letters begin and end where words do: `ice` is not in `price`."""
    start, end = places[at], places[at + size - 1] + 1
    return not (page[start - 1 : start].isalnum() or page[end : end + 1].isalnum())


def _pieces(letters: str, sought: str) -> Iterator[tuple[int, int]]:
    """Yield place and size of pieces of a text, in its order, each as long as it can be."""
    at, count = 0, 0
    while at + MIN_PIECE_LETTERS <= len(sought) and count < MAX_PLACES:
        if sought[at : at + MIN_PIECE_LETTERS] not in letters:
            at += 1
            continue
        low, high = MIN_PIECE_LETTERS, len(sought) - at
        while low < high:  # if a piece is there, every shorter one is
            middle = (low + high + 1) // 2
            low, high = (middle, high) if sought[at : at + middle] in letters else (low, middle - 1)
        yield letters.find(sought[at : at + low]), low
        at, count = at + low, count + 1
