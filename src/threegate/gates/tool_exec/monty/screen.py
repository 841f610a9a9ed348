"""Checks of the source alone, before Monty sees it: size, grammar, imports, names, nesting, gaps.

`screen` gives a clear answer (construct, line, reason), and guards against code whose compilation
alone explodes.  It is not the boundary: the interpreter and the sandbox are.

`gaps` finds what the interpreter compiles but does not do.  Without it a program would pass a
check, be approved, and fail, or be silently wrong (`__bool__` is ignored).  A test on the real
interpreter holds every row, so a gap that a newer version fills is noticed.

SECURITY
    Parses hostile source with the standard parser, inside the sandbox.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.base.text import quote
from threegate.gates.tool_exec.monty.messages import NOT_PYTHON

# Names that would run text as code or reach for the host; Monty has the first two.
BANNED: Final = frozenset({"eval", "exec", "compile", "open", "__import__", "globals", "locals"})

_FUNCTIONS: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef})


@dataclass(frozen=True, slots=True)
class SourceRefusal:
    """Why the lite lane cannot express a program: what an escalation must attach."""

    construct: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class SourceBounds:
    """What policy allows of a program before it runs."""

    source_bytes: int
    nesting: int
    imports: frozenset[str]


def screen(source: str, bounds: SourceBounds) -> SourceRefusal | None:
    """Return the first construct that the lite lane refuses, if any."""
    if len(source.encode("utf-8", "surrogatepass")) > bounds.source_bytes:
        return SourceRefusal("size", 1, f"the program has more than {bounds.source_bytes} bytes")
    try:
        tree = ast.parse(source)
    except SyntaxError as exc:
        return SourceRefusal(NOT_PYTHON, max(1, exc.lineno or 1), "this is not Python")
    except (ValueError, RecursionError, MemoryError):
        return SourceRefusal(NOT_PYTHON, 1, "this cannot be parsed")
    return min(_refusals(tree, bounds), key=lambda refusal: refusal.line, default=None)


def _refusals(tree: ast.Module, bounds: SourceBounds) -> Iterator[SourceRefusal]:
    """Yield everything that is not allowed, from one walk: this runs before every program."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            assert isinstance(node, ast.Name)
            if node.id in BANNED:
                yield SourceRefusal("name", node.lineno, f"{node.id} is not available here")
            continue
        if kind in _FUNCTIONS:
            depth += 1
            if depth > bounds.nesting:
                # Compiling nested functions takes exponential time.
                words = f"functions nested more than {bounds.nesting} deep"
                yield SourceRefusal("nesting", getattr(node, "lineno", 1), words)
        elif kind is ast.Import or kind is ast.ImportFrom:
            yield from _import(node, bounds.imports)
        for name in node._fields:
            child = getattr(node, name, None)
            if type(child) is list:
                waiting += [(item, depth) for item in child if isinstance(item, ast.AST)]
            elif isinstance(child, ast.AST):
                waiting.append((child, depth))


def _import(node: ast.AST, allowed: frozenset[str]) -> Iterator[SourceRefusal]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = ["." * node.level + (node.module or "")]
    for name in names:
        if name not in allowed:
            line = getattr(node, "lineno", 1)
            yield SourceRefusal("import", line, f"module {quote(name)} is not on the list")


# Special methods that nothing calls.
METHODS_NOT_CALLED: Final = frozenset(
    f"__{name}__"
    for name in (
        *("lt", "le", "gt", "ge", "iadd", "bool", "len", "getattr", "setattr", "format"),
        *("float", "reversed", "new", "del"),
    )
)
# Methods of built-in types that are not there; no other type has them unless the code says so.
METHODS_MISSING: Final = frozenset(
    {
        *("translate", "maketrans", "format_map"),
        *("bit_length", "bit_count", "to_bytes", "from_bytes"),
        "is_integer",
    }
)
# Methods of these are called on values only: `text.lower()`, never `str.lower`.
TYPES: Final = {kind.__name__: kind for kind in (str, bytes, int, float, list, dict, set, tuple)}
_METHOD: Final = type(str.lower)
EXCEPTIONS: Final = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)


def gaps(tree: ast.Module) -> Iterator[SourceRefusal]:
    """Yield constructs that the interpreter accepts and does not execute as Python does."""
    ours = defined(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _methods(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, ours, is_called=id(node) in called)
        elif isinstance(node, ast.Call):
            yield from _exception(node, ours)


def defined(tree: ast.Module) -> frozenset[str]:
    """Return every name that the code defines."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
    return frozenset(found)


def _methods(node: ast.ClassDef) -> Iterator[SourceRefusal]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name in METHODS_NOT_CALLED:
            reason = "the interpreter does not call this special method"
            yield SourceRefusal(f"method {item.name}", item.lineno, reason)


def _attribute(
    node: ast.Attribute, ours: frozenset[str], *, is_called: bool
) -> Iterator[SourceRefusal]:
    if node.attr in METHODS_MISSING and node.attr not in ours:
        yield SourceRefusal(
            f"method {node.attr}", node.lineno, "no built-in type has this method here"
        )
    kind = TYPES.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if kind is None or kind.__name__ in ours or not isinstance(node.ctx, ast.Load):
        return
    # `dict.fromkeys` is of the class, and there when it is called.
    if not is_called or isinstance(vars(kind).get(node.attr), _METHOD):
        reason = "a method of a type cannot be used without a value; use a lambda"
        yield SourceRefusal("method of a type", node.lineno, reason)


def _exception(node: ast.Call, ours: frozenset[str]) -> Iterator[SourceRefusal]:
    known = isinstance(node.func, ast.Name) and node.func.id in EXCEPTIONS - ours
    if not known:
        return
    other = any(
        isinstance(item, ast.Constant) and type(item.value) is not str for item in node.args
    )
    if len(node.args) > 1 or node.keywords or other:
        reason = "an exception takes at most one text"
        yield SourceRefusal("arguments of an exception", node.lineno, reason)
