"""Neither the current directory nor a PYTHON variable adds a module to the command."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import write

STARTS = {
    "console script": [str(Path(sys.executable).parent / "threegate")],
    "module": [sys.executable, "-m", "threegate"],
}
TRAP = b"import os\nos.write(2, b'owned ')\nraise ImportError\n"
# What the command line imports early, of the standard library and of others.
NAMES = ("argparse.py", "pathlib.py", "yaml.py", "dataclasses.py")


def run(argv: list[str], directory: Path, **environment: str) -> tuple[int, str]:
    home = directory.parent / "home"
    done = subprocess.run(
        [*argv, "validate", "--schema-is-not-an-option"],
        cwd=directory,
        env={"HOME": str(home), "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    directory = tmp_path / "downloads"
    for name in NAMES:
        write(directory / name, TRAP)
    return directory


@pytest.mark.parametrize("start", STARTS)
# claim TG-C-414
def test_the_current_directory_holds_no_module_of_ours(start: str, downloads: Path) -> None:
    control = subprocess.run(
        [sys.executable, "-c", "import argparse"], cwd=downloads, capture_output=True, check=False
    )
    assert b"owned" in control.stderr, "control: Python itself imports from there"
    code, told = run(STARTS[start], downloads)
    assert (code, "owned" in told) == (2, False), told
    assert told.startswith("threegate: error: ")


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"])
# claim TG-C-414
def test_no_python_variable_names_a_module_of_ours(
    start: str, variable: str, downloads: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    code, told = run(STARTS[start], empty, **{variable: str(downloads)})
    assert (code, "owned" in told) == (2, False), told
    assert told.startswith("threegate: error: ")


@pytest.mark.parametrize("start", STARTS)
# claim TG-C-414
def test_what_a_variable_did_before_us_is_left_behind(start: str, tmp_path: Path) -> None:
    """Python runs `sitecustomize` before any line of ours; the command runs in a new process."""
    write(tmp_path / "path/sitecustomize.py", b"import sys\nsys.modules['argparse'] = None\n")
    path = str(tmp_path / "path")
    control = subprocess.run(
        [sys.executable, "-c", "import argparse"],
        env={"PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert b"import of argparse halted" in control.stderr, "control: it changes Python itself"
    code, told = run(STARTS[start], tmp_path, PYTHONPATH=path)
    assert (code, told.startswith("threegate: error: ")) == (2, True), told


def test_arguments_and_surroundings_survive(tmp_path: Path) -> None:
    argv = [*STARTS["module"], "validate", "a b", "--json"]
    told = []
    for environment in ({}, {"PYTHONDONTWRITEBYTECODE": "1"}):
        done = subprocess.run(
            argv,
            cwd="/",
            env={"HOME": str(tmp_path), **environment},
            capture_output=True,
            check=False,
        )
        told.append((done.returncode, done.stdout, done.stderr))
    assert told[0] == told[1]
    assert b"a b" in told[0][1] + told[0][2]
