"""The rules of the style sheets inside a page, and what they say about an element.

Where rules disagree the stronger wins, as in a browser.  What depends on the screen or on a
selector that is only partly understood is another possible reading of the element, and where
readings differ in what is seen the caller counts it as undecided.  Sheets outside the page are
not here.

SECURITY
    Sheets of hostile pages.  Rules, conditions per element and steps of matching are limited,
    and what was left out is counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.css import (
    Declarations,
    declarations,
    pieces,
    plain,
    readings,
)
from threegate.gates.fetch.normalize.readers.looks import RELEVANT
from threegate.gates.fetch.normalize.readers.selectors import (
    MAX_SELECTOR_CHARS,
    Selector,
    parse_selector,
)
from threegate.gates.fetch.normalize.readers.surroundings import Surroundings, look

MAX_SHEET_CHARS: Final = 2_000_000
MAX_PRELUDE_CHARS: Final = 10_000_000  # of selectors, once for each block in their braces
MAX_RULES: Final = 20_000
MAX_CONDITIONS: Final = 16  # rules that may or may not mean an element
MAX_DEPTH: Final = 16  # of braces

_BRACES: Final = re.compile(r"([{}])")
_SCREEN: Final = re.compile(r"@media\s+(?:all|screen|only\s+screen)\s*", re.IGNORECASE)
_PAPER: Final = re.compile(
    r"@media\s+(?:only\s+)?print\s*(?:and\s[^,]*)?|@(?:page|font-face)\b.*", re.IGNORECASE
)
_FRAMES: Final = re.compile(r"@(?:-\w+-)?keyframes\s+([-\w]*)", re.IGNORECASE)


# Selectors of what every element inherits from.
_EVERYWHERE: Final = frozenset((":root", "html", "body", "*", ":host"))


class Sheet(NamedTuple):
    """A sheet as it is in the page; `conditional` where its element says when it counts."""

    text: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One selector with its declarations."""

    selector: Selector
    found: Declarations
    order: int
    conditional: bool


@dataclass(slots=True)
class Sheets:
    """What the sheets of a page say."""

    rules: list[Rule] = field(default_factory=list)
    odd: list[Declarations] = field(default_factory=list)  # of selectors not understood
    frames: dict[str, list[Declarations]] = field(default_factory=dict)  # of animations
    variables: dict[str, set[str]] = field(default_factory=dict)
    undecided: int = 0
    fonts: int = 0
    room: int = MAX_PRELUDE_CHARS

    certain: set[str] = field(default_factory=set)  # variables that are set on every element

    def define(self, found: Declarations, *, everywhere: bool = False) -> None:
        """Note the variables that a block sets."""
        for name, (value, _) in found.items():
            if name.startswith("--"):
                void = value in ("initial", "inherit", "unset", "revert", "revert-layer")
                self.variables.setdefault(name, set()).add("" if void else value)
                if everywhere:
                    self.certain.add(name)

    def settle(self) -> None:
        """Note that variables may be unset, and replace variables in the values of others."""
        for name in self.variables.keys() - self.certain:
            self.variables[name].add("")
        for name, values in self.variables.items():
            block: Declarations = {str(n): (v, False) for n, v in enumerate(sorted(values))}
            if any("var(" in value for value in values):
                made = readings(block, self.variables)
                self.variables[name] = {value for one in made for value, _ in one.values()}


def read_sheets(texts: Iterator[Sheet]) -> Sheets:
    """Return the rules of style sheets, in order."""
    sheets = Sheets()
    for sheet in texts:
        if len(sheet.text) > MAX_SHEET_CHARS:
            sheets.undecided += 1
            continue
        _read_sheet(plain(sheet.text), sheets, conditional=sheet.conditional)
    return sheets


def _read_sheet(text: str, sheets: Sheets, *, conditional: bool) -> None:
    around: list[str] = []  # what stands before the braces that are open
    blocks: list[list[str]] = []  # the declarations in them
    inner = ""  # what stands since the last brace
    for piece in _BRACES.split(text):
        if piece == "{":
            if blocks:
                statements, _, prelude = inner.rpartition(";")
                blocks[-1].append(statements)
            else:
                prelude = _after_statements(inner, sheets)
            around.append(prelude.strip())
            blocks.append([])
            inner = ""
        elif piece == "}":
            if around:
                block = ";".join((*blocks.pop(), inner))
                _add_block(around, block, sheets, conditional=conditional)
                del around[-1]
                inner = ""
            else:
                inner = "}"  # belongs to the selector after it, which is void then
        else:
            inner += piece
            # A brace inside another bracket begins or ends nothing.
            sheets.undecided += not _is_balanced(piece)
    _after_statements(inner, sheets)


