"""Quotes and labels of claims: a label states the most that was checked, and nothing more.

| label | what was checked |
|---|---|
| `source retracted` | a work it rests on was retracted, regardless of the other checks |
| `unchecked` | it rests on no quote |
| `number differs` | a number of the claim occurs in none of its quotes |
| `quote found` | its quotes occur in their sources, and its numbers in the quotes |

A claim that rests on a claim of an earlier analysis is not better founded than that one.

SECURITY
    Reads claims that a model wrote.  If this module is wrong, a claim looks better founded than it
    is.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from threegate.artifacts.analysis import CLAIM_LABELS, Analysis, Cite
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.limits import MAX_QUOTE_CHARS
from threegate.base.sentences import spans
from threegate.host.provenance.headlines import Retracted
from threegate.host.provenance.texts import Material, Passage

# Quotes: cut by the host out of stored texts, with their place and digest.
#
# SECURITY: the author of a claim chose numbers only. The text of a quote is always cut here, from
# the stored artifact. If this is wrong, an analysis shows words that its source does not have.


@dataclass(frozen=True, slots=True)
class Quoted:
    """A quote with its place."""

    cite: Cite
    text: str  # foreign
    label: str | None = None  # of the claim it is taken from, if it is one


def quote_sentences(
    material: Material, passage: Passage, sentences: Sequence[int]
) -> Quoted | None:
    """Return the passage from the first to the last of these sentences, counted from 1.

    None if there is no such sentence, or they are longer than a quote together.
    """
    found = spans(passage.text.open_for_validation())
    if not sentences or not all(1 <= one <= len(found) for one in sentences):
        return None
    start, end = found[min(sentences) - 1][0], found[max(sentences) - 1][1]
    return quote_span(material, passage.number, passage.start + start, passage.start + end)


def quote_span(material: Material, number: int, start: int, end: int) -> Quoted | None:
    """Return the characters from `start` to `end` of a text, None if that is not a quote."""
    text = material.texts[number - 1].open_for_validation()
    quoted = text[start:end]
    if not 0 <= start < end <= len(text) or len(quoted) > MAX_QUOTE_CHARS:
        return None
    digest = sha256_hex(quoted.encode("utf-8"))
    artifact = material.artifact
    label = artifact.claims[number - 1].label if isinstance(artifact, Analysis) else None
    return Quoted(Cite(material.id, number, start, len(quoted), digest), quoted, label)


# Comparison of the numbers of a claim with its quotes.
#
# A number is compared by its value: `1,200` is `1200`, `0.50` is `.5`, `12 percent` is `12%`,
# `twenty-five` is `25`; -5 is not 5, 12% is not 12, 3 million is not 3. `1,2` may be 1.2 or two
# numbers, so only the same spelling is equal. Units, fractions and multiples in words, and digits
# with blanks between them are beyond this check.
#
# SECURITY: reads words of a model that may obey a source. Digits of every script, with invisible
# characters between them, are read as a reader sees them.

_ONES: Final = """
zero _ two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS: Final = "_ _ twenty thirty forty fifty sixty seventy eighty ninety"
# "one" alone is hardly ever a number; in "twenty-one" it is.
_WORDS: Final = {
    **{word: value for value, word in enumerate(_ONES.split()) if word != "_"},
    **{word: 10 * value for value, word in enumerate(_TENS.split()) if word != "_"},
}
_UNITS: Final = {"one": 1} | {word: value for word, value in _WORDS.items() if 1 < value < 10}
_SCALES: Final = "hundred|thousand|million|billion|trillion"

