"""The grammar of CSS as far as hiding takes it: declarations, words, lengths and variables.

SECURITY
    Reads text of hostile pages.  Brackets, strings, comments and escapes are read as a
    browser reads them, so that nothing hides in them.  A value that is not understood is None,
    and the caller counts it.  Work is linear in the text.
"""

import re
from collections.abc import Mapping
from itertools import islice, product
from math import isfinite
from typing import Final

MAX_BLOCK_CHARS: Final = 20_000
MAX_VALUE_CHARS: Final = 1_000  # a longer value is not looked into
MAX_READINGS: Final = 16  # of a block whose variables have several values

UNREAD: Final = "(unread)"  # stands for the declarations of a block that is too long

Declarations = dict[str, tuple[str, bool]]  # property -> value, whether it is `!important`

# Comments, strings and addresses hide each other: one pattern finds whichever comes first.
# The letters of `url` may be escaped, and so may a bracket inside it.
_OPAQUE: Final = re.compile(
    r"/\*.*?(?:\*/|\Z)"
    r"|\"(?:[^\"\\\n]|\\.?)*+(?:\"|\n|\Z)|'(?:[^'\\\n]|\\.?)*+(?:'|\n|\Z)"
    r"|(?<![-\w\\\x80-\U0010ffff])(?:u|\\0{0,4}[57]5\s?|\\u)(?:r|\\0{0,4}[57]2\s?|\\r)"
    r"(?:l|\\0{0,4}[46]c\s?|\\l)\(\s*+(?=[^\"'()\s])(?:[^)\\]|\\.?)*+(?:\)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_NEWLINES: Final = re.compile(r"\r\n|[\r\f]")  # a string ends at each of them
_ESCAPE: Final = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)", re.DOTALL)
_END: Final = re.compile(r"[;,/(){}\[\]]")
_WORD: Final = re.compile(r"[^\s,/()]+|[\s,/]+|[()]")
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
_TOKEN: Final = re.compile(
    r"\s*(?:([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]{1,3})?)(%|[a-z]*)"
    r"|(calc|min|max|clamp|)\(|([-+*/,)]))\s*"
)
_MAX_TOKENS: Final = 64
_GLUED: Final = (".", "#", ":", "[")
_VARIABLE: Final = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,([^()]*))?\)")


def plain(text: str) -> str:
    """Return a sheet or block with comments, strings and addresses emptied."""
    return _OPAQUE.sub(_emptied, _NEWLINES.sub("\n", text))


def _emptied(match: re.Match[str]) -> str:
    start = match.group()[0]
    if start == "/":  # `p/**/.a` means one element, and `p .a` another
        return "" if match.string[match.end() : match.end() + 1] in _GLUED else " "
    return '""' if start in "\"'" else 'url("")'


