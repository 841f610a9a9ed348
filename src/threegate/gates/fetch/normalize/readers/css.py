"""CSS syntax: tokens, declarations, words, lengths and variables.

SECURITY
    Text of hostile pages, tokenised by tinycss2.  The caller limits the text: tinycss2 needs time
    and memory in proportion to it (250 bytes for each open bracket) and does not recurse.  Its
    tokens become `Token` here; what browsers tokenise in another way is rewritten first.
    Brackets are followed `MAX_NESTING` deep.  A value that is not understood is None, and the
    caller counts it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from math import isfinite
from typing import Any, Final, NamedTuple

from tinycss2 import parse_component_value_list  # type: ignore[import-untyped]

MAX_BLOCK_CHARS: Final = 20_000
MAX_VALUE_CHARS: Final = 1_000  # a longer value is not looked into
MAX_NESTING: Final = 40  # of brackets
MAX_READINGS: Final = 16  # of a block whose variables have several values

UNREAD: Final = "(unread)"  # the name of a declaration in a block that is not read
SPACES: Final = ("whitespace", "comment")

Declarations = dict[str, tuple[str, bool]]  # property -> value, whether it is `!important`

_UNICODE_RANGE: Final = re.compile(r"(?<!\\)([uU])\+(?=[0-9a-fA-F?])")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_IN_NAMES: Final = re.compile(r"[^-\w\x80-\U0010ffff]")
_SIGNS: Final = {"hash": "#", "at-keyword": "@", "ident": ""}
_PIXELS: Final = {
    "": 1.0,
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "rem": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "q": 0.945,
    **{
        kind + side: size
        for kind in ("v", "sv", "lv", "dv", "cq")
        for side, size in (
            *(("w", 12.8), ("h", 7.2), ("min", 7.2)),
            *(("max", 12.8), ("i", 12.8), ("b", 7.2)),
        )
    },
}
_EMS: Final = {"em": 1.0, "ex": 0.5, "ch": 0.5, "ic": 1.0, "cap": 0.7, "lh": 1.2, "rlh": 1.2}
_VARIABLE: Final = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,([^()]*))?\)")


class Token(NamedTuple):
    """A token, or a function or block with the tokens in it."""

    kind: str  # tinycss2's word for it; "bad" makes a declaration void, "unread" was too much
    text: str = ""  # a name or sign without escapes; a number as it is written
    unit: str = ""
    number: float = 0.0
    inner: tuple["Token", ...] = ()

    @property
    def lower(self) -> str:
        """The text, for comparison with words of CSS."""
        return self.text.lower()

    def is_sign(self, signs: str) -> bool:
        """True for one of these characters."""
        return self.kind == "literal" and self.text in signs


def tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a sheet, block or value."""
    # After a broken `url(`, tinycss2 reads `\\)` as `\` and `\)`; browsers read `\\` and `)`.
    text = text.replace("\\\\", "\\5c ")
    # `u+a` is a range of characters for tinycss2; for browsers it is a link next to a `<u>`.
    text = _UNICODE_RANGE.sub(lambda match: f"\\{ord(match[1]):x} +", text)
    try:
        return _tokens(parse_component_value_list(text), 0)
    except ValueError:  # a number of more than 4,300 digits
        return (Token("unread"),)


def _tokens(nodes: list[Any], depth: int) -> tuple[Token, ...]:
    if depth > MAX_NESTING:
        return (Token("unread"),)
    return tuple(_token(node, depth) for node in nodes)


def _token(node: Any, depth: int) -> Token:
    kind: str = node.type
    if kind in SPACES:
        return Token(kind)
    if kind == "literal":
        return Token(kind, node.value)
    if kind in _SIGNS:
        return Token(kind, _SURROGATE.sub("\ufffd", node.value))
    if kind in ("number", "percentage", "dimension"):
        unit = node.lower_unit if kind == "dimension" else "%" if kind == "percentage" else ""
        return Token(kind, node.representation.lower(), unit, node.value)
    if kind == "function":
        return Token(kind, node.lower_name, inner=_tokens(node.arguments, depth + 1))
    if kind.endswith(" block"):
        return Token(kind[:2], inner=_tokens(node.content, depth + 1))
    if kind == "url":
        return Token("function", "url", inner=(Token("string"),))
    if kind == "error" and node.kind.startswith("eof-"):
        return Token("whitespace")  # what is open at the end ends there
    return Token("string" if kind == "string" else "bad")


