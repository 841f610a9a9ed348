"""Can the interpreter express a program?  Asked without running it.

1. size, grammar, imports, names and nesting (`screen`), and gaps (both in `screen`);
2. does the interpreter compile it?  A line of ours is put before the code: a name that is
   defined nowhere.  The interpreter compiles the whole program, and type-checks it, before it
   runs the first line; then it waits for the value of that name, which it never gets.
3. is every built-in name and every part of a module there?  Asked one by one, without the code.

Only what the interpreter cannot do is a refusal.  A refusal opens the way to the heavy lane, so
a mere bug must not count as one: what the type checker finds is a warning.

SECURITY
    The answer holds names from hostile code; they are made visible and cut.
"""

import ast
import builtins
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pydantic_monty
from pydantic_monty import (
    FunctionSnapshot,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    MontyTypingError,
    NameLookupSnapshot,
)

from threegate.base.limits import MAX_LINE, MAX_LINE_CHARS
from threegate.base.text import visible
from threegate.gates.tool_exec.monty.functions import REGISTRY
from threegate.gates.tool_exec.monty.messages import MAX_CONSTRUCT_CHARS
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.gates.tool_exec.monty.screen import (
    SourceBounds,
    SourceRefusal,
    defined,
    gaps,
    screen,
)

LIMITS: Final[pydantic_monty.ResourceLimits] = {
    "max_memory": 256 * 2**20,
    "max_feed_duration_secs": 2.0,
    "max_turn_duration_secs": 2.0,
    "max_suspensions": 1_000,
    "max_total_sleep_secs": 0.0,
}
MAX_WARNINGS: Final = 16
MAX_ASKED: Final = 200
_NOT_YET: Final = "The monty syntax parser does not yet support "


@dataclass(frozen=True, slots=True)
class Found:
    """What the interpreter cannot do, and what the type checker suspects."""

    refusal: SourceRefusal | None
    warnings: tuple[SourceRefusal, ...] = ()


def check(
    pool: WorkerPool,
    code: str,
    *,
    functions: Sequence[str],
    inputs: Sequence[str],
    bounds: SourceBounds,
) -> Found:
    """Return whether the interpreter can express `code`; nothing of it runs."""
    refusal = screen(code, bounds)
    if refusal is None:
        refusal = next(gaps(ast.parse(code)), None) or compiles(pool, code)
    if refusal is None:
        refusal = _missing(pool, ast.parse(code), {*functions, *inputs})
    if refusal is not None:
        return Found(refusal)
    return Found(None, _warnings(pool, code, _stubs(functions, inputs)))


def compiles(pool: WorkerPool, code: str) -> SourceRefusal | None:
    """Return why the interpreter cannot compile `code`, or None."""
    try:
        with pool.checkout(limits=LIMITS) as session:
            _stopped_before(session, code)
    except (MontySyntaxError, MontyRuntimeError) as exc:
        return _refusal(exc)
    except MontyError:
        return SourceRefusal("program", 1, "the interpreter cannot compile it within its limits")
    return None


def _stopped_before(session: MontySession, code: str) -> None:
    """Let the interpreter get as far as our own line before the code, and no further."""
    name = _unused(code)
    waiting = session.feed_start(f"{name}\n{code}", print_callback=_never)
    while isinstance(waiting, FunctionSnapshot) and waiting.is_os_function:
        waiting = waiting.resume_not_handled()  # the type checker asks for a module
    assert isinstance(waiting, NameLookupSnapshot), "our line comes first"
    assert waiting.variable_name == name


def _unused(code: str) -> str:
    # One longer than the longest: trying them one by one takes time by the square.
    tails = re.findall("probe(_*)", code)
    return "probe" + "_" * (1 + max(map(len, tails), default=-1))


def _never(_stream: str, _text: str) -> None:
    raise AssertionError("nothing of the program runs")


def _refusal(exc: MontySyntaxError | MontyRuntimeError) -> SourceRefusal:
    frames = exc.traceback()
    line = max(1, frames[-1].line - 1) if frames else 1  # our own line is not counted
    message = str(exc.exception())
    construct = message.removeprefix(_NOT_YET) if message.startswith(_NOT_YET) else "syntax"
    return _bounded(construct, line, f"the interpreter says: {message}")


def _bounded(construct: str, line: int, reason: str) -> SourceRefusal:
    return SourceRefusal(
        visible(construct[:MAX_CONSTRUCT_CHARS])[:MAX_CONSTRUCT_CHARS] or "program",
        min(max(1, line), MAX_LINE),
        visible(reason[:MAX_LINE_CHARS])[:MAX_LINE_CHARS],
    )


def _missing(pool: WorkerPool, tree: ast.Module, given: set[str]) -> SourceRefusal | None:
    """Return the first built-in name or part of a module that the interpreter does not have."""
    asked = sorted(_questions(tree, given), key=lambda question: question[1])[:MAX_ASKED]
    try:
        with pool.checkout(limits=LIMITS) as session:
            for source, line, what in asked:
                if not _has(session, source):
                    return _bounded(what, line, "the interpreter does not have this")
    except MontyError:
        return SourceRefusal("program", 1, "the interpreter did not say what it has")
    return None


def _questions(tree: ast.Module, given: set[str]) -> Iterator[tuple[str, int, str]]:
    """Yield a line of code that needs one name, the line that uses it, and its label."""
    known = set(dir(builtins)) - defined(tree) - given
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname or a.name: a.name for a in node.names}
            yield from ((f"import {a.name}", node.lineno, f"import {a.name}") for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                line = f"from {node.module} import {alias.name}"
                yield line, node.lineno, line
        elif isinstance(node, ast.Name) and node.id in known:
            yield node.id, node.lineno, f"name {node.id}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None:
                source = f"import {module}\n{module}.{node.attr}"
                yield source, node.lineno, f"name {module}.{node.attr}"


def _has(session: MontySession, source: str) -> bool:
    try:
        waiting = session.feed_start(source, print_callback=_never)
        if isinstance(waiting, NameLookupSnapshot):
            waiting.resume()  # the name stays undefined, and the session can be asked again
    except MontyRuntimeError as exc:
        return not isinstance(exc.exception(), NameError | ImportError | AttributeError)
    return True


def _stubs(functions: Sequence[str], inputs: Sequence[str]) -> str:
    signatures = [
        f"def {REGISTRY[name].signature.replace('object', 'Any')}: ..." for name in functions
    ]
    return "\n".join(["from typing import Any", *(f"{name}: Any" for name in inputs), *signatures])


def _warnings(pool: WorkerPool, code: str, stubs: str) -> tuple[SourceRefusal, ...]:
    """Return the findings of the type checker; a program with some may still run."""
    stubs = f"{stubs}\n{_unused(code)}: Any\n"
    try:
        with pool.checkout(
            limits=LIMITS, type_check=True, type_check_stubs=stubs, type_check_format="jsonlines"
        ) as session:
            _stopped_before(session, code)
    except MontyTypingError as exc:
        return tuple(_read_warnings(exc.display()))[:MAX_WARNINGS]
    except MontyError:
        return (SourceRefusal("types", 1, "the type checker did not come to an end"),)
    return ()


def _read_warnings(report: str) -> Iterator[SourceRefusal]:
    for line in report.splitlines()[: MAX_WARNINGS * 4]:
        try:
            found: Any = json.loads(line)
            rule, row, message = found["name"], found["location"]["row"], found["message"]
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
        if isinstance(rule, str) and type(row) is int and isinstance(message, str):
            yield _bounded(rule, row - 1, message)