def unescaped(text: str) -> str:
    """Return a text without escapes."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    if match.group(2) is not None:
        return match.group(2)
    code = int(match.group(1), 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def declarations(block: str) -> Declarations:
    """Return the declarations of a block, lower case, the winning one of each property."""
    found: Declarations = {}
    for piece in pieces(plain(block[:MAX_BLOCK_CHARS]), ";"):
        name, colon, value = unescaped(piece).lower().partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name or not value:
            continue
        value, mark, _ = value.partition("!")
        important = bool(mark)
        if important or not found.get(name, ("", False))[1]:
            found[name] = (value.strip(), important)
    if len(block) > MAX_BLOCK_CHARS:
        found[UNREAD] = ("", False)
    return found


def pieces(text: str, end: str) -> list[str]:
    """Return what stands between semicolons or commas that are in no bracket."""
    if not any(bracket in text for bracket in "({["):
        return text.split(end)
    found, start, depth = [], 0, 0
    for match in _END.finditer(text):
        if match.group() in "({[":
            depth += 1
        elif match.group() in ")}]":
            depth = max(0, depth - 1)
        elif match.group() == end and not depth:
            found.append(text[start : match.start()])
            start = match.end()
    return [*found, text[start:]]


def words(value: str) -> list[str]:
    """Return the words of a value; a function with its arguments is one word."""
    found, depth, now = [], 0, ""
    for piece in _WORD.findall(value[:MAX_VALUE_CHARS]):
        depth += (piece == "(") - (piece == ")")
        if depth <= 0 and piece[0] in " \t\n\r\f,/":
            found.append(now)
            now = ""
        else:
            now += piece
    return [word for word in (*found, now) if word]


def call(word: str) -> tuple[str, list[str]]:
    """Return the name of a function and its arguments; an empty name for anything else."""
    name, bracket, rest = word.partition("(")
    return (name, words(rest[:-1])) if bracket and rest.endswith(")") else ("", [])


def length(value: str, *, percent: float = 1000.0, em: float = 16.0) -> float | None:
    """Return a length in pixels, roughly; 100 % are `percent`; None for what is not a length."""
    found = _calculated(value, percent / 100, 1, em)
    if found is not None and found[1] == 0 and (found[0] or "(" in value):
        return None  # of plain numbers only 0 is a length
    return found[0] if found is not None and found[1] in (0, 1) else None


def number(value: str) -> float | None:
    """Return a number; 100 % are 1; None for what is not a number, such as a length."""
    found = _calculated(value, 0.01, 0, 16.0)
    return found[0] if found is not None and found[1] == 0 else None


def _calculated(value: str, percent: float, power: int, em: float) -> "_Value | None":
    """Return a value and its power of a length; a percentage has the power `power`."""
    tokens: list[tuple[str, ...]] = []
    at = 0
    while at < len(value) and len(tokens) < _MAX_TOKENS:
        match = _TOKEN.match(value, at)
        if match is None:
            return None
        tokens.append(match.groups(""))
        at = match.end()
    if at < len(value) or not tokens:
        return None
    sums = _Sums(tokens, (percent, power), em)
    try:
        found = sums.total()
    except (ArithmeticError, LookupError, ValueError):
        return None
    return found if sums.at == len(tokens) and isfinite(found[0]) else None


_Value = tuple[float, int]  # and its power: 0 for a number, 1 for a length


class _Sums:
    """Arithmetic over the tokens of a length."""

    def __init__(self, tokens: list[tuple[str, ...]], percent: _Value, em: float) -> None:
        self.at, self._tokens, self._percent, self._em = 0, tokens, percent, em

    def _next(self, signs: str) -> str:
        if self.at < len(self._tokens):
            sign = self._tokens[self.at][3]
            if sign and sign in signs:
                self.at += 1
                return sign
        return ""

    def total(self) -> _Value:
        found, power = self._product()
        while self.at < len(self._tokens):
            # `1px -2px` inside calc is a sum too.
            if not (sign := self._next("+-")) and self._tokens[self.at][0][:1] not in ("+", "-"):
                break
            other, other_power = self._product()
            if power != other_power:
                raise ValueError("a sum of unlike things")
            found += -other if sign == "-" else other
        return found, power

    def _product(self) -> _Value:
        found, power = self._one()
        while sign := self._next("*/"):
            other, other_power = self._one()
            found = found * other if sign == "*" else found / other
            power += other_power if sign == "*" else -other_power
        return found, power

    def _one(self) -> _Value:
        digits, unit, function, sign = self._tokens[self.at]
        self.at += 1
        if digits:
            if unit == "%":
                return float(digits) * self._percent[0], self._percent[1]
            size = self._em * _EMS[unit] if unit in _EMS else _PIXELS[unit]
            return float(digits) * size, int(bool(unit))
        if sign:
            raise ValueError(sign)
        values = [self.total()]
        while self._next(","):
            values.append(self.total())
        if not self._next(")") or len({power for _, power in values}) > 1:
            raise ValueError("not closed, or of unlike things")
        if function == "clamp":
            low, middle, high = values
            return max(low, min(middle, high))
        return max(values) if function == "max" else min(values)


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
