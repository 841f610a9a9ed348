"""Unicode normalization in linear time.

`unicodedata` sorts a row of combining marks by moving each past all before it, which is
quadratic: a megabyte of two marks in turn keeps it busy for hours.

SECURITY
    Works on foreign text.  Text is composed piece by piece, cut before a character that joins
    nothing before it.  Only a row of marks longer than a piece, which no script has, is cut
    inside; such a text is then composed as far as its pieces are.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

PIECE_CHARS: Final = 1024
# Characters that are no marks and join what stands before them: vowels and finals of Hangul,
# and the second halves of vowels in scripts of India and beyond.
_JOINING: Final = frozenset(range(0x1161, 0x1200)) | {
    *(0x09BE, 0x09D7, 0x0B3E, 0x0B56, 0x0B57, 0x0BBE, 0x0BD7, 0x0CC2, 0x0CD5, 0x0CD6, 0x0D3E),
    *(0x0D57, 0x0DCF, 0x0DDF, 0x102E, 0x1B35, 0x11127, 0x1133E, 0x11357, 0x114B0, 0x114BA),
    *(0x114BD, 0x115AF, 0x11930, 0x113B8, 0x113BB, 0x113C2, 0x113C9, 0x1611E, 0x1611F, 0x16120),
    *(0x16129, 0x16D67),
}


def composed(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Return `text` in a normal form."""
    if len(text) <= PIECE_CHARS:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        while end > start and not _begins(text[end]):
            end -= 1
        end = end if end > start else start + PIECE_CHARS
        yield text[start:end]
        start = end
    yield text[start:]


def _begins(character: str) -> bool:
    """Tell whether nothing before `character` can join it."""
    return unicodedata.combining(character) == 0 and ord(character) not in _JOINING
