"""Does a module compute and nothing else?  Judged from its syntax tree, by what it may use.

It is a list of what is allowed, so a way to reach the machine that nobody thought of is
refused as well.  A finding names the category a reader would look for.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# module -> what of it may be used; None: nothing but types.
MODULES: Final[dict[str, frozenset[str] | None]] = {
    "collections.abc": None,
    "dataclasses": frozenset({"dataclass", "field"}),
    "hashlib": frozenset({"sha256"}),
    "json": frozenset({"dumps", "loads"}),
    "math": frozenset({"isfinite"}),
    "re": frozenset(
        {
            *("ASCII", "DOTALL", "IGNORECASE", "MULTILINE", "UNICODE", "VERBOSE", "Pattern"),
            # The grammar, and one character against one literal; never the standard engine.
            *("compile", "error", "escape", "_constants", "_parser"),
        }
    ),
    "typing": None,
    "warnings": frozenset({"catch_warnings", "simplefilter"}),  # of the pattern's grammar
}
BUILTINS: Final = frozenset(
    {
        *("all", "any", "bool", "bytes", "chr", "dict", "enumerate", "float", "frozenset"),
        *("int", "isinstance", "len", "list", "max", "min", "ord", "range", "set", "sorted"),
        *("str", "sum", "tuple", "zip", "type", "callable", "staticmethod", "property"),
        *("OverflowError", "RecursionError", "TypeError", "UnicodeEncodeError", "ValueError"),
        "Warning",
    }
)
CATEGORIES: Final = {
    "I/O": {"open", "print", "input", "io", "os", "sys", "pathlib", "socket", "shutil", "tempfile"}
    | {"fileinput", "mmap", "select", "ssl", "http", "urllib", "logging", "glob", "fcntl"},
    "time": {"time", "datetime", "calendar", "sched", "zoneinfo"},
    "randomness": {"random", "secrets", "uuid", "hash", "id", "urandom"},
    "environment": {"environ", "getenv", "platform", "locale", "getpass", "pwd", "sysconfig"},
    "processes": {"subprocess", "multiprocessing", "threading", "signal", "asyncio", "pty"},
    "import machinery": {"importlib", "__import__", "pkgutil", "runpy", "imp", "exec", "eval"}
    | {"compile", "code", "codeop", "marshal", "pickle", "zipimport"},
    "introspection": {"inspect", "gc", "ctypes", "getattr", "setattr", "delattr", "hasattr"}
    | {"vars", "dir", "globals", "locals", "object", "super", "traceback", "types", "weakref"}
    | {"breakpoint", "builtins", "dis", "tracemalloc", "memoryview", "ast", "format_map", "format"},
}
_REACHING_METHODS: Final = frozenset({"format", "format_map"})  # "{0.__class__}".format(x)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a function of the registry may not do."""

    line: int
    category: str
    what: str


def findings(source: str, own: frozenset[str]) -> list[Finding]:
    """Return what `source` uses beyond computing; `own` are the modules its digest covers."""
    tree = ast.parse(source)
    found = list(_imports(tree, own)) + list(_names(tree)) + list(_attributes(tree))
    return sorted(found, key=lambda finding: finding.line)


def _category(*words: str) -> str:
    """Return the category of the first word that has one; the closest word comes first."""
    for word in words:
        for category, names in CATEGORIES.items():
            if word in names:
                return category
    return "introspection" if _is_special(words[0]) else "not on the list"


def _imports(tree: ast.Module, own: frozenset[str]) -> Iterator[Finding]:
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if id(node) not in top:
                yield Finding(node.lineno, "import machinery", "an import inside a function")
            yield from _import(node, own)


def _import(node: ast.Import | ast.ImportFrom, own: frozenset[str]) -> Iterator[Finding]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            whole, fine = alias.name, alias.name in MODULES or alias.name in own
        else:
            module = node.module or "."
            whole = f"{module}.{alias.name}"
            parts = MODULES.get(module, frozenset())
            fine = parts is None or alias.name in parts or bool({whole, module} & own)
        if not fine:
            category = _category(*reversed(whole.split(".")))
            yield Finding(node.lineno, category, f"import of {whole}")


def _names(tree: ast.Module) -> Iterator[Finding]:
    ours = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield Finding(node.lineno, "state", "a variable that outlives the call")
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        known = node.id in dir(builtins) and node.id not in ours
        if (known and node.id not in BUILTINS) or _is_special(node.id):
            yield Finding(node.lineno, _category(node.id), f"name {node.id}")


def _attributes(tree: ast.Module) -> Iterator[Finding]:
    modules = {
        alias.asname or alias.name: alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        if _is_special(node.attr):
            yield Finding(node.lineno, "introspection", f"attribute {node.attr}")
        elif node.attr in _REACHING_METHODS:
            yield Finding(node.lineno, "introspection", f"method {node.attr}")
        module = modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if module is not None and node.attr not in (MODULES.get(module) or frozenset()):
            category = _category(node.attr, *module.split("."))
            yield Finding(node.lineno, category, f"{module}.{node.attr}")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
