"""What stands in an answer: numbers, names of works, quotes, programs.  Lenient on purpose.

A direct answer is free text.  Whatever can be taken for a number, a citation or a quote is: the
evaluation must not make ThreeGate look better by reading the others narrowly.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.evaluation.material import Work

LEAST_QUOTE_WORDS: Final = 4  # a single word in quotes is emphasis
_NUMBER: Final = re.compile(r"(?<![\w.,])[-\u2212]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w*[\d])")
_SPELT: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
"""
_WORDS: Final = _SPELT.split()
_QUOTED: Final = re.compile(r"\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|^> ?(.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"```[a-zA-Z0-9]*\n(.*?)(?:```|\Z)", re.DOTALL)
_LABEL: Final = re.compile(
    r"\b[SP] ?(\d+)\b|\[(\d+)\]|\b(?:source|packet|work)s? #?(\d+)\b", re.IGNORECASE
)
_MORE: Final = re.compile(r"\b[SP]\d+\b(?:\s*(?:,|and|&)\s*\d+\b)+", re.IGNORECASE)
_ABSTAINS: Final = re.compile(
    r"(?:\b(?:not|no(?!-)|none|cannot)|n['\u2019]t)\b[^.]{0,80}"
    r"\b(?:answer|available|contain|contained|data|"
    r"described|detail|details|find|found|given|include|information|known|listed|mention|"
    r"mentioned|provide|provided|report|reported|say|says|specif\w+|state|stated)\b",
    re.IGNORECASE,
)


def numbers_of(text: str) -> list[float]:
    """Return the numbers of a text in order, also those spelt as words up to twenty."""
    found: list[tuple[int, float]] = []
    for match in _NUMBER.finditer(text):
        spelt = match[0].replace(",", "").replace("\u2212", "-")
        found.append((match.start(), float(spelt)))
    words = [one for one in re.finditer(r"[a-z]+", text.lower()) if one[0] in _WORDS]
    found += [(one.start(), float(_WORDS.index(one[0]))) for one in words]
    return [number for _, number in sorted(found)]


def holds(text: str, value: str) -> bool:
    """Tell whether a text gives a value, in one of the spellings `a|b`."""
    return any(_holds(text, one) for one in value.split("|"))


def _holds(text: str, value: str) -> bool:
    if _NUMBER.fullmatch(value):
        return any(number == float(value) for number in numbers_of(text))
    return re.search(rf"(?<!\w){re.escape(value)}", text, re.IGNORECASE) is not None


def works_named(text: str, shown: Sequence[str], works: Mapping[str, Work]) -> list[str]:
    """Return the works a text cites, in order: by number as they were shown, or by name."""
    found = [(one.start(), next(filter(None, one.groups()))) for one in _LABEL.finditer(text)]
    for match in _MORE.finditer(text):
        found += [(match.start(), number) for number in re.findall(r"\d+", match[0])]
    places = [(at, shown[int(n) - 1]) for at, n in found if 1 <= int(n) <= len(shown)]
    lowered = text.lower()
    for key in shown:
        for name in works[key].names:
            at = re.search(rf"\b{re.escape(name.lower())}\b", lowered)
            places += [(at.start(), key)] if at else []
    return list(dict.fromkeys(key for _, key in sorted(places)))


def quotes_of(text: str) -> list[str]:
    """Return what a text presents as a quote."""
    found = ["".join(groups).strip() for groups in _QUOTED.findall(text)]
    return [one for one in found if len(one.split()) >= LEAST_QUOTE_WORDS]


def is_verbatim(quote: str, texts: Iterable[str]) -> bool:
    """Tell whether a quote stands in one of the texts, but for blanks and its last mark."""
    wanted = _flat(quote).strip(" .,;:\u2026")
    return any(wanted in _flat(text) for text in texts)


def _flat(text: str) -> str:
    return " ".join(text.split())


def program_in(text: str) -> str | None:
    """Return the last program in a text."""
    found = [block.strip("\n") for block in _FENCE.findall(text) if block.strip()]
    return found[-1] if found else None


def without_programs(text: str) -> str:
    """Return a text without its programs."""
    return _FENCE.sub(" ", text)


def abstains(text: str) -> bool:
    """Tell whether a text says that the sources do not answer."""
    return not text.strip() or _ABSTAINS.search(text) is not None


def items_of(value: str) -> list[str]:
    """Return the items of a list that a program came to, each in lower case."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        found = value
    if isinstance(found, dict):
        found = list(found)
    if isinstance(found, str):
        found = [part for part in re.split(r"[\n,;>]+", found) if part.strip()]
    if not isinstance(found, list):
        return []
    return [json.dumps(item, ensure_ascii=False).lower() for item in found]


def number_in(value: str) -> float | None:
    """Return the one number that a program came to; None if there is none or several."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        found = value
    while isinstance(found, list | dict) and len(found) == 1:
        (found,) = found.values() if isinstance(found, dict) else found
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return float(found)
    numbers = numbers_of(found) if isinstance(found, str) else []
    return numbers[0] if len(numbers) == 1 else None
