"""The import contracts of pyproject.toml bite: each is broken on purpose in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the source tree that a test may break."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "threegate", tmp_path / "threegate", ignore=skip)
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"}
    command = [str(LINT_IMPORTS), "--no-logo", "--no-cache"]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


def test_a_package_without_a_place_fails_the_lint(tree: Path) -> None:
    before = lint(tree)
    assert before.returncode == 0, f"control: the tree as it is passes\n{before.stdout}"
    (tree / "threegate" / "stray").mkdir()
    (tree / "threegate" / "stray" / "__init__.py").touch()
    after = lint(tree)
    assert after.returncode == 1
    assert "not listed as layers:\n\n- threegate.stray" in after.stdout


CROSSINGS = [
    ("gates.core", "socket"),
    ("artifacts", "http"),
    ("host", "asyncio"),
    ("host", "subprocess"),
    ("gates.fetch", "subprocess"),
    ("policy", "multiprocessing"),
    ("audit", "ctypes"),
    ("artifacts", "yaml"),
    ("host", "cryptography"),
    ("host", "h11"),
    ("gates.fetch", "h11"),
    ("artifacts", "jinja2"),
    ("gates.core", "threegate.gates.fetch"),
    ("gates", "threegate.host"),
    ("host", "threegate.gates.core"),
    ("cli", "threegate.gates.core.prompts"),
    ("console", "threegate.gates.fetch.addresses"),
    ("gates.core", "threegate.gates.model.messages"),
    ("host", "threegate.cli"),
    ("console", "threegate.cli"),
    ("host.workspace", "threegate.host.ask"),
    ("host.review", "threegate.host.report"),
    ("audit", "threegate.host"),
    ("keys", "threegate.audit"),
    ("artifacts", "threegate.policy"),
    ("policy", "threegate.handoff"),
    ("handoff", "threegate.sandbox"),
    ("host.run", "threegate.sandbox.box"),  # the home of `Start`: see host/open_box.py
    ("host.models", "threegate.sandbox.box"),
    ("console", "threegate.sandbox.box"),
    ("cli", "threegate.sandbox.box"),
]


def test_every_import_that_crosses_a_boundary_is_named(tree: Path) -> None:
    for number, (package, imported) in enumerate(CROSSINGS):
        place = tree / "threegate" / package.replace(".", "/")
        assert (place / "__init__.py").exists(), f"control: there is a package {package}"
        crossing = place / f"crossing{number}.py"
        crossing.write_text(f"import {imported}\n", "utf-8")
    result = lint(tree)
    assert result.returncode == 1
    missed = [
        (package, imported)
        for number, (package, imported) in enumerate(CROSSINGS)
        if f"threegate.{package}.crossing{number} -> {imported} (l.1)" not in result.stdout
    ]
    assert missed == [], result.stdout


def test_the_places_that_may_are_let_through(tree: Path) -> None:
    allowed = {
        "gates/fetch/inside.py": "import socket, ssl",
        "sandbox/inside.py": "import subprocess, ctypes",
        "gates/tool_exec/inside.py": "import subprocess",
        "host/keys/signatures.py": "import subprocess",
    }
    for module, line in allowed.items():
        (tree / "threegate" / module).write_text(f"{line}\n", "utf-8")
    result = lint(tree)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("gate", "line", "reason"),
    [
        ("gates/core", "import subprocess", "`subprocess` is banned: CORE starts nothing"),
        ("gates/core", "import urllib.request", "`urllib.request` is banned"),
        ("gates/fetch", "from os import fork", "`os.fork` is banned: FETCH starts nothing"),
        ("gates/fetch", "import pickle", "`pickle` is banned: FETCH runs no code it was given"),
        ("gates/tool_exec", "import socket", "`socket` is banned: TOOL-EXEC has no network"),
        ("sandbox", "from os import system", "`os.system` is banned: no shell, anywhere"),
        ("artifacts", "from os import fork", "`os.fork` is banned"),
        ("policy", "from yaml import safe_load", "`yaml.safe_load` is banned"),
        (
            "host",
            "import urllib.request",
            "`urllib.request` is banned: the network belongs to fetch",
        ),
    ],
)
def test_a_call_that_a_package_may_not_make_fails_ruff(gate: str, line: str, reason: str) -> None:
    assert banned(gate, "from os import stat\n") == "", "control: another name passes"
    assert reason in banned(gate, f"{line}\n")


def banned(package: str, source: str) -> str:
    """Return ruff's words on `source` as a module of `package`, banned names only."""
    name = ROOT / "src" / "threegate" / package / "module.py"
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet", "--select=TID251"]
    result = subprocess.run(
        [*command, "--output-format=concise", f"--stdin-filename={name}", "-"],
        input=source,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout
