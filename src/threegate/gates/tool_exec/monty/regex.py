"""`re.findall` in linear time per search: Python's own grammar, simulated without backtracking.

The pattern is parsed by the standard library, so syntax and meaning are Python's; the match
is found by following all threads at once (Pike's algorithm), in the order in which a
backtracking engine would try them, so the answer is Python's too.  What cannot be followed
this way (back references, look-around, atomic groups, conditionals) and what has several
groups is refused, not approximated.

SECURITY
    Pattern and text come from approved but hostile code.  Program size, text size and the
    number of steps are bounded; the standard engine, which can take exponential time, is
    never run.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

# The one grammar we must not rewrite; a test compares with `re` on every Python we support.
_parser: Any = re._parser  # type: ignore[attr-defined]  # noqa: SLF001
_constants: Any = re._constants  # type: ignore[attr-defined]  # noqa: SLF001

MAX_PATTERN_CHARS: Final = 1000
MAX_PROGRAM: Final = 2000
MAX_TEXT_CHARS: Final = 64 * 1024
MAX_STEPS: Final = 300_000  # a quarter of a second; nothing interrupts a search
MAX_REPEAT: Final = 500
# An empty text has no boundary and, to Python before 3.14, no non-boundary either.
_EMPTY_IS_NON_BOUNDARY: Final = re.compile(r"\B").fullmatch("") is not None


class PatternRefused(ValueError):
    """The pattern is wrong, or cannot be matched within bounds."""


Predicate = Callable[[str], bool]
Assertion = Callable[[str, int], bool]


@dataclass(slots=True)
class _Program:
    """Instructions of the simulated machine, as parallel lists."""

    ops: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, *instruction: Any) -> int:
        if len(self.ops) >= MAX_PROGRAM:
            raise PatternRefused("pattern is too large")
        self.ops.append(instruction)
        return len(self.ops) - 1


def findall(pattern: str, text: str) -> list[str]:
    """Return what `re.findall(pattern, text)` returns, or raise `PatternRefused`."""
    if len(pattern) > MAX_PATTERN_CHARS or len(text) > MAX_TEXT_CHARS:
        raise PatternRefused("pattern or text is too long")
    program, group = compile_pattern(pattern)
    return _Search(program, text, group).all()


def compile_pattern(pattern: str) -> tuple[list[tuple[Any, ...]], int]:
    """Return the program of a pattern and the group `findall` reports."""
    try:
        # A pattern that Python warns about may mean something else in the next version.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = _parser.parse(pattern, 0)
    except (re.error, RecursionError, OverflowError, ValueError, Warning) as exc:
        raise PatternRefused("pattern is not a regular expression") from exc
    flags = tree.state.flags
    if flags & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE | re.ASCII):
        raise PatternRefused("flag is not supported")
    groups = tree.state.groups - 1
    if groups > 1:
        raise PatternRefused("more than one group")
    program = _Program()
    try:
        _Compiler(program).sequence(tree, flags)
    except RecursionError as exc:
        raise PatternRefused("pattern is nested too deeply") from exc
    program.add("match")
    return program.ops, groups


class _Compiler:
    """Turns the standard library's parse tree into instructions."""

    def __init__(self, program: _Program) -> None:
        self._program = program

    def sequence(self, items: Any, flags: int) -> None:
        for op, argument in items:
            self._item(op, argument, flags)

    def _item(self, op: Any, argument: Any, flags: int) -> None:
        name = str(op)
        handler = _HANDLERS.get(name)
        if handler is None:
            raise PatternRefused(f"{name.lower().replace('_', ' ')} is not supported")
        handler(self, argument, flags)

    def literal(self, argument: Any, flags: int) -> None:
        self._program.add("char", _literal(argument, flags))

    def not_literal(self, argument: Any, flags: int) -> None:
        inside = _literal(argument, flags)
        self._program.add("char", lambda c: not inside(c))

    def any(self, _: Any, flags: int) -> None:
        everything = bool(flags & re.DOTALL)
        self._program.add("char", (lambda _c: True) if everything else (lambda c: c != "\n"))

    def char_set(self, argument: Any, flags: int) -> None:
        self._program.add("char", _char_set(argument, flags))

    def at(self, argument: Any, flags: int) -> None:
        self._program.add("assert", _assertion(str(argument), flags))

    def branch(self, argument: Any, flags: int) -> None:
        _, choices = argument
        ends = []
        for choice in choices[:-1]:
            split = self._program.add("split", 0, 0)
            self.sequence(choice, flags)
            ends.append(self._program.add("jump", 0))
            self._program.ops[split] = ("split", split + 1, len(self._program.ops))
        self.sequence(choices[-1], flags)
        for end in ends:
            self._program.ops[end] = ("jump", len(self._program.ops))

    def subpattern(self, argument: Any, flags: int) -> None:
        group, add_flags, del_flags, items = argument
        inner = (flags | add_flags) & ~del_flags
        if group is not None:
            self._program.add("save", 2 * group)
        self.sequence(items, inner)
        if group is not None:
            self._program.add("save", 2 * group + 1)

    def greedy(self, argument: Any, flags: int) -> None:
        self._repeat(argument, flags, greedy=True)

    def lazy(self, argument: Any, flags: int) -> None:
        self._repeat(argument, flags, greedy=False)

    def _repeat(self, argument: Any, flags: int, *, greedy: bool) -> None:
        low, high, items = argument
        unbounded = high is _constants.MAXREPEAT
        if low > MAX_REPEAT or (not unbounded and high > MAX_REPEAT):
            raise PatternRefused("repeat count is too large")
        if _may_be_empty(items):
            # Backtracking engines stop an empty round in ways that differ from this machine's.
            raise PatternRefused("a repeated part can match nothing")
        for _ in range(low):
            self.sequence(items, flags)
        if unbounded:
            self._star(items, flags, greedy=greedy)
            return
        splits = []
        for _ in range(high - low):
            splits.append(self._program.add("split", 0, 0))
            self.sequence(items, flags)
        for split in splits:
            self._set_split(split, split + 1, len(self._program.ops), greedy=greedy)

    def _star(self, items: Any, flags: int, *, greedy: bool) -> None:
        split = self._program.add("split", 0, 0)
        self.sequence(items, flags)
        self._program.add("jump", split)
        self._set_split(split, split + 1, len(self._program.ops), greedy=greedy)

    def _set_split(self, split: int, into: int, past: int, *, greedy: bool) -> None:
        self._program.ops[split] = ("split", into, past) if greedy else ("split", past, into)