_SIGN: Final = "[-\u2010-\u2015\u2212\ufe63\uff0d]"
_GROUP: Final = "[,'\u2019\u00a0\u2009\u202f\u066c\uff0c]"
_POINT: Final = "[.\u00b7\u066b\uff0e]"
_PERCENT: Final = r"\s?(?:[%\u066a\ufe6a\uff05]|per\s?cent)"
_NUMBER: Final = re.compile(
    # a sign, not the dash of a range or of a name
    rf"(?P<sign>(?<![\w.)\]%]){_SIGN}(?=[0-9.])|\b(?:minus|negative)\s(?=[0-9.]))?"
    rf"(?P<digits>[0-9]{{1,3}}(?:{_GROUP}[0-9]{{3}})+(?![0-9])(?:{_POINT}[0-9]+)?"
    rf"|(?P<list>[0-9]+(?:,[0-9]+)+)"
    rf"|(?:[0-9]+|(?<!\w)(?=\.[0-9]))(?:{_POINT}[0-9]+)?)"
    r"(?P<power>[eE][-+]?[0-9]{1,3}(?!\w))?"
    # of `10 to 12%` both may be percentages
    rf"(?:(?P<percent>{_PERCENT})|(?P<range>(?=\s?(?:{_SIGN}|to|and|or)\s?[0-9.,]+{_PERCENT})))?"
    rf"|\b(?P<tens>{'|'.join(_TENS.split()[2:])})[-\s](?P<ones>{'|'.join(_UNITS)})\b"
    rf"|\b(?P<word>{'|'.join(_WORDS)})\b|\b(?P<scale>{_SCALES})s?\b",
    re.IGNORECASE,
)
_JOINERS: Final = "\u200c\u200d"
_RAISED_SIGNS: Final = "\u207b\u208b"
MAX_DIGITS: Final = 40

Value = Decimal | str


def differing(claim: str, quotes: Sequence[str]) -> list[str]:
    """Return the numbers of a claim that no quote holds, as the claim spells them."""
    known = {value for quote in quotes for _, values in _numbers(quote) for value in values}
    return [spelled for spelled, values in _numbers(claim) if not known & values]


def _numbers(text: str) -> Iterator[tuple[str, set[Value]]]:
    """Yield every number, and what it may mean."""
    for match in _NUMBER.finditer(_plain(text)):
        yield match.group().strip(), set(_values(match))
    for character in text:
        # `½` and the like have a value, but no digits to compare it by.
        if not character.isascii() and character.isnumeric() and not character.isdigit():
            yield character, {character}


def _values(match: re.Match[str]) -> Iterator[Value]:
    found = match.groupdict()
    if found["scale"]:
        yield found["scale"].lower()
    elif found["word"]:
        yield Decimal(_WORDS[found["word"].lower()]).normalize()
    elif found["tens"]:
        together = _WORDS[found["tens"].lower()] + _UNITS[found["ones"].lower()]
        yield Decimal(together).normalize()
    else:
        value = _value(found)
        if not found["percent"]:
            yield value
        if found["percent"] is not None or found["range"] is not None:
            yield f"{value}%"


def _value(found: dict[str, str]) -> Value:
    sign = "-" if found["sign"] else ""
    if found["list"]:
        return sign + found["list"]
    digits = sign + re.sub(_POINT, ".", re.sub(_GROUP, "", found["digits"]))
    # Numbers with too many digits are equal only in the same spelling.
    if len(digits) > MAX_DIGITS:
        return digits + (found["power"] or "")
    return Decimal(digits + (found["power"] or "")).normalize()


def _plain(text: str) -> str:
    """Return the text with the digits of every script as ASCII; raised ones behind a `^`."""
    if text.isascii():
        return text
    written: list[str] = []
    was_raised = False
    for character in text:
        if character in _JOINERS or unicodedata.category(character)[0] == "M":
            continue
        spelled = "-" if character in _RAISED_SIGNS else _digit(character)
        is_raised = spelled != character and not character.isdecimal()
        written.append(f"^{spelled}" if is_raised and not was_raised else spelled)
        was_raised = is_raised
    return "".join(written)


def _digit(character: str) -> str:
    value = unicodedata.digit(character, None)
    return character if value is None else str(value)


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
    """Tell whether a claim equals its only quote word for word: no words are new."""
    return list(quotes) == [text]


def counts(labels: Sequence[str]) -> dict[str, int]:
    """Return how many claims have each label, in the order of the table."""
    return {label: labels.count(label) for label in CLAIM_LABELS}
