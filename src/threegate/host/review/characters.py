"""Deceptive characters in foreign text: found, spelled out and counted.

In code, every character counts that a terminal does not show as what it is: invisible,
reordering and stacking characters, unusual spaces, and letters and signs that look like ASCII.
Prose in any language stays readable: only hidden characters and words that mix alphabets are
spelled out there.

The table of look-alikes covers what Unicode's compatibility mapping does not fold: letters of
alphabets that share shapes with Latin, and signs that look like an operator, a quote or a space.
A missing letter is still found in a word that mixes alphabets.  The table is written as code
points, because a page of the characters themselves could not be reviewed.

SECURITY
    Reads foreign text and says which characters must not be shown as they are.  Every foreign
    text of a report or a page goes through here once.  Opens nothing and prints nothing.  If
    this module is wrong, a human approves something else than they read.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from threegate.base.text import kind_of_forbidden, visible

# -- look-alikes in the fonts of terminals ---------------------------------------------------

_LETTERS: Final = (
    # Cyrillic
    ("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb", "aeopcyxsijh"),
    ("\u0501\u051b\u051d\u0475\u044c\u0433\u043a\u043f\u043c\u0442\u0446", "dqwvbrknmtu"),
    ("\u0432\u043d", "bh"),
    ("\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422", "ABE3KMHOPCT"),
    ("\u0423\u0425\u0405\u0406\u0408\u04ae\u050c\u051a\u051c\u0474\u042c", "YXSIJYGQWVb"),
    # Greek
    ("\u03b1\u03b3\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5", "ayenikvoptu"),
    ("\u03c7\u03c9\u03f2\u03f3", "xwcj"),
    ("\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1", "ABEZHIKMNOP"),
    ("\u03a4\u03a5\u03a7\u03f9\u037f", "TYXCJ"),
    # Armenian
    ("\u0585\u0578\u057d\u0570\u0581\u0566\u0575\u0561\u0584\u0555\u053c", "onuhgqjwpOL"),
    ("\u054f\u054d", "SU"),
    # Cherokee
    ("\u13a0\u13a1\u13a2\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13bd\u13c0", "DRTAJEWMHYG"),
    ("\u13c3\u13da\u13de\u13df\u13e2\u13e6\u13d9\u13d4\u13f4", "ZSLCPKVWB"),
    # Lisu, whose letters have the shapes of Latin capitals
    ("\ua4d0\ua4d1\ua4d3\ua4d4\ua4d6\ua4d7\ua4d9\ua4da\ua4dc\ua4dd\ua4de", "BPDTGKJCZFF"),
    ("\ua4df\ua4e0\ua4e1\ua4e2\ua4e3\ua4e4\ua4e5\ua4e6\ua4e7\ua4e8\ua4e9", "MNLSRRVVHGJ"),
    ("\ua4ea\ua4eb\ua4ec\ua4ee\ua4ef\ua4f0\ua4f2\ua4f3\ua4f4", "WXYAAEIOU"),
    # Coptic
    ("\u2c80\u2c82\u2c88\u2c8e\u2c92\u2c94\u2c98\u2c9a\u2c9e\u2ca2\u2ca4", "ABEHIKMNOPC"),
    ("\u2ca6\u2ca8\u2cac\u2c9f\u2ca3\u2ca5\u2ca9", "TYXopcy"),
    # Latin letters that are not the ones of ASCII
    ("\u0131\u0251\u0261\u0269\u028b\u1d04\u1d0f\u1d20\u1d21\u1d22\ua731", "iagivcovwzs"),
    ("\u01c0\u01bd\u026a\u029f", "l5il"),
)
_SIGNS: Final = (
    ("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u02d7\u2043\ufe58", "----------"),
    ("\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u02bd\u02c8", "'''''''''"),
    ("\u201c\u201d\u201e\u201f\u2033\u02ba\u3003", '"""""""'),
    ("\u02cb\u00b4", "`'"),
    ("\u2215\u2044\u2571\u27cb", "////"),
    ("\u2216\u29f5\u29f9\u27cd", "\\\\\\\\"),
    ("\u2217\u204e\u066d", "***"),
    ("\u02d0\u2236\ua789\u05c3\u0703", ":::::"),
    ("\u037e", ";"),
    ("\u2024\u2025\u2026\u00b7", "...."),
    ("\u066b", ","),
    ("\u2502\u2223\u00a6", "|||"),
    ("\u223c\u02dc", "~~"),
    ("\u02c6", "^"),
    ("\u2039\u02c2\u1438\u276e", "<<<<"),
    ("\u203a\u02c3\u1433\u276f", ">>>>"),
    ("\ua78a\u2550", "=="),
    ("\u2768\u2769\u2772\u2773\u2774\u2775", "()[]{}"),
    ("\u2795", "+"),
    ("\ufe5f\u266f", "##"),
    ("\u2800", " "),
    # Letters for Python: `a = b\u01c3=c` assigns to two names
    ("\u01c3\u01c1\u01c2\u1427\u1428\u1429\u0387", "!|=.-+."),
    ("\ua78b\ua78c\u02ee\u144a", "''''"),
)
# East Asian letters that look like ASCII signs; checked only inside a word.
_IN_A_WORD: Final = (
    ("\u30fc\u4e00\u3161\u1173\u30cb\u4e8c", "----=="),
    ("\u30ce\u4e3f\u4e36\u4e28\u3021", "//\\||"),
    ("\u5341\u5342\u3007", "++0"),
)


def _table(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {
        other: like for others, likes in pairs for other, like in zip(others, likes, strict=True)
    }


LETTERS: Final = _table(_LETTERS)
SIGNS: Final = _table(_SIGNS)
IN_A_WORD: Final = _table(_IN_A_WORD)


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
# Scripts that these languages mix in one word; their letters resemble no Latin letter.
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
    # An author's own `\u{...}` must not look like a character that we spelled out.
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
    """Judge a character without regard to its neighbours."""
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


# -- foreign text in reports and pages -------------------------------------------------------


def on_one_line(foreign: str) -> str:
    """Return foreign text on one line, suspicious characters and line breaks spelled out."""
    return visible(exposed(foreign))


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a foreign table line by line, each column as wide as its widest cell."""
    spelled = [[on_one_line(cell) for cell in row] for row in rows]
    wide = [max(map(len, column)) for column in zip(*spelled, strict=True)]
    return ["  ".join(map(str.ljust, row, wide)).rstrip() for row in spelled]


def in_lines(foreign: str) -> list[str]:
    """Return foreign text line by line, suspicious characters spelled out."""
    return [on_one_line(line.expandtabs(4)) for line in foreign.split("\n")]


def spelled_bytes(row: bytes) -> str:
    """Return bytes as printable ASCII from which they can be read back: others in hex."""
    text = row.decode("latin-1").replace("\\", "\\\\")
    return "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text)
