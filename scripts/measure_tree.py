"""Count what a reader of the tree has to hold: files, names, cycles, words.

Usage: measure_tree.py [SOURCE...]: a table with a column per source directory, JSON with `--json`;
`--hits` lists every retired word with its place.  SOURCE is the directory that holds the package;
documents are read from the directory above it.
"""

import argparse
import ast
import io
import json
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

PACKAGE = "threegate"
COMMANDS = ("fetch", "ask", "run")
# Words of STYLE section 10, counted in every text.  "Whoever" and "whatever" are counted in every
# role, not only as subjects.  Not counted, because plain English has them too: "leaves" (of a
# Merkle tree), "leave" without an article or possessive before it (the verb), "sides" (of a
# picture, both sides; the class of that name is counted below), "told" with the person or the
# thing told ("told you", "told why"), "stands for", "there is no", "is no longer", "is no larger",
# and "office" of a file format.
RETIRED = re.compile(
    r"""\b(?:
    whoever|whatever|whomever|anew|in\ vain|came\ to\ nothing|besides\ where
    |(?:becomes?|became)\ of|by\ (?:itself|themselves)
    |(?<!there\ )is\ no\ (?!longer\b|more\b|[a-z]+er\b)[a-z]+
    |stands?\ (?:in|on|by|beside|behind|under|there)
    |wish(?:es|ed)?|errands?|meddl(?:e|es|ed|ing)|fates?|desks?|shel(?:f|ves)
    |offices?(?!\ (?:file|document|format))
    |told(?!\ (?:apart|you|them|to|so|why|what|which|that|how|when|by)\b)
    |(?:a|the|its|one|no|each|every|their|your|this|by|with|without)\ leave
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
# Counted only where users read it: there "box" means the sandbox.  In docstrings it may be the box
# of `Untrusted`; a text box and a check box are controls of a form.
BOX = re.compile(r"(?<!text )(?<!check )\bbox(?:es)?\b(?!-)", re.IGNORECASE)
# Counted as parts of names of modules, classes and functions.  Not "leave": it is a verb there.
PARTS = "wish wishes errand errands told sides shelf desk desks office offices meddled fate fates"
# Modules whose names end like a gerund and are nouns.
NOUNS = frozenset({"greeting", "heading", "keyring", "listing", "ring", "string"})
# What users read besides literals and templates.  Dated evidence and decisions stay as written.
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/formats/*.md")
PAGES = ("*.html", "*.md")  # in the package: templates, policy defaults, READMEs of gates
CODE = re.compile(
    r"```.*?```|`[^`\n]*`|^ {4}.*?$|<(?:style|script).*?</|\{[%{#].*?[}%#]\}|<[^>]*>",
    re.DOTALL | re.MULTILINE,
)
SENTENCE_WORDS = 3  # a shorter literal is a key, a name or a format


class Tree:
    """The modules of one source directory."""

    def __init__(self, source: Path) -> None:
        self.source, self.top = source, source / PACKAGE
        self.modules: dict[str, Path] = {}
        for path in sorted(self.top.rglob("*.py")):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            self.modules[name.removesuffix(".__init__")] = path
        self.texts = {name: path.read_text("utf-8") for name, path in self.modules.items()}
        self.parsed = {name: ast.parse(text) for name, text in self.texts.items()}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Return the modules of ours that each module imports, lazily or not."""
        return {name: self._imports_of(tree) for name, tree in self.parsed.items()}

    def _imports_of(self, tree: ast.Module) -> set[str]:
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    inner = f"{node.module}.{name.name}"
                    found.add(inner if inner in self.modules else node.module)
        return found & self.modules.keys()

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
        for name, tree in self.parsed.items():
            yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kinds))

    @cached_property
    def docstrings(self) -> set[ast.AST]:
        """Return the constants that are docstrings."""
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return {
            node.body[0].value
            for _, node in self.nodes(*owners)
            if isinstance(node, owners) and ast.get_docstring(node) is not None
            if isinstance(node.body[0], ast.Expr)
        }

    def literals(self, *, documentation: bool) -> Iterator[tuple[str, str]]:
        """Yield (place, text) of docstrings, or of the other strings that may be sentences."""
        inner = {part for _, node in self.nodes(ast.JoinedStr) for part in ast.walk(node)}
        inner -= {node for _, node in self.nodes(ast.JoinedStr)}
        for name, node in self.nodes(ast.Constant, ast.JoinedStr):
            text = "" if node in inner else literal(node)
            long = documentation or len(text.split()) >= SENTENCE_WORDS
            if (node in self.docstrings) == documentation and long:
                yield f"{name}:{getattr(node, 'lineno', 0)}", text

    @cached_property
    def comments(self) -> list[tuple[str, str, bool]]:
        """Return (place, text, on a line of its own) of every comment."""
        return [
            (
                f"{name}:{token.start[0]}",
                token.string.lstrip("#! "),
                not token.line[: token.start[1]].strip(),
            )
            for name, text in self.texts.items()
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        ]

    @cached_property
    def written_for_developers(self) -> list[tuple[str, str]]:
        """Return (place, text) of docstrings and comments."""
        return [*self.literals(documentation=True), *((at, text) for at, text, _ in self.comments)]

    @cached_property
    def shown_to_users(self) -> list[tuple[str, str]]:
        """Return (place, text) of documents, templates, policies, help, errors and hints."""
        paths = [path for pattern in PAGES for path in sorted(self.top.rglob(pattern))]
        paths += [
            path for pattern in DOCUMENTS for path in sorted(self.source.parent.glob(pattern))
        ]
        found = [*self.literals(documentation=False)]
        for path in paths:
            # Code keeps its line breaks, so that a hit has its line.
            text = CODE.sub(lambda code: "\n" * code.group().count("\n"), path.read_text("utf-8"))
            at = path.relative_to(self.source.parent)
            found += [(f"{at}:{number}", line) for number, line in enumerate(text.split("\n"), 1)]
        return found

    @cached_property
    def code_lines(self) -> int:
        """Return how many lines are neither empty, nor comments, nor docstrings."""
        all_lines = sum(
            bool(line.strip()) for text in self.texts.values() for line in text.split("\n")
        )
        texts = [text for _, text in self.literals(documentation=True)]
        prose = sum(bool(line.strip()) for text in texts for line in text.split("\n"))
        return all_lines - prose - sum(alone for _, _, alone in self.comments)

    @cached_property
    def own_names(self) -> list[tuple[str, str]]:
        """Return (place, name) of modules, classes and functions."""
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [(name, path.stem) for name, path in self.modules.items()]
        for name, node in self.nodes(*kinds):
            if isinstance(node, kinds):
                found.append((f"{name}:{node.lineno}", node.name))
        return found


