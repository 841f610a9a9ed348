"""The end of a run: how it ended, by our own counts, and its value as JSON within a budget.

A program can raise any built-in error with any text.  We count time, output and calls ourselves.
Only the interpreter sees memory and depth, so its own errors must be told apart from a program's:
a memory limit cannot be caught, so a program holds a `MemoryError` only if it made one, and for
that it must spell the name outside the type of an `except` clause.  A `raise` leaves a frame; the
allocator's error has none.

SECURITY
    Reads errors and a value chosen by hostile code.  If `judge` is wrong, a program can call its
    own error a limit, and a run that ends at a memory limit counts as not reproducible.  A value
    may share parts: 26 nodes can expand to gigabytes.  Every part is counted each time it
    occurs, before anything is written.
"""

import ast
import json
import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from pydantic_monty import Frame, MontyCrashedError, MontyError

from threegate.gates.tool_exec.monty.pool import RunWatch

MAX_MESSAGE_CHARS: Final = 2_000
MAX_FRAMES: Final = 8
_OUT_OF_MEMORY: Final = re.compile(r"memory limit exceeded: [0-9]+ bytes > [0-9]+ bytes")


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended; `text` is for stderr."""

    exit: str
    text: str = ""
    text_cut: bool = False
    value: str = ""
    value_cut: bool = False


def judge(exc: MontyError, watch: RunWatch, code: str) -> RunEnd:
    """Return how a run ended that raised an error."""
    if watch.why is not None:
        return reached(watch.why)
    if isinstance(exc, MontyCrashedError):
        if exc.timed_out or watch.late:
            return reached("time")
        return RunEnd("crashed", "the worker crashed")
    inner = exc.exception()
    frames = _frames(exc)
    if isinstance(inner, TimeoutError) and watch.late:
        return reached("time")
    for kind, limit in ((MemoryError, "memory"), (RecursionError, "recursion")):
        if type(inner) is kind and _is_genuine(kind.__name__, frames, code):
            return reached(limit)
    return _described(inner, frames, code)


def reached(limit: str) -> RunEnd:
    """Return the end of a run that reached a limit."""
    return RunEnd(f"limit:{limit}", f"the run reached its limit: {limit}")


def _frames(exc: MontyError) -> list[Frame]:
    traceback = getattr(exc, "traceback", None)
    return list(traceback()) if traceback is not None else []


def _is_genuine(name: str, frames: list[Frame], code: str) -> bool:
    """Tell whether the program cannot have raised this error itself."""
    return (not frames and name == "MemoryError") or not _makes(name, code)


def _makes(name: str, code: str) -> bool:
    """Tell whether the code spells the name anywhere but as the type in an except clause."""
    tree = ast.parse(code)
    caught: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            caught |= {id(item) for item in types}
    return any(
        isinstance(node, ast.Name) and node.id == name and id(node) not in caught
        for node in ast.walk(tree)
    )


def _described(inner: BaseException, frames: list[Frame], code: str) -> RunEnd:
    """Return the error and its traceback in the program's words, cut."""
    name, message = type(inner).__name__, _message(inner)
    if type(inner) is MemoryError and _OUT_OF_MEMORY.fullmatch(message):
        message = "memory limit exceeded"  # the figures differ from run to run
    kept = message[:MAX_MESSAGE_CHARS]
    last = f"{name}: {kept}" if kept else name
    text = "".join([*_shown(frames, code.splitlines()), last])
    return RunEnd("error", text, text_cut=len(kept) < len(message))


def _message(inner: BaseException) -> str:
    # The message may be as large as the interpreter's memory, and `str` would copy it.
    first: Any = inner.args[0] if len(inner.args) == 1 else None
    return first if type(first) is str and not isinstance(inner, KeyError) else str(inner)


def _shown(frames: list[Frame], lines: list[str]) -> list[str]:
    if not frames:
        return []
    # A deep recursion is recognised by its first and its last frames.
    half = MAX_FRAMES // 2
    shown = [_line(frame, lines) for frame in frames]
    if len(shown) > MAX_FRAMES:
        gone = f"  … {len(shown) - MAX_FRAMES} more\n"
        shown = [*shown[:half], gone, *shown[-half:]]
    return ["Traceback (most recent call last):\n", *shown]


def _line(frame: Frame, lines: list[str]) -> str:
    place = f"  line {frame.line}, in {(frame.function_name or '<module>')[:64]}\n"
    source = lines[frame.line - 1].strip()[:120] if 0 < frame.line <= len(lines) else ""
    return place + (f"    {source}\n" if source else "")


MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 14_284  # Python spells at most 4,300 digits


_TOO_MANY: Final = "the value has too many parts or is too deep"


class TooLarge(ValueError):
    """The value does not fit the budget."""


class NotJson(ValueError):
    """The value has no JSON form."""


_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def to_json(value: Any, *, most_bytes: int) -> str:
    """Return `value` as JSON text with sorted keys; raise `TooLarge` or `NotJson`."""
    _count(value, most_bytes)
    text = _ENCODER.encode(value)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as exc:
        raise NotJson("a lone surrogate") from exc
    if size > most_bytes:
        raise TooLarge("the value is larger than the output limit")
    return text


def _count(value: Any, characters: int) -> None:
    """Raise unless every part has a JSON form and all of them fit; one depth after the other."""
    nodes, parts = MAX_NODES - 1, [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for part in parts:
            kind = type(part)
            if kind is str:
                characters -= len(part)
            elif kind is dict:
                nodes -= len(part)
                characters -= _keys(part)
                # Checked before copying: each depth may be twice as wide as the one before.
                below += part.values() if nodes >= 0 else ()
            elif kind is list or kind is tuple:
                nodes -= len(part)
                below += part if nodes >= 0 else ()
            else:
                characters -= _number(part)
            if nodes < 0:
                raise TooLarge(_TOO_MANY)
            if characters < 0:
                raise TooLarge("the value holds too much text")
        if not below:
            return
        parts = below
    raise TooLarge(_TOO_MANY)


def _keys(value: dict[Any, Any]) -> int:
    """Return the characters of all keys."""
    characters = 0
    for key in value:
        if type(key) is not str:
            raise NotJson("a key that is not a text")
        characters += len(key)
    return characters


def _number(value: Any) -> int:
    """Return how many characters a part counts that is neither text nor a container."""
    kind = type(value)
    if value is None or kind is bool:
        return 0
    if kind is int:
        if value.bit_length() > MAX_INTEGER_BITS:
            raise TooLarge("a number is too large")
        # Printing a long number takes quadratic time, so its digits are estimated first.
        return int(value.bit_length()) // 4
    if kind is float:
        if not isfinite(value):
            raise NotJson("NaN or Infinity")
        return 0
    raise NotJson(f"a {kind.__name__}")
