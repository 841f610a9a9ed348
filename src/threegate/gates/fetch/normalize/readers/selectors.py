"""CSS selectors: which rules mean an element, for all rules at once.

Each part of each selector is one bit of a number.  An element matches a part when it has what
the part names and an element to its left matched the part before; walking a page in document
order, that is a few operations on numbers per element for any number of rules.

SECURITY
    Selectors of hostile sheets.  The engine of lexbor takes time with a power of the depth for
    `a b c d`; this one does not go back.  A part that is not understood (`:not()`, `[a=b]`) is
    left out: the selector then means more elements, and says that it is not `sure`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.css import unescaped

MAX_SELECTOR_CHARS: Final = 300

_NAME: Final = r"(?:\\[0-9a-fA-F]{1,6}\s?|\\.|[-\w]|[^\x00-\x7f])+"
_TOKEN: Final = re.compile(
    rf"(?P<join>\s*[>+~]\s*|\s+)|(?P<key>[.#]{_NAME})|\[\s*(?P<attribute>{_NAME})(?P<value>[^\]]*)\]"
    rf"|(?P<pseudo>::?{_NAME})(?P<inner>\((?:[^()]|\([^()]*\))*\))?|(?P<tag>{_NAME}|\*)"
)
# Of one element: nothing as the page is first shown.
_STATES: Final = frozenset((":hover", ":active", ":visited"))
_FOCUS: Final = frozenset((":focus", ":focus-within", ":focus-visible"))
_PAGE: Final = ("html", "body", "*")
_BOXES: Final = frozenset(("before", "after"))
# Boxes without text of the page; any other pseudo-element may hold some.
_OTHER_BOXES: Final = frozenset(
    ("marker", "selection", "placeholder", "backdrop", "file-selector-button", "cue")
)
_VENDORS: Final = ("::-webkit-", "::-moz-", "::-ms-")


class Part(NamedTuple):
    """One element of a selector: how it is joined to the one before, and what it must have."""

    join: str  # "" for the first, " ", ">", "+" or "~"
    needs: tuple[str, ...]  # keys: `p`, `.a`, `#a`, `[a]`; the rarest first


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector that was understood, at least in part."""

    parts: tuple[Part, ...]
    weight: tuple[int, int, int]
    sure: bool  # whether it means no more elements than it should
    box: bool  # `::before` and `::after`: not the text of the element, and may lie over it
    state: bool = False  # depends on where the pointer or the focus is


def parse_selector(text: str) -> Selector | None:
    """Return a selector; None for one that means nothing on the page as it is first shown.

    Raise ValueError for one that is not understood.
    """
    if len(text) > MAX_SELECTOR_CHARS:
        raise ValueError("long")
    parts: list[Part] = []
    needs: list[str] = []
    join, sure, box, at, pseudo_classes = "", True, False, 0, 0
    pointed = focused = False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError("not a selector")
        at = token.end()
        pseudo = (token["pseudo"] or "").lower()
        if token["join"] is not None:
            parts.append(Part(join, _ordered(needs)))
            needs, join = [], token["join"].strip() or " "
        elif pseudo:
            kind = pseudo.lstrip(":")
            if not token["inner"] and _is_other_box(pseudo, kind):
                return None
            pointed, focused = pointed or pseudo in _STATES, focused or pseudo in _FOCUS
            box = box or kind in _BOXES
            sure = sure and kind == "root"
            needs += ["html"] if kind == "root" else []
            pseudo_classes += 1
        else:
            sure = sure and not (token["value"] or "").strip()
            needs.append(_key(token))
    parts.append(Part(join, _ordered(needs)))
    # Under the pointer itself; an element around it may be the whole page.
    under = pointed and not focused and text.rstrip().lower().endswith(tuple(_STATES))
    if under and not any(need in _PAGE for need in parts[-1].needs):
        return None
    weight = _weight(parts, pseudo_classes)
    return Selector(tuple(parts), weight, sure or box, box, pointed or focused)


def _is_other_box(pseudo: str, kind: str) -> bool:
    return pseudo.startswith("::") and (kind in _OTHER_BOXES or pseudo.startswith(_VENDORS))


def _key(token: re.Match[str]) -> str:
    if token["attribute"] is not None:
        return f"[{unescaped(token['attribute']).lower()}]"
    if token["key"] is not None:
        return token["key"][0] + unescaped(token["key"][1:])
    return unescaped(token["tag"]).lower()


def _ordered(needs: Iterable[str]) -> tuple[str, ...]:
    found = sorted({need for need in needs if need != "*"}, key=lambda need: _rank(need[0]))
    return tuple(found) or ("*",)


def _rank(sign: str) -> int:
    return "#.[".find(sign) % 4


def _weight(parts: Sequence[Part], pseudo_classes: int) -> tuple[int, int, int]:
    signs = [need[0] for part in parts for need in part.needs if need != "*"]
    classes = signs.count(".") + signs.count("[") + pseudo_classes
    return signs.count("#"), classes, len(signs) - signs.count("#") - signs.count(".")


class Trail(NamedTuple):
    """The parts that the elements around and before an element matched."""

    around: int = 0  # any element around it
    parent: int = 0


class Matcher:
    """Many selectors, matched element by element in document order."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self.work = 0  # parts that were looked at one by one
        self._by_key: dict[str, int] = {}
        self._joined = dict.fromkeys(("", " ", ">", "+", "~"), 0)
        self._more: dict[int, tuple[str, ...]] = {}
        self._last: dict[int, int] = {}
        bit = 1
        for number, selector in enumerate(selectors):
            for part in selector.parts:
                self._by_key[part.needs[0]] = self._by_key.get(part.needs[0], 0) | bit
                self._joined[part.join] |= bit
                if len(part.needs) > 1:
                    self._more[bit] = part.needs[1:]
                bit <<= 1
            self._last[bit >> 1] = number
        self._several = sum(self._more)
        self._ends = sum(self._last)

    def match(self, keys: set[str], trail: Trail, before: int, earlier: int) -> int:
        """Return the parts an element matches; `before` is what its left neighbour matched."""
        found = self._by_key.get("*", 0)
        for key in keys:
            found |= self._by_key.get(key, 0)
        joined = self._joined
        found &= (
            joined[""]
            | (joined[" "] & (trail.around << 1))
            | (joined[">"] & (trail.parent << 1))
            | (joined["+"] & (before << 1))
            | (joined["~"] & (earlier << 1))
        )
        for bit in _bits(found & self._several):
            self.work += 1
            if not all(need in keys for need in self._more[bit]):
                found ^= bit
        return found

    def ends(self, found: int) -> int:
        """Return those of the parts that are the last of their selector."""
        return found & self._ends

    def selectors(self, ends: int) -> list[int]:
        """Return the numbers of the selectors with these last parts."""
        return [self._last[bit] for bit in _bits(ends)]


def _bits(number: int) -> Iterable[int]:
    while number:
        bit = number & -number
        yield bit
        number ^= bit
