"""Characters that could deceive whoever reads a request, found, spelled out and counted.

In code everything counts that a terminal does not show as what it is: what is invisible,
reorders or stacks, spaces that are no spaces, and letters and signs that pass for ASCII
ones.  Prose in any language stays readable: there, only what hides, and words that mix
alphabets, are spelled out.

SECURITY
    Reads foreign text and returns where it must not be shown as it is.  Opens nothing and
    prints nothing.  If this module is wrong, a human approves something else than they read.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from threegate.base.text import kind_of_forbidden
from threegate.host.review.lookalikes import IN_A_WORD, LETTERS, SIGNS

LOOK_ALIKE: Final = "look-alike"
MIXED: Final = "mixed alphabets"
SPACE: Final = "space"
RIGHT_TO_LEFT: Final = "right-to-left"
COMBINING: Final = "combining"
UNASSIGNED: Final = "unassigned"
INVISIBLE: Final = "invisible"
TAB: Final = "tab"
SPELLED: Final = "spelled like one"

_WORD: Final = re.compile(r"\w+")
_SPELLED: Final = re.compile(r"\\(?=u\{)")
_JOINERS: Final = frozenset("\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10))))
# Written together in one word by whoever writes these languages, and like no Latin letter.
_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL"})
_NO_ALPHABET: Final = frozenset({"MODIFIER", "MATHEMATICAL", "FULLWIDTH", "HALFWIDTH"})
_MOST_STACKED: Final = 2  # marks on one letter in any orthography; more of them reach other lines


@dataclass(frozen=True, slots=True)
class Suspect:
    """Why one character is spelled out, and which ASCII one it looks like, if any."""

    kind: str
    like: str = ""


@dataclass(frozen=True, slots=True)
class FoundCharacter:
    """How often one character was spelled out in one part of a request."""

    kind: str
    point: str
    name: str
    like: str
    where: str
    line: int
    count: int


def spelled(character: str) -> str:
    """Return the one way a character is spelled out everywhere."""
    return f"\\u{{{ord(character):x}}}"


def suspects(line: str, *, code: bool) -> dict[int, Suspect]:
    """Return the characters of one line that must be spelled out, by position."""
    # What an author spelled as we do must not pass for a character we spelled out.
    found = {match.start(): Suspect(SPELLED) for match in _SPELLED.finditer(line)}
    if line.isascii() and line.isprintable():
        return found
    for word in _WORD.finditer(line):
        if not word[0].isascii():
            found.update(_in_word(word[0], word.start(), code=code))
    stacked = 0
    for position, character in enumerate(line):
        stacked = stacked + 1 if unicodedata.combining(character) else 0
        alone = _alone(character, code=code)
        if alone is None and stacked > _MOST_STACKED:
            alone = Suspect(COMBINING)
        if alone is not None:
            found[position] = alone
    return found


def exposed(line: str, *, code: bool = False) -> str:
    """Return one line with every suspect spelled out."""
    found = suspects(line, code=code)
    if not found:
        return line
    return "".join(spelled(c) if place in found else c for place, c in enumerate(line))


def tally(parts: Iterable[tuple[str, str, bool]]) -> tuple[FoundCharacter, ...]:
    """Return what is spelled out in parts (name, text, whether it is code), counted."""
    counts: dict[tuple[str, str, Suspect], list[int]] = {}
    for where, text, code in parts:
        for number, line in enumerate(text.split("\n"), 1):
            for position, suspect in suspects(line, code=code).items():
                seen = counts.setdefault((where, line[position], suspect), [number, 0])
                seen[1] += 1
    return tuple(
        FoundCharacter(
            suspect.kind,
            f"U+{ord(character):04X}",
            unicodedata.name(character, "without a name"),
            suspect.like,
            where,
            line,
            count,
        )
        for (where, character, suspect), (line, count) in counts.items()
    )


@lru_cache(maxsize=4096)
def _alone(character: str, *, code: bool) -> Suspect | None:
    """Judge a character whatever stands beside it."""
    if " " <= character <= "~":
        return None
    if character == "\t":
        return Suspect(TAB)
    kind = kind_of_forbidden(character)
    if kind != "allowed":
        return Suspect(kind)
    if character in _JOINERS:
        return Suspect(INVISIBLE)
    if unicodedata.category(character) in ("Cn", "Co"):
        return Suspect(UNASSIGNED)
    return _alone_in_code(character) if code else None


def _alone_in_code(character: str) -> Suspect | None:
    category = unicodedata.category(character)
    if category == "Zs" or SIGNS.get(character) == " ":
        return Suspect(SPACE, " ")
    if category == "Cf":  # joins and stacks others; most fonts show nothing
        return Suspect(INVISIBLE)
    # Letters written from right to left reorder the operators and names around them.
    if unicodedata.bidirectional(character) in ("R", "AL", "AN"):
        return Suspect(RIGHT_TO_LEFT)
    if category in ("Mn", "Me"):
        return Suspect(COMBINING)
    if category == "Nd":
        return Suspect(LOOK_ALIKE, str(unicodedata.digit(character)))
    like = SIGNS.get(character, "")
    if not like and not category.startswith("L"):
        like = _folded(character)
    return Suspect(LOOK_ALIKE, like) if like else None


def _in_word(word: str, start: int, *, code: bool) -> dict[int, Suspect]:
    likes = [c if c.isascii() else LETTERS.get(c) or _folded(c) for c in word]
    alphabets = {_alphabet(character) for character in word} - {""}
    foreign = [place for place, character in enumerate(word) if not character.isascii()]
    found: dict[int, Suspect] = {}
    if code and len(foreign) < len(word):
        signs = [place for place in foreign if word[place] in IN_A_WORD]
        found = {start + place: Suspect(LOOK_ALIKE, IN_A_WORD[word[place]]) for place in signs}
    if code and all(likes):  # the whole word can be read as ASCII
        return {start + place: Suspect(LOOK_ALIKE, likes[place]) for place in foreign}
    if len(alphabets) > 1:
        letters = [place for place in foreign if _alphabet(word[place]) or likes[place]]
        return {start + place: Suspect(MIXED, likes[place]) for place in letters} | found
    return found


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    """Return the printable ASCII that Unicode calls compatible with a character, or nothing."""
    folded = unicodedata.normalize("NFKC", character)
    return folded if folded.isascii() and folded.isprintable() and folded != " " else ""


@lru_cache(maxsize=4096)
def _alphabet(character: str) -> str:
    """Return the alphabet of a letter, by its name; nothing for what belongs to none or all."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    name = unicodedata.name(character, "")
    first = name.partition(" ")[0]
    writes = " LETTER " in name or " SYLLAB" in name  # syllables with the shapes of V, U and X
    if not writes or first in _NO_ALPHABET or first in _EAST_ASIAN:
        return ""
    return first
