"""Count what a reader of the tree has to hold: files, names, cycles, words.

Usage: measure_tree.py [SOURCE_DIRECTORY]; prints a table, or JSON with `--json`.
"""

import argparse
import ast
import json
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

PACKAGE = "threegate"
# Words of STYLE section 10 that a plain sentence does without.
RETIRED = re.compile(
    r"\b(whoever|whatever|anew|in vain|stands? (?:in|for|on|by)|meddled|came to nothing|errand"
    r"|what becomes of|becomes of|is no (?:[a-z]+)|by itself|shelf|besides where|wish(?:es)?)\b",
    re.IGNORECASE,
)
COMMANDS = ("fetch", "ask", "run")


def modules_in(source: Path) -> dict[str, Path]:
    """Return every module by its dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of(tree: ast.Module, modules: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a module imports, lazily or not."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in modules else node.module)
    return found & modules.keys()


def folder(module: str) -> str:
    """Return the folder whose imports must not form a cycle: two levels below host and gates."""
    parts = module.split(".")
    depth = 3 if len(parts) > 1 and parts[1] in ("host", "gates") else 2
    return ".".join(parts[:depth])


def in_cycles(edges: dict[str, set[str]]) -> set[str]:
    """Return the folders from which a way leads back to themselves."""
    return {one for one in edges if one in reached(edges, edges[one])}


def reached(edges: dict[str, set[str]], begin: set[str]) -> set[str]:
    """Return everything that can be reached."""
    found, waiting = set(begin), list(begin)
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def prose_of(source: str) -> Iterator[str]:
    """Yield docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def measure(source: Path) -> dict[str, float | int]:
    """Return all figures of a tree."""
    modules = modules_in(source)
    texts = {name: path.read_text("utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    imports = {name: imports_of(tree, modules) for name, tree in trees.items()}
    folders: dict[str, set[str]] = defaultdict(set)
    for name, found in imports.items():
        folders[folder(name)] |= {folder(one) for one in found} - {folder(name), PACKAGE}
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    words = [part for text in texts.values() for part in prose_of(text)]
    counted = sum(len(part.split()) for part in words)
    retired = sum(len(RETIRED.findall(part)) for part in words)
    lines = sum(text.count("\n") for text in texts.values())
    comments = sum(
        line.lstrip().startswith("#") for text in texts.values() for line in text.split("\n")
    )
    loose = [name for name in modules if name.startswith(f"{PACKAGE}.host.")]
    stems = [path.stem for path in modules.values()]
    figures: dict[str, float | int] = {
        "files": len(modules),
        "lines": lines,
        "folders": len({folder(name) for name in modules}),
        "folders in cycles": len(in_cycles(folders)),
        "loose modules in host": sum(name.count(".") == 2 for name in loose)
        - sum(
            (source / PACKAGE / "host" / name.split(".")[2]).is_dir()
            for name in loose
            if name.count(".") == 2
        ),
        "gerund modules": sum(stem.endswith("ing") for stem in stems),
        "class names used more than once": sum(number > 1 for number in classes.values()),
        "hand-written parsers of messages": sum(
            isinstance(node, ast.FunctionDef) and node.name.startswith("parse_")
            for name, tree in trees.items()
            if name.startswith(f"{PACKAGE}.protocol")
            for node in ast.walk(tree)
        ),
        "retired words per 1,000 words": round(1000 * retired / max(1, counted), 1),
        "comment lines per 100 lines": round(100 * comments / max(1, lines), 1),
    }
    for command in COMMANDS:
        at = next(
            (
                n
                for n in (f"{PACKAGE}.cli.{command}", f"{PACKAGE}.host.commands.{command}")
                if n in modules
            ),
            None,
        )
        if at is not None:
            figures[f"modules that `{command}` may import"] = len(reached(imports, {at}))
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path, default=Path("src"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args.source)
    if args.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{value:>10}  {name}")


if __name__ == "__main__":
    main()
