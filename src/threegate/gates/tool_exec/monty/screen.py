"""Before Monty sees the code: size, grammar, imports, names and nesting.

A courtesy with a clear answer (construct, line, reason), and a guard against code whose
compilation alone explodes.  It is not the boundary: the interpreter and the box are.

SECURITY
    Parses hostile source with the standard parser, inside the box.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.base.text import quote
from threegate.gates.tool_exec.monty.messages import NOT_PYTHON

# Names that would run text as code or reach for the host; Monty has the first two.
BANNED: Final = frozenset({"eval", "exec", "compile", "open", "__import__", "globals", "locals"})

_FUNCTIONS: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the lite lane cannot express a program: what an escalation must attach."""

    construct: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """What policy allows of a program before it runs."""

    source_bytes: int
    nesting: int
    imports: frozenset[str]


def screen(source: str, bounds: Bounds) -> Refusal | None:
    """Return the first thing that keeps `source` out of the lite lane, if any."""
    if len(source.encode("utf-8", "surrogatepass")) > bounds.source_bytes:
        return Refusal("size", 1, f"the program has more than {bounds.source_bytes} bytes")
    try:
        tree = ast.parse(source)
    except SyntaxError as exc:
        return Refusal(NOT_PYTHON, max(1, exc.lineno or 1), "this is not Python")
    except (ValueError, RecursionError, MemoryError):
        return Refusal(NOT_PYTHON, 1, "this cannot be parsed")
    return min(_refusals(tree, bounds), key=lambda refusal: refusal.line, default=None)


def _refusals(tree: ast.Module, bounds: Bounds) -> Iterator[Refusal]:
    """Yield everything that is not allowed, from one walk: this runs before every program."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            assert isinstance(node, ast.Name)
            if node.id in BANNED:
                yield Refusal("name", node.lineno, f"{node.id} is not available here")
            continue
        if kind in _FUNCTIONS:
            depth += 1
            if depth > bounds.nesting:
                # Compiling nested functions takes exponential time.
                words = f"functions nested more than {bounds.nesting} deep"
                yield Refusal("nesting", getattr(node, "lineno", 1), words)
        elif kind is ast.Import or kind is ast.ImportFrom:
            yield from _import(node, bounds.imports)
        for name in node._fields:
            child = getattr(node, name, None)
            if type(child) is list:
                waiting += [(item, depth) for item in child if isinstance(item, ast.AST)]
            elif isinstance(child, ast.AST):
                waiting.append((child, depth))


def _import(node: ast.AST, allowed: frozenset[str]) -> Iterator[Refusal]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = ["." * node.level + (node.module or "")]
    for name in names:
        if name not in allowed:
            line = getattr(node, "lineno", 1)
            yield Refusal("import", line, f"module {quote(name)} is not on the list")
