"""Check what no linter counts: length, SECURITY paragraphs, gate statements, words in names, homes.

Usage: check_shape.py [SOURCE_DIRECTORY]; prints one line per finding and exits 1 if there is any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40
LIBRARIES = frozenset({"http_library"})  # below gates/, and no program of its own
GATE_HEADINGS = ("Runs as", "May read", "May write", "Must never", "If compromised", "Tested by")
# Words that promise more about data than any check can: they may not be part of a name.
PROMISES = frozenset({"sanitize", "sanitise", "clean", "safe", "secure", "trusted"})

# What one module does for all others, by the only files that may do it.
SOCKETS = ("sandbox/runtime.py", "sandbox/attacks/", "gates/tool_exec/era/guest/")
PROGRAMS = ("sandbox/programs.py",)
DATABASES = ("host/workspace/derived.py", "handoff/verify.py", "gates/zotero_reader/database.py")
INTERPRETER = ("sandbox/attacks/",)
NAMED_TEMPORARY = frozenset({"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_lines(node: Function) -> int:
    """Return the length of a function, its docstring not counted."""
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None and first.end_lineno is not None:
        length -= first.end_lineno - first.lineno + 1
    return length


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def check_module(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and finding for one module."""
    tree = ast.parse(source)
    lines = source.count("\n")
    if lines > MAX_MODULE_LINES:
        yield 1, f"{lines} lines, limit {MAX_MODULE_LINES}: is there a seam?"
    for node in ast.walk(tree):
        if isinstance(node, Function) and function_lines(node) > MAX_FUNCTION_LINES:
            length = function_lines(node)
            yield node.lineno, f"{node.name} has {length} lines, limit {MAX_FUNCTION_LINES}"
    if ".open_for_validation()" in source and "\nSECURITY\n" not in (ast.get_docstring(tree) or ""):
        yield 1, "opens foreign bytes, so its docstring needs a SECURITY paragraph"
    for line, name in _names(tree):
        for word in sorted(_words(name) & PROMISES):
            yield line, f"{name}: {word} promises what no check can"


def check_homes(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and finding for what the module `name`, below `threegate/`, leaves to others."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called, dir_named = _called(node), any(word.arg == "dir" for word in node.keywords)
            if called == "gettempdir" or (called in NAMED_TEMPORARY and not dir_named):
                yield node.lineno, f"{called}: sandbox/runtime.py makes runtime directories"
            to_port = bool(node.args) and isinstance(node.args[0], ast.Tuple)
            if called == "bind" and not to_port and not name.startswith(SOCKETS):
                yield node.lineno, "bind: sandbox/runtime.py makes Unix sockets"
            if ast.unparse(node.func) == "sqlite3.connect" and not name.startswith(DATABASES):
                yield node.lineno, "sqlite3.connect: host/workspace/derived.py opens derived files"
            if called == "which" and not name.startswith(PROGRAMS):
                yield node.lineno, "which: sandbox/programs.py finds programs"
        elif isinstance(node, ast.ImportFrom) and _leaves_messages(name, node):
            yield node.lineno, "messages import messages and what is below the gates, nothing else"
        elif isinstance(node, ast.List | ast.Tuple) and _starts_python(name, node):
            yield node.lineno, "our own Python is started with -I as its first option"


def _leaves_messages(name: str, node: ast.ImportFrom) -> bool:
    """Tell whether messages, which the host imports, would bring code of a gate with them."""
    module = node.module or ""
    ours = module.startswith("threegate.gates")
    named = all(alias.name.endswith("messages") for alias in node.names)
    return name.endswith("messages.py") and ours and not (module.endswith("messages") or named)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _starts_python(name: str, words: ast.List | ast.Tuple) -> bool:
    """Tell whether an argument vector runs `sys.executable` without `-I`."""
    named = [ast.unparse(word) for word in words.elts[:2]]
    if name.startswith(INTERPRETER):
        return False
    return named[:1] == ["sys.executable"] and named[1:] not in (["'-I'"], ["_isolation()"])


def check_gate(directory: Path) -> Iterator[str]:
    """Yield what is missing from a gate's public statement."""
    readme = directory / "README.md"
    text = readme.read_text("utf-8") if readme.exists() else ""
    for heading in GATE_HEADINGS:
        if f"\n## {heading}\n" not in text:
            yield f"{readme}:1: no heading {heading}"
    if not (directory / "ruff.toml").exists():
        yield f"{directory}:1: no ruff.toml with the calls this gate may not make"


def gates_in(package: Path) -> list[Path]:
    """Return the directory of every gate, and of the sandbox that confines them."""
    below = (path for path in (package / "gates").iterdir() if (path / "__init__.py").exists())
    return [*sorted(path for path in below if path.name not in LIBRARIES), package / "sandbox"]


def check_tree(source: Path) -> list[str]:
    """Return every finding under `source`, the directory that holds `threegate/`."""
    modules = sorted((source / "threegate").rglob("*.py"))
    if not modules:
        return [f"{source}:1: no modules, so nothing was checked"]
    findings: list[str] = []
    for path in modules:
        text = path.read_text("utf-8")
        name = path.relative_to(source / "threegate").as_posix()
        found = [*check_module(text), *check_homes(name, text)]
        findings.extend(f"{path}:{line}: {finding}" for line, finding in found)
    for gate in gates_in(source / "threegate"):
        findings.extend(check_gate(gate))
    return findings


def main() -> int:
    findings = check_tree(Path(sys.argv[1] if len(sys.argv) > 1 else "src"))
    print("\n".join(findings) or "shape: no findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
