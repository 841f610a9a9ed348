"""Which elements the style sheets inside a page hide.

A rule that hides is applied where its selector is a plain one and no other rule speaks about
the same property of the same element; where one does, the stronger wins, and where that
depends on the screen or on a state, it is undecided.  Sheets outside the page are not here.

SECURITY
    Sheets of hostile pages.  Selectors are matched by lexbor, a limited number of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from threegate.fetch.normalize.readers.css import (
    WHITE,
    Colour,
    Declarations,
    background,
    colour,
    declarations,
    look,
    same,
)

MAX_SHEET_CHARS: Final = 2_000_000
MAX_SELECTORS: Final = 300  # matched against the page, over all its sheets
MAX_SELECTOR_CHARS: Final = 300
MAX_RULES: Final = 20_000

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_BRACES: Final = re.compile(r"([{}])")
# Plain parts of selectors; anything else is a matter of state, or of another engine.
_PLAIN: Final = re.compile(r"[-\w.#\s>+~*]+(?:\[[-\w]+\][-\w.#\s>+~*]*)*")
_PSEUDO_ELEMENT: Final = re.compile(
    r"::[-\w]+|:(?:before|after|first-line|first-letter|placeholder)\b"
)
_STATE: Final = re.compile(
    r":(?:hover|focus|active|visited|target|checked|disabled|focus-within)\b"
)
# A sheet has thousands of rules and few that hide: only those are read that may.
_MAY_HIDE: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*[hc]|opacity\s*:\s*0?\.?0|opacity\s*\("
    r"|transparent|rgba\s*\(|hsla\s*\(|clip|scale|rotate[xy]|translate|zoom"
    r"|-[0-9]{3}|-[0-9.]+(?:em|rem|%|v[wh])|:\s*[0-9]{4}|font(?:-size)?\s*:[^;]*?\b[01](?![0-9])"
    r"|overflow[^:;]*:[^;]*hidden|background[^;]*;.*?color\s*:|color\s*:.*?background|\\",
    re.DOTALL,
)
# Each of those has one of these in it: to look for words is faster than to look for patterns.
_HIDING_WORDS: Final = (
    *("visib", "opacity", "transparent", "rgba", "hsla", "clip", "scale", "rotate", "translate"),
    *("zoom", ":-", ": -", " -", "(-", "000", "999", "font", "overflow", "background", "\\"),
)
_CLEAR: Final = re.compile(r"#[0-9a-f]{3}0\b|#[0-9a-f]{6}0")  # a colour with no alpha
_SUBJECT: Final = re.compile(r"[-\w.#]+\Z")
_NAMED: Final = re.compile(r"[.#][-\w]+")
_MAY_BE_WHITE: Final = re.compile(r"color\s*:\s*(?:#[ef]|rgb|[a-z])")
_SCREEN: Final = re.compile(r"@media\s+(?:all|screen|only\s+screen)\s*", re.IGNORECASE)
_PAPER: Final = re.compile(
    r"@media\s+print\s*|@(?:font-face|keyframes|page|-webkit-keyframes)\b", re.IGNORECASE
)


class Block:
    """The declarations between two braces, read when somebody asks."""

    __slots__ = ("_found", "hides", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: Declarations | None = None
        self.hides = ""
        words = ("none" in text and "display" in text) or any(w in text for w in _HIDING_WORDS)
        if (words and _MAY_HIDE.search(text)) or ("#" in text and _CLEAR.search(text)):
            self.hides = look(self.found).hidden_by

    @property
    def found(self) -> Declarations:
        """The declarations by property."""
        if self._found is None:
            self._found = declarations(self.text)
        return self._found

    def speaks_of(self, name: str) -> bool:
        """Tell whether a property is set."""
        return (name in self.text or "\\" in self.text) and name in self.found

    def ink(self) -> Colour | None:
        """Return the colour of the text, if one is set that is known."""
        if "\\" not in self.text and not _MAY_BE_WHITE.search(self.text):
            return None
        if "color" not in self.found:
            return None
        return colour(self.found["color"][0])


@dataclass(frozen=True, slots=True)
class Rule:
    """One selector with its declarations; `conditional` where an at-rule stands around it."""

    selector: str
    block: Block
    order: int
    conditional: bool

    def key(self) -> str:
        """Return a class or id an element must have to be meant, as `.a` or `#a`; else empty."""
        subject = _SUBJECT.search(self.selector)
        named = _NAMED.search(subject.group()) if subject else None
        return named.group() if named else ""

    def weight(self, name: str) -> tuple[bool, int, int, int, int]:
        """Return how strongly the rule speaks about a property."""
        selector = self.selector
        classes = selector.count(".") + selector.count("[") + selector.count(":")
        names = len(re.findall(r"(?:^|[\s>+~])[a-zA-Z]", selector))
        return self.block.found[name][1], selector.count("#"), classes, names, self.order


@dataclass(slots=True)
class Sheets:
    """What the sheets of a page say."""

    rules: list[Rule] = field(default_factory=list)
    undecided: int = 0


def read_sheets(texts: Iterator[str]) -> Sheets:
    """Return the rules of style sheets, in order."""
    sheets = Sheets()
    for text in texts:
        if len(text) > MAX_SHEET_CHARS or len(sheets.rules) > MAX_RULES:
            sheets.undecided += 1
            continue
        _read_sheet(_STRING.sub('""', _COMMENT.sub(" ", text)), sheets)
    return sheets


def _read_sheet(text: str, sheets: Sheets) -> None:
    around: list[str] = []
    inner = ""  # what stands since the last brace
    leaf = False  # whether that was an opening one
    for piece in _BRACES.split(text):
        if piece == "{":
            statements, _, prelude = inner.rpartition(";")
            if statements and (not around or around[-1].startswith("@")):
                sheets.undecided += statements.lower().count("@import")
            around.append((prelude if statements else inner).strip())
            inner, leaf = "", True
        elif piece == "}":
            if leaf and around:
                _add_rules(around[-1], inner, around[:-1], sheets)
            del around[-1:]
            inner, leaf = "", False
        else:
            inner = piece
    sheets.undecided += inner.lower().count("@import")


def _add_rules(prelude: str, block: str, around: list[str], sheets: Sheets) -> None:
    if not prelude or prelude.startswith("@") or any(map(_PAPER.match, around)):
        return
    conditional = bool(around) and not all(map(_SCREEN.fullmatch, around))
    shared = Block(block.lower())
    for selector in prelude.split(","):
        sheets.rules.append(Rule(selector.strip(), shared, len(sheets.rules), conditional))


def paper_of(sheets: Sheets) -> Colour | None:
    """Return the colour of the page itself; None where some rule may paint under a text."""
    painting = [rule for rule in sheets.rules if rule.block.speaks_of("background")]
    painting += [rule for rule in sheets.rules if rule.block.speaks_of("background-color")]
    if sheets.undecided or any(rule.conditional for rule in painting):
        return None
    if not all(rule.selector in ("html", "body", ":root") for rule in painting):
        return None
    return background(painting[-1].block.found) if painting else WHITE


class Hiding:
    """The elements of one page that its sheets hide."""

    def __init__(self, page: LexborHTMLParser, sheets: Sheets, paper: Colour | None) -> None:
        self.undecided = sheets.undecided
        self.nodes: dict[int, LexborNode] = {}
        self._page, self._left = page, MAX_SELECTORS
        self._matches: dict[str, dict[int, LexborNode] | None] = {}
        hiding = [rule for rule in sheets.rules if rule.block.hides]
        self._by_key: dict[str, list[Rule]] = {}
        self._forget_unused([rule.selector for rule in hiding])
        for rule in sheets.rules:
            self._by_key.setdefault(rule.key(), []).append(rule)
        for rule in hiding:
            self._apply(rule, rule.block.hides)
        self.inked: list[tuple[LexborNode, Colour]] = []  # in the colour the paper has or may have
        self._find_inked(sheets.rules, paper)

    def _apply(self, rule: Rule, name: str) -> None:
        matched = self._matched(rule.selector)
        if matched is None:
            self.undecided += 1
            return
        for key, node in matched.items():
            if key in self.nodes:
                continue
            verdict = None if rule.conditional else self._stands(rule, name, node)
            if verdict:
                self.nodes[key] = node
            elif verdict is None:
                self.undecided += 1

    def _stands(self, rule: Rule, name: str, node: LexborNode) -> bool | None:
        """Tell whether the rule has the last word about a property; None: undecided."""
        inline = declarations(node.attributes.get("style") or "")
        if name in inline and (inline[name][1] or not rule.block.found[name][1]):
            return False  # the element's own style speaks louder, and is judged by itself
        for other in self._about(node):
            if other is rule or other.block.hides == name or not other.block.speaks_of(name):
                continue
            matched = self._matched(other.selector)
            if matched is None or node.mem_id not in matched:
                continue
            if other.conditional:
                return None
            if other.weight(name) > rule.weight(name):
                return False
        return True

    def _forget_unused(self, selectors: list[str]) -> None:
        """Most rules that hide mean nothing on this page: ask about all of them at once."""
        plain = [text for text in dict.fromkeys(selectors) if self._is_plain(text)]
        plain = plain[:MAX_SELECTORS]
        try:
            if plain and not self._page.css(",".join(plain)):
                self._matches.update((text, {}) for text in plain)
        except SelectolaxError:
            return  # one of them is none; each is asked about by itself

    def _is_plain(self, selector: str) -> bool:
        return len(selector) <= MAX_SELECTOR_CHARS and bool(_PLAIN.fullmatch(selector))

    def _about(self, node: LexborNode) -> Iterator[Rule]:
        """Yield the rules that may mean an element."""
        attributes = node.attributes
        classes = (f".{name}" for name in (attributes.get("class") or "").split())
        for key in ("", f"#{attributes.get('id')}", *classes):
            yield from self._by_key.get(key, ())

    def _find_inked(self, rules: list[Rule], paper: Colour | None) -> None:
        for rule in rules:
            ink = rule.block.ink()
            if ink is None or rule.block.hides == "color" or not same(ink, paper or WHITE):
                continue
            for node in (self._matched(rule.selector) or {}).values():
                stands = None if rule.conditional else self._stands(rule, "color", node)
                if stands:
                    self.inked.append((node, ink))
                elif stands is None:
                    self.undecided += 1

    def _matched(self, selector: str) -> dict[int, LexborNode] | None:
        """Return the elements a selector means; None where that cannot be said."""
        if selector in self._matches:
            return self._matches[selector]
        found: dict[int, LexborNode] | None = None
        if _PSEUDO_ELEMENT.search(selector) or _STATE.search(selector):
            found = {}  # not the element itself, or not as the page first shows
        elif self._left and self._is_plain(selector):
            self._left -= 1
            try:
                found = {node.mem_id: node for node in self._page.css(selector)}
            except SelectolaxError:
                found = None
        self._matches[selector] = found
        return found