def shown(found: Iterable[Token]) -> str:
    """Return tokens as text in lower case, in one spelling; strings in it are empty."""
    return "".join(map(_shown, found)).strip()


def _shown(token: Token) -> str:
    kind, text = token.kind, token.lower
    if kind in SPACES:
        return " "
    if kind in _SIGNS:  # an escaped space or bracket in a name separates nothing
        return _SIGNS[kind] + _NOT_IN_NAMES.sub("\ufffd", text)
    if kind in ("number", "percentage", "dimension"):
        return text + token.unit
    if kind in ("function", "()", "[]", "{}"):
        brackets = "()" if kind == "function" else kind
        return f"{text}{brackets[0]}{shown(token.inner)}{brackets[1]}"
    if kind == "literal" and text != "!":  # a stray one makes a declaration void
        return text
    return '""' if kind == "string" else "(bad)"


def stripped(found: Sequence[Token]) -> Sequence[Token]:
    """Return tokens without white space and comments around them."""
    start, end = 0, len(found)
    while start < end and found[start].kind in SPACES:
        start += 1
    while end > start and found[end - 1].kind in SPACES:
        end -= 1
    return found[start:end]


def split(found: Iterable[Token], signs: str) -> list[tuple[str, list[Token]]]:
    """Return the tokens between signs that are not in brackets, each with the sign before it."""
    parts: list[tuple[str, list[Token]]] = [("", [])]
    for token in found:
        if token.is_sign(signs):
            parts.append((token.text, []))
        else:
            parts[-1][1].append(token)
    return parts


def declarations(block: str) -> Declarations:
    """Return the declarations of a `style` attribute, the winning one of each property."""
    runs = [run for _, run in split(tokens(block[:MAX_BLOCK_CHARS]), ";")]
    found = declared(runs)
    # Browsers differ in where a declaration with a block in it ends.
    unsure = any(token.kind == "{}" for run in runs if not is_variable(run) for token in run)
    if len(block) > MAX_BLOCK_CHARS or unsure:
        found[UNREAD] = ("", False)
    return found


def declared(runs: Iterable[Sequence[Token]]) -> Declarations:
    """Return the declarations in the tokens between semicolons, in lower case."""
    found: Declarations = {}
    for run in runs:
        name, value = _named(run)
        if any(token.kind == "unread" for token in run):
            name, value = UNREAD, ()
        important = len(value) > 1 and value[-1].kind == "ident" and value[-1].lower == "important"
        before = stripped(value[:-1]) if important else ()
        important = bool(before) and before[-1].is_sign("!")
        text = shown(before[:-1] if important else value)
        # An empty value is one only of a variable.
        if not name or not (text or name.startswith(("--", UNREAD))):
            continue
        if important or not found.get(name, ("", False))[1]:
            found.pop(name, None)  # the later of a shorthand and its parts counts
            found[name] = (text, important)
    return found