_HANDLERS: Final[dict[str, Callable[[_Compiler, Any, int], None]]] = {
    "LITERAL": _Compiler.literal,
    "NOT_LITERAL": _Compiler.not_literal,
    "ANY": _Compiler.any,
    "IN": _Compiler.char_set,
    "AT": _Compiler.at,
    "BRANCH": _Compiler.branch,
    "SUBPATTERN": _Compiler.subpattern,
    "MAX_REPEAT": _Compiler.greedy,
    "MIN_REPEAT": _Compiler.lazy,
}


def _may_be_empty(items: Any) -> bool:
    return bool(items.getwidth()[0] == 0)


def _literal(code: int, flags: int) -> Predicate:
    wanted = chr(code)
    if not flags & re.IGNORECASE:
        return lambda c: c == wanted
    return _fold_test(re.compile(re.escape(wanted), flags & (re.IGNORECASE | re.ASCII)))


def _fold_test(single: re.Pattern[str]) -> Predicate:
    # One character against one literal: no repetition, so the standard engine is bounded here.
    return lambda c: single.fullmatch(c) is not None


def _char_set(items: Any, flags: int) -> Predicate:
    tests: list[Predicate] = []
    negate = False
    for op, argument in items:
        name = str(op)
        if name == "NEGATE":
            negate = True
        elif name == "LITERAL":
            tests.append(_literal(argument, flags))
        elif name == "RANGE":
            tests.append(_range(argument, flags))
        elif name == "CATEGORY":
            tests.append(_category(str(argument), flags))
        else:
            raise PatternRefused(f"{name.lower()} is not supported")
    if negate:
        return lambda c: not any(test(c) for test in tests)
    return lambda c: any(test(c) for test in tests)


def _range(bounds: tuple[int, int], flags: int) -> Predicate:
    low, high = chr(bounds[0]), chr(bounds[1])
    if not flags & re.IGNORECASE:
        return lambda c: low <= c <= high
    source = f"[{re.escape(low)}-{re.escape(high)}]"
    return _fold_test(re.compile(source, flags & (re.IGNORECASE | re.ASCII)))


