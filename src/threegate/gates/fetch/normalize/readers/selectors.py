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

from threegate.gates.fetch.normalize.readers.css import Token, split, stripped

MAX_SELECTOR_TOKENS: Final = 150

# Of one element: nothing as the page is first shown.
_STATES: Final = frozenset(("hover", "active", "visited"))
_FOCUS: Final = frozenset(("focus", "focus-within", "focus-visible"))
_PAGE: Final = ("html", "body", "*")
_BOXES: Final = frozenset(("before", "after"))
# Boxes without text of the page; any other pseudo-element may hold some.
_OTHER_BOXES: Final = frozenset(
    ("marker", "selection", "placeholder", "backdrop", "file-selector-button", "cue")
)
_ELEMENTS: Final = _BOXES | _OTHER_BOXES | {"first-line", "first-letter", "slotted", "part"}
# What all browsers know.
_CLASSES: Final = frozenset(
    re.findall(
        "[-a-z]+",
        "active after any-link autofill before checked default defined dir disabled empty "
        "enabled first-child first-letter first-line first-of-type focus focus-visible focus- "
        "within fullscreen has host hover in-range indeterminate invalid is lang last-child "
        "last-of-type link modal not nth-child nth-last-child nth-last-of-type nth-of-type "
        "only-child only-of-type optional out-of-range placeholder-shown popover-open read-only "
        "read-write required root scope target user-invalid user-valid valid visited where",
    )
)
_VENDORS: Final = ("-webkit-", "-moz-", "-ms-")


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
    inert: bool = False  # means nothing on the page as it is first shown
    known: bool = True  # all browsers take it; where one does not, it ignores the whole rule


class _Pseudo(NamedTuple):
    """A pseudo-class or pseudo-element."""

    name: str
    element: bool  # with two colons
    function: bool

    @property
    def is_other_box(self) -> bool:
        other = self.name in _OTHER_BOXES or self.name.startswith(_VENDORS)
        return self.element and not self.function and other

    @property
    def is_known(self) -> bool:
        # Browsers take any element of WebKit that is not a function (selectors-4, section 4.4).
        webkit = self.element and self.name.startswith("-webkit-") and not self.function
        return webkit or self.name in (_ELEMENTS if self.element else _CLASSES)

    def is_in(self, names: frozenset[str]) -> bool:
        return self.name in names and not self.element


def parse_selector(found: Sequence[Token]) -> Selector:
    """Return a selector; raise ValueError for one that is not understood."""
    if len(found) > MAX_SELECTOR_TOKENS:
        raise ValueError("long")
    parts: list[Part] = []
    pseudos: list[_Pseudo] = []
    sure = True
    for join, compound in _compounds(found):
        needs, its_pseudos, exact = _read_compound(compound)
        parts.append(Part(join, _ordered(needs)))
        pseudos += its_pseudos
        sure = sure and exact
    pointed = any(pseudo.is_in(_STATES) for pseudo in pseudos)
    focused = any(pseudo.is_in(_FOCUS) for pseudo in pseudos)
    box = any(pseudo.name in _BOXES for pseudo in pseudos)
    # Under the pointer itself; an element around it may be the whole page.
    under = pointed and not focused and _ends_in_state(found)
    return Selector(
        tuple(parts),
        _weight(found),
        sure=sure or box,
        box=box,
        state=pointed or focused,
        inert=any(pseudo.is_other_box for pseudo in pseudos)
        or (under and not any(need in _PAGE for need in parts[-1].needs)),
        known=all(pseudo.is_known for pseudo in pseudos),
    )


def _ends_in_state(found: Sequence[Token]) -> bool:
    colon, name = stripped(found)[-2:]
    return colon.is_sign(":") and name.lower in _STATES


def _compounds(found: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """Return what is said of each element, with how it is joined to the one before."""
    made: list[tuple[str, list[Token]]] = [("", [])]
    space = False
    for token in stripped(found):
        if token.kind == "whitespace":
            space = True
        elif token.is_sign(">+~"):
            if not made[-1][1]:
                raise ValueError("not a selector")
            made.append((token.text, []))
        elif token.kind != "comment":
            if space and made[-1][1]:
                made.append((" ", []))
            made[-1][1].append(token)
            space = False
    if not made[-1][1]:
        raise ValueError("not a selector")
    return made


def _read_compound(found: Sequence[Token]) -> tuple[list[str], list[_Pseudo], bool]:
    """Return what an element must have, its pseudo-classes, and whether that is all."""
    needs: list[str] = []
    pseudos: list[_Pseudo] = []
    exact, at = True, 0
    while at < len(found):
        token, following = found[at], found[at + 1] if at + 1 < len(found) else Token("")
        if token.is_sign(":"):
            element = following.is_sign(":")
            at += 1 + element
            pseudos.append(_pseudo(found[at : at + 1], element=element))
            exact = exact and pseudos[-1].name == "root"
            needs += ["html"] if pseudos[-1].name == "root" else []
        elif token.is_sign(".") and following.kind == "ident":
            needs.append(f".{following.text}")
            at += 1
        elif token.kind == "hash":
            needs.append(f"#{token.text}")
        elif token.kind == "[]":
            needs.append(f"[{_attribute(token.inner)}]")
            exact = exact and len(stripped(token.inner)) == 1
        elif at == 0 and (token.kind == "ident" or token.is_sign("*")):
            needs.append(token.lower)
        else:
            raise ValueError("not a selector")
        at += 1
    return needs, pseudos, exact


def _pseudo(found: Sequence[Token], *, element: bool) -> _Pseudo:
    if not found or found[0].kind not in ("ident", "function"):
        raise ValueError("not a selector")
    return _Pseudo(found[0].lower, element, found[0].kind == "function")


def _attribute(found: Sequence[Token]) -> str:
    name, *rest = stripped(found) or [Token("")]
    if name.kind != "ident" or (rest and rest[0].is_sign("|")):
        raise ValueError("not a selector")
    return name.lower


def _ordered(needs: Iterable[str]) -> tuple[str, ...]:
    found = sorted({need for need in needs if need != "*"}, key=lambda need: _rank(need[0]))
    return tuple(found) or ("*",)


def _rank(sign: str) -> int:
    return "#.[".find(sign) % 4


def _weight(found: Sequence[Token]) -> tuple[int, int, int]:
    """Return the specificity of a selector (selectors-4, section 17)."""
    ids = classes = tags = at = 0
    while at < len(found):
        token = found[at]
        if token.is_sign(":") and at + 1 < len(found):
            element = found[at + 1].is_sign(":")
            at += 1 + element
            inner = _weight_inside(found[at]) if at < len(found) else None
            more = inner or ((0, 0, 1) if element else (0, 1, 0))
        elif token.is_sign("."):
            at, more = at + 1, (0, 1, 0)
        else:
            more = _WEIGHTS.get(token.kind, (0, 0, 0))
        ids, classes, tags = ids + more[0], classes + more[1], tags + more[2]
        at += 1
    return ids, classes, tags


_WEIGHTS: Final = {"hash": (1, 0, 0), "[]": (0, 1, 0), "ident": (0, 0, 1)}


def _weight_inside(token: Token) -> tuple[int, int, int] | None:
    """Return the weight of `:is()` and the like: that of the heaviest selector in it."""
    if token.kind == "function" and token.text == "where":
        return 0, 0, 0
    if token.kind == "function" and token.text in ("is", "not", "has"):
        return max(_weight(part) for _, part in split(token.inner, ","))
    return None


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
