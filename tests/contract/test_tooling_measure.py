"""scripts/measure_tree.py counts what it says, on a tree whose figures are known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = {
    "src/threegate/__init__.py": '"""Top."""\n',
    "src/threegate/cli/__init__.py": "",
    "src/threegate/cli/run.py": "def main():\n    from threegate.host.run import go\n    go()\n",
    "src/threegate/host/__init__.py": "",
    "src/threegate/host/loose.py": '"""A wish."""\n\n# One line.\nx = 1  # beside code\n',
    "src/threegate/host/asking.py": "",
    "src/threegate/host/run/__init__.py": "import threegate.host.ask.one\n",
    "src/threegate/host/ask/__init__.py": "",
    "src/threegate/host/ask/one.py": (
        "import threegate.host.run\nclass Desk: ...\nclass Same: ...\n"
        'raise ValueError(f"the box {1} came to nothing")\n'
    ),
    "src/threegate/gates/core/messages.py": (
        'class Same: ...\ndef parse_a(data):\n    """Parse."""\n    return A.parse(data)\n'
        "def parse_b(data):\n    x = data\n    return x\n"
    ),
    "src/threegate/console/templates/page.html": "<p class='box'>Nobody's fate</p>\n",
    "docs/page.md": "A plain line with `wish` in it.\n\n    $ threegate wish\n\nWhoever reads.\n",
}


def measured(directory: Path, *options: str) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "measure_tree.py"), *options]
    return subprocess.run(
        [*command, str(directory / "src")], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tree")
    for name, text in TREE.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, "utf-8")
    return directory


def test_the_figures_are_those_of_the_tree(tree: Path) -> None:
    figures = json.loads(measured(tree, "--json"))
    developers = figures.pop("retired words per 1,000 in docstrings and comments")
    users = figures.pop("retired words per 1,000 in texts for users")
    assert developers == round(1000 / 8, 2), "wish, of the words of docstrings and comments"
    assert users == round(1000 * 4 / 16, 2), "box, came to nothing, fate, whoever"
    assert figures == {
        "files": 10,
        "lines": 20,
        "packages": 5,
        "folders in cycles": 2,
        "loose modules in host": 2,
        "gerund modules": 1,
        "class names used more than once": 1,
        "hand-written parsers of messages": 1,
        "names made of retired words": 1,
        "comment lines per 100 lines of code": round(100 / 15, 1),
        "modules that `run` may import": 3,
    }


def test_every_retired_word_is_listed_with_its_place(tree: Path) -> None:
    assert measured(tree, "--hits").splitlines() == [
        "threegate.host.loose:1: wish",
        "threegate.host.ask.one:4: came to nothing",
        "threegate.host.ask.one:4: box",
        "src/threegate/console/templates/page.html:1: fate",
        "docs/page.md:5: Whoever",
        "threegate.host.ask.one:2: Desk",
    ]