def _category(name: str, flags: int) -> Predicate:
    letter = {
        "CATEGORY_DIGIT": r"\d",
        "CATEGORY_NOT_DIGIT": r"\D",
        "CATEGORY_SPACE": r"\s",
        "CATEGORY_NOT_SPACE": r"\S",
        "CATEGORY_WORD": r"\w",
        "CATEGORY_NOT_WORD": r"\W",
    }[name]
    return _fold_test(re.compile(letter, flags & re.ASCII))


def _assertion(name: str, flags: int) -> Assertion:
    word = _category("CATEGORY_WORD", flags)

    def boundary(text: str, at: int) -> bool:
        before = at > 0 and word(text[at - 1])
        after = at < len(text) and word(text[at])
        return before != after

    known: dict[str, Assertion] = {
        "AT_BEGINNING_STRING": lambda _, at: at == 0,
        "AT_END_STRING": lambda text, at: at == len(text),
        "AT_BOUNDARY": boundary,
        "AT_NON_BOUNDARY": lambda text, at: (
            not boundary(text, at) if text else _EMPTY_IS_NON_BOUNDARY
        ),
    }
    if name == "AT_BEGINNING":
        if flags & re.MULTILINE:
            return lambda text, at: at == 0 or text[at - 1] == "\n"
        return lambda _, at: at == 0
    if name == "AT_END":
        if flags & re.MULTILINE:
            return lambda text, at: at == len(text) or text[at] == "\n"
        return lambda text, at: at == len(text) or (at == len(text) - 1 and text[at] == "\n")
    return known[name]


class _Search:
    """All matches of one program in one text."""

    def __init__(self, program: list[tuple[Any, ...]], text: str, group: int) -> None:
        self._program, self._text, self._group = program, text, group
        self._steps = 0

    def all(self) -> list[str]:
        found: list[str] = []
        at, must_advance = 0, False
        while at <= len(self._text):
            saved = self._first(at, must_advance=must_advance)
            if saved is None:
                break
            start, end = saved[0], saved[1]
            found.append(self._reported(saved))
            # After an empty match Python looks for a non-empty one at the same place first.
            must_advance = start == end
            at = end
        return found

    def _reported(self, saved: dict[int, int]) -> str:
        if self._group == 0:
            return self._text[saved[0] : saved[1]]
        start, end = saved.get(2), saved.get(3)
        return "" if start is None or end is None else self._text[start:end]

    def _first(self, begin: int, *, must_advance: bool) -> dict[int, int] | None:
        """Return the leftmost match from `begin`, by the priority of a backtracking engine."""
        threads: list[tuple[int, dict[int, int]]] = []
        best: dict[int, int] | None = None
        for at in range(begin, len(self._text) + 1):
            seen: set[int] = set()
            current: list[tuple[int, dict[int, int]]] = []
            for pc, saved in threads:
                self._follow(current, seen, pc, at, saved)
            if best is None:
                self._follow(current, seen, 0, at, {0: at})
            threads = []
            for pc, saved in current:
                op = self._program[pc]
                if op[0] == "match":
                    if must_advance and saved[0] == begin == at:
                        continue  # the empty match that was reported already
                    best = {**saved, 1: at}
                    break  # threads behind this one are of lower priority
                if at < len(self._text) and op[1](self._text[at]):
                    threads.append((pc + 1, saved))
            if best is not None and not threads:
                break
        return best

    def _follow(
        self,
        current: list[tuple[int, dict[int, int]]],
        seen: set[int],
        pc: int,
        at: int,
        saved: dict[int, int],
    ) -> None:
        """Add the thread at `pc` and everything it reaches without reading a character."""
        stack = [(pc, saved)]
        while stack:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise PatternRefused("matching takes too many steps")
            here, marks = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            op = self._program[here]
            if op[0] == "jump":
                stack.append((op[1], marks))
            elif op[0] == "split":
                stack.append((op[2], marks))
                stack.append((op[1], marks))
            elif op[0] == "save":
                stack.append((here + 1, {**marks, op[1]: at}))
            elif op[0] == "assert":
                if op[1](self._text, at):
                    stack.append((here + 1, marks))
            else:
                current.append((here, marks))
