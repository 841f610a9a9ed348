"""Nothing chooses the heavy lane: not a default, not a fallback, not a run that failed."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from threegate.artifacts.tool_request import BACKENDS
from threegate.cli.parser import build
from threegate.host.request.creation import DEFAULT_BACKEND, Wanted

SOURCE = Path(__file__).parents[4] / "src" / "threegate"
# Calls that name a lane to look something up, to list the words there are, or to say of an
# executor which lane it is.
LOOKUPS = frozenset(
    (
        "Abilities",
        "Choice",
        "RuleField",
        "WordChoice",
        "deny",
        "has",
        "integer",
        "ref",
        "text",
        "value",
        "words",
    )
)
# Whoever can bring a tool request into a workspace; each is started by a person's command, or by
# a form of the console, which makes requests that wait for a signature.
MAKERS = {
    "make_request": {"cli/request.py", "console/run_page.py"},
    "admit_request": {"host/request/creation.py"},
    "complete_request": {"host/request/creation.py"},
    # A wish of the operator's, where policy makes even those wait; for FETCH, never a lane.
    "admit": {"cli/admit.py", "host/fetch/targets.py"},
    "admit_answer": {"host/ask/storage.py"},  # drafts, each of which waits for a person
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def choosing(source: str) -> Iterator[int]:
    """Yield the lines where `era` is more than looked up, listed or compared with."""
    tree = ast.parse(source)
    for parent in ast.walk(tree):
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.Constant) and child.value == "era" and _chooses(parent, child):
                yield child.lineno


def _chooses(parent: ast.AST, child: ast.Constant) -> bool:
    if isinstance(parent, ast.Compare | ast.Tuple):
        return False
    if isinstance(parent, ast.Dict):
        return child not in parent.keys
    if isinstance(parent, ast.Call):
        called = parent.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name not in LOOKUPS or child not in parent.args
    # The operator's own `ERA` in a draft, spelled as the format spells it.
    spelled = isinstance(parent, ast.IfExp) and ast.unparse(parent.test) == "backend == 'ERA'"
    return not spelled


@pytest.mark.parametrize(
    "source",
    [
        "backend = 'era'",
        "def f(backend='era'): pass",
        "def f(*, backend='era'): pass",
        "Wanted(purpose, backend='era')",
        "Wanted(purpose, 'era')",
        "values = {'backend': 'era'}",
        "lane = 'era' if failed else 'monty'",
        "return_ = lambda: 'era'",
        "parser.add_argument('--backend', default='era')",
        "lane = chosen or 'era'",
        "class A:\n    backend: str = 'era'",
        "def f():\n    return 'era'",
    ],
)
def test_a_choice_would_be_found(source: str) -> None:
    assert list(choosing(source))


# claim TG-C-109
def test_no_code_path_chooses_the_heavy_lane() -> None:
    named = sum('"era"' in path.read_text("utf-8") for path in modules())
    assert named > 5, "control: modules that speak of it are looked at"
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in modules()
        for line in choosing(path.read_text("utf-8"))
    }
    assert found == set()


def test_lane_is_monty_unless_a_person_types_another() -> None:
    assert BACKENDS == ("monty", "era")
    (backend,) = [item for item in fields(Wanted) if item.name == "backend"]
    assert (backend.default, DEFAULT_BACKEND) == ("monty", "monty")
    words = ["request", "new", "--purpose", "x", "--code", "x.py"]
    assert build().parse_args(words).backend == "monty"
    assert build().parse_args([*words, "--backend", "era"]).backend == "era", "control"


# claim TG-C-109
def test_only_commands_of_a_person_bring_requests_in() -> None:
    """A run, a result or a replay has no way to make one: its modules import no maker."""
    users: dict[str, set[str]] = {name: set() for name in MAKERS}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name in users and node.module != "threegate.cli":
                        users[alias.name].add(str(path.relative_to(SOURCE)))
    assert users == MAKERS
