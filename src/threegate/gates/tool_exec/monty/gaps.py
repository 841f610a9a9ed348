"""What the interpreter compiles but does not do: found in the syntax tree, before anything runs.

Without these a program would pass a check, be approved, and fail, or be silently wrong
(`__bool__` is ignored).  Every row is held by a test on the real interpreter, so one that a
newer version fills is noticed.
"""

import ast
import builtins
from collections.abc import Iterator
from typing import Final

from threegate.gates.tool_exec.monty.screen import Refusal

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


def gaps(tree: ast.Module) -> Iterator[Refusal]:
    """Yield what the interpreter would accept and not do."""
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
    """Return every name the code itself gives to something."""
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


def _methods(node: ast.ClassDef) -> Iterator[Refusal]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name in METHODS_NOT_CALLED:
            reason = "the interpreter does not call this special method"
            yield Refusal(f"method {item.name}", item.lineno, reason)


def _attribute(node: ast.Attribute, ours: frozenset[str], *, is_called: bool) -> Iterator[Refusal]:
    if node.attr in METHODS_MISSING and node.attr not in ours:
        yield Refusal(f"method {node.attr}", node.lineno, "no built-in type has this method here")
    kind = TYPES.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if kind is None or kind.__name__ in ours or not isinstance(node.ctx, ast.Load):
        return
    # `dict.fromkeys` is of the class, and there when it is called.
    if not is_called or isinstance(vars(kind).get(node.attr), _METHOD):
        reason = "a method of a type cannot be used without a value; use a lambda"
        yield Refusal("method of a type", node.lineno, reason)


def _exception(node: ast.Call, ours: frozenset[str]) -> Iterator[Refusal]:
    known = isinstance(node.func, ast.Name) and node.func.id in EXCEPTIONS - ours
    if not known:
        return
    other = any(
        isinstance(item, ast.Constant) and type(item.value) is not str for item in node.args
    )
    if len(node.args) > 1 or node.keywords or other:
        reason = "an exception takes at most one text"
        yield Refusal("arguments of an exception", node.lineno, reason)