def _named(run: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """Return the name and the value of a declaration; an empty name for anything else."""
    run = stripped(run)
    rest = stripped(run[1:])
    if not rest or run[0].kind != "ident" or not rest[0].is_sign(":"):
        return "", ()
    return run[0].lower, stripped(rest[1:])


def is_variable(run: Sequence[Token]) -> bool:
    """True for the declaration of a variable, which may have blocks in it."""
    return _named(run)[0].startswith("--")


@lru_cache(maxsize=4096)
def _value(text: str) -> tuple[Token, ...]:
    return tokens(text[:MAX_VALUE_CHARS])


def pieces(text: str, end: str) -> list[str]:
    """Return the parts of a value between signs that are not in brackets."""
    return [shown(part) for _, part in split(_value(text), end)]


def words(value: str) -> list[str]:
    """Return the words of a value; a function with its arguments is one word."""
    return _words(_value(value))


def _words(found: Iterable[Token]) -> list[str]:
    made = [""]
    for token in found:
        if token.kind in SPACES or token.is_sign(",/"):
            made.append("")
        else:
            made[-1] += _shown(token)
    return [word for word in made if word]


def call(word: str) -> tuple[str, list[str]]:
    """Return the name of a function and its arguments; an empty name for anything else."""
    found = _value(word)
    if len(found) != 1 or found[0].kind != "function":
        return "", []
    return found[0].text, _words(found[0].inner)


def length(value: str, *, percent: float = 1000.0, em: float = 16.0) -> float | None:
    """Return a length in pixels, roughly; 100 % are `percent`; None for what is not a length."""
    found = _calculated(value, (percent / 100, 1), em)
    if found is not None and found[1] == 0 and (found[0] or "(" in value):
        return None  # of plain numbers only 0 is a length
    return found[0] if found is not None and found[1] in (0, 1) else None


def number(value: str) -> float | None:
    """Return a number; 100 % are 1; None for what is not a number, such as a length."""
    found = _calculated(value, (0.01, 0), 16.0)
    return found[0] if found is not None and found[1] == 0 else None


_Number = tuple[float, int]  # and its power: 0 for a number, 1 for a length


def _calculated(value: str, percent: _Number, em: float) -> _Number | None:
    """Return a number; `percent` is what 1 % means."""
    if len(value) > MAX_VALUE_CHARS:
        return None
    try:
        found = _Arithmetic(percent, em).product(_value(value))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # also other arguments than three
        return None
    return found if isfinite(found[0]) else None


class _Arithmetic(NamedTuple):
    """Numbers with units, and `calc()` of them."""

    percent: _Number
    em: float

    def sum(self, found: Sequence[Token]) -> _Number:
        terms = [(sign, *self.product(part)) for sign, part in split(found, "+-")]
        (power,) = {power for _, _, power in terms}  # a length and a number have no sum
        return sum(-one if sign == "-" else one for sign, one, _ in terms), power

    def product(self, found: Sequence[Token]) -> _Number:
        total, power = 1.0, 0
        for sign, part in split(found, "*/"):
            (token,) = stripped(part)
            one, its_power = self.one(token)
            total = total / one if sign == "/" else total * one
            power += -its_power if sign == "/" else its_power
        return total, power

    def one(self, token: Token) -> _Number:
        if token.kind == "percentage":
            return token.number * self.percent[0], self.percent[1]
        if token.kind in ("number", "dimension"):
            unit = token.unit
            size = self.em * _EMS[unit] if unit in _EMS else _PIXELS[unit]
            return token.number * size, int(bool(unit))
        if token.kind not in ("function", "()"):
            raise ValueError(token.kind)
        values = [self.sum(part) for _, part in split(token.inner, ",")]
        (power,) = {power for _, power in values}
        numbers = [one for one, _ in values]
        return _FUNCTIONS[token.text](*numbers), power


_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "": lambda one: one,
    "calc": lambda one: one,
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "clamp": lambda low, middle, high: max(low, min(middle, high)),
}


def readings(found: Declarations, variables: Mapping[str, set[str]]) -> list[Declarations]:
    """Return the declarations with variables replaced, once for each of their values.

    The value "" stands for an element on which a variable is not set.  Variables that nobody
    sets stay as they are, and are not understood.
    """
    used = {
        match.group(1)
        for value, _ in found.values()
        if "var(" in value
        for match in _VARIABLE.finditer(value)
    }
    if not used:
        return [found]
    names = sorted(name for name in used if name in variables)
    choices = product(*(sorted(variables[name]) for name in names))
    made = []
    for choice in islice(choices, MAX_READINGS + 1):
        values = dict(zip(names, choice, strict=True))
        made.append({name: (_replaced(v, values), mark) for name, (v, mark) in found.items()})
    return made if len(made) <= MAX_READINGS else [*made[:1], found]


def _replaced(value: str, values: Mapping[str, str]) -> str:
    """Replace variables, also those in the values of others, a few levels deep."""
    for _ in range(4):
        if "var(" not in value or len(value) > MAX_VALUE_CHARS:
            break
        value = _VARIABLE.sub(lambda match: _value_of(match, values), value)
    return "unset" if _UNSET in value else value


_UNSET: Final = "(unset)"  # makes a declaration void


def _value_of(match: re.Match[str], values: Mapping[str, str]) -> str:
    fallback = (match[2] or "").strip()
    if values.get(match[1]):
        return values[match[1]]
    return fallback or (_UNSET if match[1] in values else match[0])
