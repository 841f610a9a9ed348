"""A grammar as llama.cpp reads it, for doubles of a model: what it allows, and writing in it.

Rules that refer to themselves are not supported; grammars for bounded replies have none.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""\s*(?:(?P<literal>"(?:[^"\\]|\\.)*")|(?P<chars>\[(?:[^\]\\]|\\.)*\])|(?P<name>[a-zA-Z][\w-]*)
    |(?P<count>\{\d+(?:,\d*)?\})|(?P<sign>::=|[|()?*+]))""",
    re.VERBOSE,
)
_RULE = re.compile(r"^([a-zA-Z][\w-]*)\s*::=", re.MULTILINE)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
MOST = 10_000  # for what has no bound of its own

Names = tuple[str, ...]
# What stands where a text goes, given what was written before it.
Fill = Callable[[str], str]
Chosen = Callable[[list[str]], int]  # which of these, by what each begins with


@dataclass(frozen=True, slots=True)
class Literal:
    text: str

    def regex(self) -> str:
        return re.escape(self.text)


@dataclass(frozen=True, slots=True)
class Chars:
    spelled: str  # as in the grammar, which is how `re` spells it too

    def regex(self) -> str:
        return self.spelled


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple["Node", ...]

    def regex(self) -> str:
        return "".join(part.regex() for part in self.parts)


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple["Node", ...]

    def regex(self) -> str:
        return f"(?:{'|'.join(part.regex() for part in self.parts)})"


@dataclass(frozen=True, slots=True)
class Repeat:
    part: "Node"
    least: int
    most: int

    def regex(self) -> str:
        return f"(?:{self.part.regex()}){{{self.least},{self.most}}}"


Node = Literal | Chars | Sequence | Choice | Repeat


class Grammar:
    """A grammar that was read."""

    def __init__(self, text: str) -> None:
        heads = list(_RULE.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        self._rules = {
            head[1]: text[head.end() : end] for head, end in zip(heads, ends, strict=True)
        }
        self.root = self._named("root", ())
        self._pattern = re.compile(self.root.regex())

    def allows(self, text: str) -> bool:
        """Tell whether this is a text of the grammar."""
        return self._pattern.fullmatch(text) is not None

    def written(self, fill: Fill, chosen: Chosen) -> str:
        """Write a text: as many of everything as there may be, texts as `fill` says.

        `chosen` picks among alternatives.
        """
        text = _Writer(fill, chosen).write(self.root, "")
        assert self.allows(text), text
        return text

    def _named(self, name: str, within: Names) -> Node:
        assert name not in within, f"{name} refers to itself"
        parts = list(_tokens(self._rules[name]))
        node, rest = self._choice(parts, (*within, name))
        assert not rest, rest
        return node

    def _choice(
        self, parts: list[tuple[str, str]], within: Names
    ) -> tuple[Node, list[tuple[str, str]]]:
        found: list[Node] = []
        while True:
            node, parts = self._sequence(parts, within)
            found.append(node)
            if not parts or parts[0] != ("sign", "|"):
                return (found[0] if len(found) == 1 else Choice(tuple(found))), parts
            parts = parts[1:]

    def _sequence(
        self, parts: list[tuple[str, str]], within: Names
    ) -> tuple[Node, list[tuple[str, str]]]:
        found: list[Node] = []
        while parts and parts[0] not in (("sign", "|"), ("sign", ")")):
            (kind, text), parts = parts[0], parts[1:]
            if kind == "count" or text in ("?", "*", "+"):
                found[-1] = _repeated(found[-1], text)
            elif text == "(":
                inner, parts = self._choice(parts, within)
                assert parts[0] == ("sign", ")")
                parts = parts[1:]
                found.append(inner)
            else:
                found.append(self._single(kind, text, within))
        return Sequence(tuple(found)), parts

    def _single(self, kind: str, text: str, within: Names) -> Node:
        if kind == "name":
            return self._named(text, within)
        if kind == "chars":
            return Chars(text)
        plain = re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), text[1:-1])
        return Literal(plain)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        assert match is not None, text[at:]
        assert match.lastgroup is not None
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()


def _repeated(node: Node, text: str) -> Node:
    fixed = {"?": (0, 1), "*": (0, MOST), "+": (1, MOST)}
    if text in fixed:
        return Repeat(node, *fixed[text])
    least, comma, most = text[1:-1].partition(",")
    return Repeat(node, int(least), int(most) if most else (MOST if comma else int(least)))


class _Writer:
    def __init__(self, fill: Fill, chosen: Chosen) -> None:
        self._fill, self._chosen = fill, chosen

    def write(self, node: Node, before: str) -> str:
        if isinstance(node, Literal):
            return node.text
        if isinstance(node, Chars):
            return next(c for c in map(chr, range(32, 127)) if re.fullmatch(node.regex(), c))
        if isinstance(node, Sequence):
            return self._all(node.parts, before)
        if isinstance(node, Choice):
            first = [self.write(part, before) for part in node.parts]
            return first[self._chosen(first)]
        if re.fullmatch(node.part.regex(), "a"):
            return self._text(node, before)
        wanted = self._fill(f"{before}\0")  # how many, where a list goes
        most = min(node.most, max(node.least, int(wanted)))
        return self._all((node.part,) * most, before)

    def _all(self, parts: tuple[Node, ...], before: str) -> str:
        written = ""
        for part in parts:
            written += self.write(part, before + written)
        return written

    def _text(self, node: Repeat, before: str) -> str:
        """Write what is wanted there, each character as the grammar spells it."""
        one = re.compile(node.part.regex())
        units = []
        for character in self._fill(before):
            spelled = {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(character, character)
            units += [spelled] if one.fullmatch(spelled) else []
        units = units[: node.most]
        return "".join([*units, *["a"] * (node.least - len(units))])