def literal(node: ast.AST) -> str:
    """Return a string as its reader sees it; a computed part of an f-string is one word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def hits(texts: Iterable[tuple[str, str]], *patterns: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return (place, words) of everything that a pattern finds."""
    return [
        (at, match.group())
        for at, text in texts
        for pattern in patterns
        for match in pattern.finditer(" ".join(text.split()))
    ]


def retired_names(tree: Tree) -> list[tuple[str, str]]:
    parts = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
    retired = set(PARTS.split())
    return [
        (at, name)
        for at, name in tree.own_names
        if retired & {part.lower() for part in parts.findall(name)}
    ]


def per_thousand(found: int, texts: Iterable[tuple[str, str]]) -> float:
    return round(1000 * found / max(1, sum(len(text.split()) for _, text in texts)), 2)


def folder(module: str) -> str:
    """Return the folder whose imports must not form a cycle: two levels below host and gates."""
    parts = module.split(".")
    depth = 3 if len(parts) > 1 and parts[1] in ("host", "gates") else 2
    return ".".join(parts[:depth])


def reached(edges: dict[str, set[str]], begin: set[str]) -> set[str]:
    """Return everything that can be reached."""
    found, waiting = set(begin), list(begin)
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def folders_in_cycles(tree: Tree) -> int:
    edges: dict[str, set[str]] = defaultdict(set)
    for name, found in tree.imports.items():
        edges[folder(name)] |= {folder(one) for one in found} - {folder(name), PACKAGE}
    return sum(one in reached(edges, edges[one]) for one in list(edges))


