"""The worked examples and escalation of docs/execution-backends.md, typed as they stand."""

import ast
import json
import re
import shlex
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, made, write
from tests.support.workspaces import key_file

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "lite"
PAGE = (ROOT / "docs" / "execution-backends.md").read_text("utf-8")
TYPED = re.compile(
    r"^    cd examples/lite/([a-z-]+)\n    threegate (request new .+(?:\n        .+)?)$",
    re.MULTILINE,
)
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/expected.json"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def typed(name: str) -> list[str]:
    """Return the words of the command that the page shows for an example."""
    lines = [line for example, line in TYPED.findall(PAGE) if example == name]
    assert lines, f"the page does not show {name}"
    return shlex.split(lines[-1].replace("\\\n", " "))


def expected(name: str) -> Any:
    return json.loads((EXAMPLES / name / "expected.json").read_text("utf-8"))


def value_in_cpython(name: str, words: list[str]) -> Any:
    """Return what the program gives in plain Python with plain functions."""
    options = list(pairwise(words))
    names: dict[str, Any] = {
        "sha256_hex": lambda s: sha256(s.encode()).hexdigest(),
        "json_dumps": lambda obj: json.dumps(obj, sort_keys=True),
        "regex_findall": re.findall,
        "print": lambda *_: None,
    }
    for option, value in options:
        if option == "--input":
            bound, _, file = value.partition("=")
            text = (EXAMPLES / name / file).read_bytes().decode("utf-8")
            names[bound] = json.loads(text) if file.endswith(".json") else text
    code = next(value for option, value in options if option == "--code")
    tree = ast.parse((EXAMPLES / name / code).read_text("utf-8"))
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, code, "exec"), names)  # noqa: S102 -- our own example
    return eval(compile(ast.Expression(last.value), code, "eval"), names)  # noqa: S307


def test_all_examples_are_here() -> None:
    assert NAMES == ["csv-normalisation", "json-transform", "ranking", "validation"]


@pytest.mark.parametrize("name", NAMES)
def test_example_means_in_plain_python_what_it_must_give(name: str) -> None:
    assert value_in_cpython(name, typed(name)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_example_gives_its_value_through_review_and_run(cli: Cli, name: str) -> None:
    asked = cli(*typed(name), "--json", cwd=EXAMPLES / name).json
    assert (asked["state"], asked["warnings"]) == ("held", [])
    cli("review", "approve", asked["id"], "--yes", "--key", key_file(cli.base))
    (ran,) = cli("run", asked["id"], "--json").json["runs"]
    assert (ran["exit"], ran["error"]) == ("ok", None)
    sections = cli("result", "show", ran["result"], "--json").json["sections"]
    assert json.loads(sections["Value"]) == expected(name)
    (again,) = cli("replay", ran["result"], "--json").json["replays"]
    assert again["verdict"] == "same"


def test_worked_escalation_is_what_the_command_says(cli: Cli, tmp_path: Path) -> None:
    session = PAGE.partition("### A worked escalation\n")[2].partition("\nNearly always")[0]
    lines = [line.removeprefix("    ") for line in session.strip("\n").split("\n")]
    assert lines[0] == "$ cat walk.py"
    (asked,) = [n for n, line in enumerate(lines) if line.startswith("$ threegate ")]
    write(tmp_path / "walk.py", ("\n".join(lines[1:asked]) + "\n").encode())
    write(tmp_path / "rows.json", b'[{"a": 1, "b": 2}]')
    done = cli(*shlex.split(lines[asked])[2:], code=65)
    assert done.out + done.err == "\n".join(lines[asked + 1 :]).rstrip("\n") + "\n"
