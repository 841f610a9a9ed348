"""How a run ended, judged by what we saw and not by what the program says about itself.

A program can raise any built-in error with any text.  Time, output and calls are counted by
us.  Memory and depth only the interpreter sees, and this tells its own errors from a
program's: a memory limit cannot be caught, so a program holds a `MemoryError` only if it
made one, and for that it must spell the name outside the type of an `except` clause.  A
`raise` leaves a frame behind; the allocator's last word has none.

SECURITY
    Reads errors chosen by hostile code.  If this module is wrong, a program can call its
    own error a limit, and a run that ends at a memory limit counts as not reproducible.
"""

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic_monty import Frame, MontyCrashedError, MontyError

from threegate.gates.tool_exec.monty.watch import Watch

MAX_MESSAGE_CHARS: Final = 2_000
MAX_FRAMES: Final = 8
_OUT_OF_MEMORY: Final = re.compile(r"memory limit exceeded: [0-9]+ bytes > [0-9]+ bytes")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended; `text` is for stderr."""

    exit: str
    text: str = ""
    text_cut: bool = False
    value: str = ""
    value_cut: bool = False


def judge(exc: MontyError, watch: Watch, code: str) -> Verdict:
    """Return how a run ended that left an error."""
    if watch.why is not None:
        return told(watch.why)
    if isinstance(exc, MontyCrashedError):
        if exc.timed_out or watch.late:
            return told("time")
        return Verdict("crashed", "the worker crashed")
    inner = exc.exception()
    frames = _frames(exc)
    if isinstance(inner, TimeoutError) and watch.late:
        return told("time")
    for kind, limit in ((MemoryError, "memory"), (RecursionError, "recursion")):
        if type(inner) is kind and _is_genuine(kind.__name__, frames, code):
            return told(limit)
    return _described(inner, frames, code)


def told(limit: str) -> Verdict:
    """Return the end of a run that reached a limit."""
    return Verdict(f"limit:{limit}", f"the run reached its limit: {limit}")


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


def _described(inner: BaseException, frames: list[Frame], code: str) -> Verdict:
    """Return what went wrong and where, in the words of the program, cut."""
    name, message = type(inner).__name__, _message(inner)
    if type(inner) is MemoryError and _OUT_OF_MEMORY.fullmatch(message):
        message = "memory limit exceeded"  # the figures differ from run to run
    kept = message[:MAX_MESSAGE_CHARS]
    last = f"{name}: {kept}" if kept else name
    text = "".join([*_shown(frames, code.splitlines()), last])
    return Verdict("error", text, text_cut=len(kept) < len(message))


def _message(inner: BaseException) -> str:
    # It may be as large as the interpreter's memory: `str` would copy it.
    first: Any = inner.args[0] if len(inner.args) == 1 else None
    return first if type(first) is str and not isinstance(inner, KeyError) else str(inner)


def _shown(frames: list[Frame], lines: list[str]) -> list[str]:
    if not frames:
        return []
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