def loose_modules(tree: Tree) -> int:
    host = tree.top / "host"
    return sum(path.parent == host and path.stem != "__init__" for path in tree.modules.values())


def is_message_module(module: str) -> bool:
    """Tell whether messages are declared here: in `protocol` once, now beside their gate."""
    below, stem = module.split(".")[1:], module.rpartition(".")[2]
    return below[:1] == ["protocol"] or (below[:1] == ["gates"] and stem.endswith("messages"))


def is_hand_written(node: ast.AST) -> bool:
    """Tell whether a function parses step by step: one `return` hands the work to a declaration."""
    if not (isinstance(node, ast.FunctionDef) and node.name.startswith("parse_")):
        return False
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return not (len(body) == 1 and isinstance(body[0], ast.Return))


def closures(tree: Tree) -> dict[str, int]:
    """Return how many modules each command may import."""
    found = {}
    for command in COMMANDS:
        for at in (f"{PACKAGE}.cli.{command}", f"{PACKAGE}.host.commands.{command}"):
            if at in tree.modules:
                found[f"modules that `{command}` may import"] = len(reached(tree.imports, {at}))
    return found


def measure(tree: Tree) -> dict[str, float | int]:
    """Return all figures of a tree."""
    developers = hits(tree.written_for_developers, RETIRED)
    users = hits(tree.shown_to_users, RETIRED, BOX)
    classes = Counter(
        node.name for _, node in tree.nodes(ast.ClassDef) if isinstance(node, ast.ClassDef)
    )
    stems = [path.stem for path in tree.modules.values()]
    alone = sum(alone for _, _, alone in tree.comments)
    parsers = [
        node
        for name, node in tree.nodes(ast.FunctionDef)
        if is_message_module(name) and is_hand_written(node)
    ]
    return {
        "files": len(tree.modules),
        "lines": sum(text.count("\n") for text in tree.texts.values()),
        "packages": sum(path.stem == "__init__" for path in tree.modules.values()),
        "folders in cycles": folders_in_cycles(tree),
        "loose modules in host": loose_modules(tree),
        "gerund modules": sum(stem.endswith("ing") and stem not in NOUNS for stem in stems),
        "class names used more than once": sum(number > 1 for number in classes.values()),
        "hand-written parsers of messages": len(parsers),
        "retired words per 1,000 in docstrings and comments": per_thousand(
            len(developers), tree.written_for_developers
        ),
        "retired words per 1,000 in texts for users": per_thousand(len(users), tree.shown_to_users),
        "names made of retired words": len(retired_names(tree)),
        "comment lines per 100 lines of code": round(100 * alone / max(1, tree.code_lines), 1),
        **closures(tree),
    }


def show(columns: list[dict[str, float | int]]) -> None:
    for name in columns[0]:
        print("".join(f"{column.get(name, ''):>10}" for column in columns), "", name)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", nargs="*", type=Path, metavar="SOURCE", default=[Path("src")])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--hits", action="store_true", help="list the retired words with their places"
    )
    args = parser.parse_args()
    trees = [Tree(source.resolve()) for source in args.sources]
    if args.hits:
        for tree in trees:
            found = hits(tree.written_for_developers, RETIRED)
            found += hits(tree.shown_to_users, RETIRED, BOX) + retired_names(tree)
            print("\n".join(f"{at}: {words}" for at, words in found))
        return
    figures = [measure(tree) for tree in trees]
    if args.json:
        print(json.dumps(figures[0] if len(figures) == 1 else figures, indent=2))
        return
    show(figures)


if __name__ == "__main__":
    main()