def _after_statements(text: str, sheets: Sheets) -> str:
    """Count what reads other sheets or changes what selectors mean; return what stands after."""
    parts = text.split(";")
    for at, part in enumerate(parts[:-1]):
        if not part.lstrip().startswith("@"):
            return ";".join(parts[at:])  # not a selector, and read as one
        sheets.undecided += part.lstrip().lower().startswith(("@import", "@namespace"))
    sheets.undecided += parts[-1].lstrip().lower().startswith(("@import", "@namespace"))
    return parts[-1]


def _is_balanced(text: str) -> bool:
    """Tell whether round and square brackets are closed."""
    if "(" not in text and ")" not in text and "[" not in text and "]" not in text:
        return True
    text = _ESCAPED_BRACKET.sub("", text)
    return text.count("(") == text.count(")") and text.count("[") == text.count("]")


_ESCAPED_BRACKET: Final = re.compile(r"\\[()\[\]\\]")


def _add_block(around: list[str], block: str, sheets: Sheets, *, conditional: bool) -> None:
    """Add the declarations between two braces under the selectors that stand around them."""
    sheets.fonts += around[-1].lower().startswith("@font-face")
    if ":" not in block:
        return
    sheets.room -= sum(map(len, around))
    if len(sheets.rules) > MAX_RULES or len(around) > MAX_DEPTH or sheets.room < 0:
        sheets.undecided += 1
        return
    if any(map(_PAPER.fullmatch, around)):
        return
    found = declarations(block)
    if around[-1].lower().startswith("@property") and "initial-value" in found:
        found = {around[-1].split()[-1].lower(): found["initial-value"]}
    everywhere = (
        len(around) == 1
        and not conditional
        and not _EVERYWHERE.isdisjoint(text.strip() for text in pieces(around[0].lower(), ","))
    )
    sheets.define(found, everywhere=everywhere)
    found = {name: value for name, value in found.items() if name in RELEVANT}
    if not found:
        return
    frames = next(filter(None, map(_FRAMES.match, around)), None)
    if frames is not None:
        name = frames[1].lower()  # empty for a string, or what is not understood
        sheets.frames.setdefault(name, []).append(found) if name else sheets.odd.append(found)
        return
    conditions = [text for text in around if text.startswith("@")]
    conditional = conditional or not all(map(_SCREEN.fullmatch, conditions))
    for selector in _selectors([text for text in around if not text.startswith("@")]):
        sheets.room -= len(selector)
        if max(len(sheets.rules), len(sheets.odd)) > MAX_RULES or sheets.room < 0:
            sheets.undecided += 1
            return
        _add_rule(selector, found, sheets, conditional=conditional)


def _selectors(nested: list[str]) -> list[str]:
    """Return the selectors of a block, those of rules around it written out.

    Two more than `MAX_RULES` at most, so that the caller sees the cut; one that is too long
    stays too long, and is not understood.
    """
    found = [""]
    for prelude in nested:
        inner = [text.strip() for text in pieces(prelude, ",")]
        pairs = (_joined(outer, text) for outer in found for text in inner)
        found = list(islice(pairs, MAX_RULES + 2))
    return found if nested else []


def _joined(outer: str, text: str) -> str:
    if len(text) > MAX_SELECTOR_CHARS:  # written out, it might be much longer
        return text
    joined = text.replace("&", outer) if "&" in text and outer else f"{outer} {text}".strip()
    return joined[: MAX_SELECTOR_CHARS + 1]


def _add_rule(text: str, found: Declarations, sheets: Sheets, *, conditional: bool) -> None:
    try:
        selector = parse_selector(text)
    except ValueError:
        sheets.odd.append(found)
        return
    # What shows something under the pointer is not there when the page is first shown.
    if selector is not None and not (selector.state and not any(look(found, Surroundings())[1:])):
        doubtful = conditional or not selector.sure
        sheets.rules.append(Rule(selector, found, len(sheets.rules), doubtful))


def cascade(rules: list[Rule], own: Declarations, hints: Declarations) -> list[Declarations]:
    """Return the declarations of an element: as they are, and as they may be.

    `own` are those of its `style`, `hints` those of its tag and other attributes.  More
    conditions than `MAX_CONDITIONS` are left out, and the list then is longer than that.
    """
    certain = [rule for rule in rules if not rule.conditional]
    doubtful = [rule for rule in rules if rule.conditional]
    made = [_merged(certain, own, hints)]
    made += [_merged([*certain, rule], own, hints) for rule in doubtful[:MAX_CONDITIONS]]
    if len(doubtful) > 1:
        made.append(_merged([*certain, *doubtful], own, hints))
    return made


def _merged(rules: list[Rule], own: Declarations, hints: Declarations) -> Declarations:
    """Return the winning declaration of each property, weaker ones first."""
    ordered = sorted(rules, key=lambda rule: (rule.selector.weight, rule.order))
    blocks = [hints, *(rule.found for rule in ordered), own]
    merged: Declarations = {}
    for important in (False, True):
        for block in blocks:
            for name, value in block.items():
                if value[1] == important:
                    merged.pop(name, None)  # the later of a shorthand and its parts counts
                    merged[name] = value
    return merged
