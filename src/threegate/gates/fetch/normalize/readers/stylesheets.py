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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.css import (
    Declarations,
    Token,
    declared,
    is_variable,
    readings,
    shown,
    split,
    stripped,
    tokens,
)
from threegate.gates.fetch.normalize.readers.looks import RELEVANT
from threegate.gates.fetch.normalize.readers.selectors import (
    MAX_SELECTOR_TOKENS,
    Selector,
    parse_selector,
)
from threegate.gates.fetch.normalize.readers.surroundings import Surroundings, look

MAX_SHEETS_CHARS: Final = 2_000_000  # of all sheets
MAX_SELECTORS_TOKENS: Final = 3_000_000  # of all selectors, once for each rule around them
MAX_RULES: Final = 20_000
MAX_CONDITIONS: Final = 16  # rules that may or may not mean an element
MAX_DEPTH: Final = 16  # of rules in rules

_SCREEN: Final = re.compile(r"@media\s+(?:all|screen|only\s+screen)\s*")
_PAPER: Final = re.compile(r"@media\s+(?:only\s+)?print\s*(?:and\s[^,]*)?|@(?:page|font-face)\b.*")
_FRAMES: Final = re.compile(r"@(?:-\w+-)?keyframes\s+([-\w]*)")
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
    room: int = MAX_SELECTORS_TOKENS
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
    sheets, room = Sheets(), MAX_SHEETS_CHARS
    for sheet in texts:
        room -= len(sheet.text)
        if room < 0:
            sheets.undecided += 1
            continue
        _read(tokens(sheet.text), _Scope(conditional=sheet.conditional), sheets)
    return sheets


class _Scope(NamedTuple):
    """What is around declarations."""

    selectors: Sequence[Sequence[Token]] = ()  # with those of the rules around written out
    conditional: bool = False
    everywhere: bool = False  # one rule around, which means every element
    at_rule: str = ""  # the innermost one, if no rule is in it
    frames: str | None = None  # the name of an animation; empty if not understood
    depth: int = 0


def _read(found: Sequence[Token], scope: _Scope, sheets: Sheets) -> None:
    """Read a sheet, or what is between the braces of a rule."""
    block: list[list[Token]] = []  # declarations
    run: list[Token] = []  # since the last brace or semicolon
    for token in found:
        if token.kind == "{}" and not (scope.selectors and is_variable(run)):
            _add_block(block, scope, sheets)
            _read_rule(run, token.inner, scope, sheets)
            block, run = [], []
        elif token.is_sign(";") and (scope.depth or _at_rule(run)):
            # At the top a semicolon ends only `@import` and the like; it makes a selector void.
            _read_statement(run, sheets)
            block.append(run)
            run = []
        elif (
            scope.depth or run or not (token.text in ("<!--", "-->") or token.kind == "whitespace")
        ):
            run.append(token)
    _read_statement(run, sheets)
    _add_block([*block, run], scope, sheets)


def _at_rule(run: Sequence[Token]) -> str:
    """Return the text of tokens that begin with `@` and a name; empty for others."""
    run = stripped(run)
    return shown(run) if run and run[0].kind == "at-keyword" else ""


def _read_statement(run: Sequence[Token], sheets: Sheets) -> None:
    """Count what reads other sheets or changes what selectors mean, and what is not read."""
    unread = any(token.kind == "unread" for token in run)
    sheets.undecided += unread or _at_rule(run).startswith(("@import", "@namespace"))


def _read_rule(
    prelude: Sequence[Token], inner: Sequence[Token], scope: _Scope, sheets: Sheets
) -> None:
    """Read the block of a rule or of an at-rule."""
    at_rule = _at_rule(prelude)
    sheets.fonts += at_rule.startswith("@font-face")
    if scope.depth >= MAX_DEPTH or sheets.room < 0:
        sheets.undecided += 1
        return
    if _PAPER.fullmatch(at_rule):
        return
    frames = _FRAMES.match(at_rule)
    if at_rule:
        within = scope._replace(
            conditional=scope.conditional or not _SCREEN.fullmatch(at_rule),
            everywhere=False,
            at_rule=at_rule,
            frames=frames[1] if frames else scope.frames,
            depth=scope.depth + 1,
        )
    else:
        ours = [stripped(part) for _, part in split(prelude, ",")]
        everywhere = not scope.depth and not scope.conditional
        within = scope._replace(
            selectors=_nested(scope.selectors, ours) if scope.selectors else ours,
            everywhere=everywhere and not _EVERYWHERE.isdisjoint(map(shown, ours)),
            at_rule="",
            depth=scope.depth + 1,
        )
        sheets.room -= sum(map(len, within.selectors))
    _read(inner, within, sheets)


def _nested(
    outers: Sequence[Sequence[Token]], inners: Sequence[Sequence[Token]]
) -> list[Sequence[Token]]:
    """Return the selectors of a rule in a rule.

    Two more than `MAX_RULES` at most, so that the caller sees the cut; one that is too long
    stays too long, and is not understood.
    """
    pairs = (_joined(outer, inner) for outer in outers for inner in inners)
    return list(islice(pairs, MAX_RULES + 2))


def _joined(outer: Sequence[Token], inner: Sequence[Token]) -> Sequence[Token]:
    if not inner or len(inner) > MAX_SELECTOR_TOKENS:
        return inner  # void as it is; or too long, and it might become much longer
    if any(token.is_sign("&") for token in inner):
        made = [one for token in inner for one in (outer if token.is_sign("&") else (token,))]
    elif _names_outer(inner):  # in `:is(&)`, which is not looked into
        made = list(inner)
    else:
        made = [*outer, Token("whitespace"), *inner]
    return made[: MAX_SELECTOR_TOKENS + 1]


def _names_outer(found: Sequence[Token]) -> bool:
    return any(token.is_sign("&") or _names_outer(token.inner) for token in found)


def _add_block(block: Sequence[Sequence[Token]], scope: _Scope, sheets: Sheets) -> None:
    """Add declarations under the selectors around them."""
    found = declared(block) if scope.depth else {}
    if not found:
        return
    if len(sheets.rules) > MAX_RULES:
        sheets.undecided += 1
        return
    if scope.at_rule.startswith("@property") and "initial-value" in found:
        found = {scope.at_rule.split()[-1]: found["initial-value"]}
    sheets.define(found, everywhere=scope.everywhere)
    found = {name: value for name, value in found.items() if name in RELEVANT}
    if not found:
        return
    if scope.frames is not None:
        blocks = sheets.frames.setdefault(scope.frames, []) if scope.frames else sheets.odd
        blocks.append(found)
        return
    _add_rules(scope, found, sheets)


def _add_rules(scope: _Scope, found: Declarations, sheets: Sheets) -> None:
    """Add declarations once for each selector around them."""
    made: list[Selector] = []
    odd = 0
    for tokens_of_one in scope.selectors:
        sheets.room -= len(tokens_of_one)
        if max(len(sheets.rules) + len(made), len(sheets.odd)) > MAX_RULES or sheets.room < 0:
            sheets.undecided += 1
            break
        try:
            made.append(parse_selector(tokens_of_one))
        except ValueError:
            odd += 1
            sheets.odd.append(found)
    # A browser that refuses one of the selectors ignores the rule.
    conditional = scope.conditional or bool(odd) or not all(one.known for one in made)
    hides = not any(one.state for one in made) or any(look(found, Surroundings())[1:])
    for selector in made:
        # What shows something under the pointer is not there when the page is first shown.
        if not selector.inert and (hides or not selector.state):
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
