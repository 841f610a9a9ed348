"""Cutting text into words, and folding of case, accents and spelling variants.  Pure: no I/O.

Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean,
which joins particles to words, are cut into runs.  A run is compared by pairs of characters.

SECURITY
    Reads text of strangers.  Time is linear in its length; a word is cut to `MAX_WORD_CHARS`.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

MAX_WORD_CHARS: Final = 64

_HANGUL: Final = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"
# Without the punctuation of these blocks.
_NO_SPACES: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff"  # Thai, Lao
    "\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17dc-\u17e9"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
# Points and accents that fold away: Latin, Greek, Cyrillic; Hebrew; Arabic with the tatweel.
_POINTS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
# Vowel signs of Indic scripts are part of a word and stay; `re` does not count them as letters.
_SIGNS: Final = "\u0900-\u0963\u0966-\u0d7f"

# A number keeps its decimals: 45.75 is one word.
_NUMBER: Final = "[0-9]+(?:[.,][0-9]+)+"
_WORD: Final = re.compile(rf"{_NUMBER}|[\w{_POINTS}{_SIGNS}{_NO_SPACES}{_HANGUL}]+")
_ASCII_WORD: Final = re.compile(f"{_NUMBER}|[a-z0-9]+")  # the same, in half the time
_RUN: Final = re.compile(rf"([{_NO_SPACES}{_HANGUL}]+)|[^{_NO_SPACES}{_HANGUL}]+")
_DROPPED: Final = re.compile(f"[{_POINTS}]+")
# A line break inside a run is layout; Korean breaks lines at spaces.
_BROKEN_RUN: Final = re.compile(rf"(?<=[{_NO_SPACES}])[ \t]*\n[ \t]*(?=[{_NO_SPACES}])")
# Soft hyphens, joiners and byte order marks are not seen, so they do not part words.
_UNSEEN: Final = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
# Letters that Unicode does not decompose, by the usual spelling without them.
_SPELLED: Final = str.maketrans(
    {
        **dict(zip("øđðłħŧıŋ", "oddlhtin", strict=True)),
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ß": "ss",
        **dict(zip("ىیکة", "ييكه", strict=True)),  # Arabic and Persian forms of one letter
    }
)


def cut(text: str) -> list[str]:
    """Return the words of a text in lower case, in order; accents and runs are kept."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKC", text.translate(_UNSEEN)).casefold()
    plain = plain.replace("i\u0307", "i").replace("_", " ")  # Turkish capital İ
    return _WORD.findall(_BROKEN_RUN.sub("", plain))


def runs(word: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a word, and whether each is a run of a script without spaces."""
    if word.isascii():
        yield word, False
        return
    for match in _RUN.finditer(word):
        yield match[0], match[1] is not None


def pairs(run: str) -> list[str]:
    """Return each character of a run with the next one; the last one alone.

    A phrase of pairs finds any part of a run, and a prefix of one character any character.
    """
    return [run[at : at + 2] for at in range(len(run))]


def folded(word: str) -> str:
    """Return a word without accents and variants: é is e, ß is ss, ø is o, ı is i."""
    if word.isascii():
        return word[:MAX_WORD_CHARS]
    apart = _DROPPED.sub("", unicodedata.normalize("NFKD", word))
    return unicodedata.normalize("NFC", apart.translate(_SPELLED))[:MAX_WORD_CHARS]
