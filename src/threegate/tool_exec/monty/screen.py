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

from threegate.text import quote

# Names that would run text as code or reach for the host; Monty has the first two.
BANNED: Final = frozenset({"eval", "exec", "compile", "open", "__import__", "globals", "locals"})


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
        return Refusal("syntax", max(1, exc.lineno or 1), "this is not Python")
    except (ValueError, RecursionError, MemoryError):
        return Refusal("syntax", 1, "this cannot be parsed")
    for node in ast.walk(tree):
        refusal = _import(node, bounds.imports) or _name(node)
        if refusal is not None:
            return refusal
    return _nesting(tree, bounds.nesting)


def _import(node: ast.AST, allowed: frozenset[str]) -> Refusal | None:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = ["." * node.level + (node.module or "")]
    for name in names:
        if name not in allowed:
            line = getattr(node, "lineno", 1)
            return Refusal("import", line, f"module {quote(name)} is not on the list")
    return None


def _name(node: ast.AST) -> Refusal | None:
    if isinstance(node, ast.Name) and node.id in BANNED:
        return Refusal("name", node.lineno, f"{node.id} is not available here")
    return None


def _nesting(tree: ast.AST, most: int) -> Refusal | None:
    """Refuse functions nested too deeply: compiling them takes exponential time."""
    for node, depth in _functions(tree):
        if depth > most:
            line = getattr(node, "lineno", 1)
            return Refusal("nesting", line, f"functions nested more than {most} deep")
    return None


def _functions(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        if isinstance(node, inner):
            depth += 1
            yield node, depth
        waiting += [(child, depth) for child in ast.iter_child_nodes(node)]
