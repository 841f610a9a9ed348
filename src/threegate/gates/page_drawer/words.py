"""The place of a quote among the characters of a page.

Both are reduced to letters, digits and mathematical signs before they are compared.  Line breaks,
hyphens, ligatures, accents drawn as separate characters and punctuation do not count.

SECURITY
    Compares text of a hostile PDF with text that the host sent.  Pure: no I/O.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

MAX_PLACES: Final = 64  # of a quote that is there in one piece
MAX_PIECES: Final = 512  # of one that is not
MIN_PIECE_LETTERS: Final = 16  # of a piece that is not a line or a cell
NEAR_LETTERS: Final = 120  # between a short line or cell and its neighbour

Place = tuple[int, int]  # first character and the one after the last
Piece = tuple[int, int]  # first letter and number of letters

# A packet spells some characters out; the page has the characters themselves.
_SPELLED: Final = re.compile(r"\\u\{([0-9a-f]{1,5})\}")
_BREAK: Final = re.compile(r"[\n|]")  # lines, and the cells of a table


def find_words(page: str, words: str) -> tuple[list[Place], bool]:
    """Return where the words are in the text of a page, and whether all of them were found.

    A quote that is not there in one piece is sought line by line and cell by cell: a packet has
    the text in reading order, a page in the order in which it is drawn.
    """
    letters, places = _letters(page)
    words = _unspelled(words)
    sought, _ = _letters(words)
    if not sought:
        return [], False
    found = _whole(letters, sought, lambda at: _is_word(page, places, at, len(sought)))
    found = found or _whole(letters, sought, lambda _: True)
    whole = bool(found)
    pieces = [(at, len(sought)) for at in found]
    if not whole:
        pieces = list(_all_pieces(letters, words))[:MAX_PIECES]
        whole = sum(size for _, size in pieces) == len(sought)
    return [(places[at], places[at + size - 1] + 1) for at, size in pieces], whole


def _unspelled(words: str) -> str:
    text = _SPELLED.sub(lambda match: chr(int(match[1], 16)), words.replace("&lt;", "<"))
    # The halves of a character beyond 16 bits are spelled one by one.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _all_pieces(letters: str, words: str) -> Iterator[Piece]:
    """Yield what can be found of each line or cell.

    A long one, or one that is there once, is found by itself; a short one near to its neighbours.
    """
    parts = [sought for part in _BREAK.split(words) if (sought := _letters(part)[0])]
    found = [_alone(letters, part) for part in parts]
    after = None  # the next part that is found
    following = [after := piece or after for piece in reversed(found)][::-1]
    before = None
    for part, piece, behind in zip(parts, found, following, strict=True):
        piece = piece or _near(letters, part, before, behind)
        if piece is None:
            yield from _fragments(letters, part)
        else:
            before = piece
            yield piece


def _alone(letters: str, part: str) -> Piece | None:
    at = letters.find(part)
    is_clear = len(part) >= MIN_PIECE_LETTERS or letters.find(part, at + 1) < 0
    return (at, len(part)) if at >= 0 and is_clear else None


def _near(letters: str, part: str, before: Piece | None, behind: Piece | None) -> Piece | None:
    for where in ([] if before is None else [sum(before)]) + (
        [] if behind is None else [behind[0]]
    ):
        start = max(0, where - NEAR_LETTERS)
        places = (letters.find(part, where), letters.rfind(part, start, where))
        near = [at for at in places if 0 <= at <= where + NEAR_LETTERS]
        if near:
            return min(near, key=lambda at: abs(at - where)), len(part)
    return None


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
    if character == "|":  # a packet has it between the cells of a table
        return ""
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


def _fragments(letters: str, sought: str) -> Iterator[Piece]:
    """Yield pieces of a text, in its order, each as long as it can be."""
    at = 0
    while at + MIN_PIECE_LETTERS <= len(sought):
        if sought[at : at + MIN_PIECE_LETTERS] not in letters:
            at += 1
            continue
        low, high = MIN_PIECE_LETTERS, len(sought) - at
        while low < high:  # if a piece is there, every shorter one is
            middle = (low + high + 1) // 2
            low, high = (middle, high) if sought[at : at + middle] in letters else (low, middle - 1)
        yield letters.find(sought[at : at + low]), low
        at += low
