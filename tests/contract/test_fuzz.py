"""A short run of every fuzz target, and proof that a long one would find something."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.targets import TARGETS

HAS_FUZZER = importlib.util.find_spec("atheris") is not None
RUNS, SLOW_RUNS = 2_000, 200  # a policy page takes milliseconds; `make fuzz` runs for longer
SLOW = {"page", "policy", "policy-page"}
# Starting a fuzzer takes longer than its short run: the fast suite takes what strangers reach
# first, and one of each family. The seeds of all are tried below.
FIRST = ("chat", "artifact-any", "ssh-signature", "policy", "guest-frames", "http-response", "page")


def smoke(name: str, build: Path) -> run.Report:
    runs = SLOW_RUNS if name in SLOW else RUNS
    return run.fuzz(name, build, f"-runs={runs}", "-seed=1")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FIRST)) for name in TARGETS]
    if HAS_FUZZER
    else [],
)
def test_fuzz_target_finds_nothing_in_a_short_run(name: str, tmp_path: Path) -> None:
    report = smoke(name, tmp_path)
    assert report.findings == []
    assert report.executions >= (SLOW_RUNS if name in SLOW else RUNS)
    assert report.edges > 5, "the parser was instrumented"


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_themselves_are_no_findings(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name](seed)


@pytest.mark.parametrize("name", ["planted"] if HAS_FUZZER else [])
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    report = smoke(name, tmp_path)
    assert len(report.findings) == 1
    found = (tmp_path / name / "findings" / report.findings[0]).read_bytes()
    assert found.startswith(b"BUG")


def test_without_the_fuzzer_the_command_says_so() -> None:
    hide = "import sys; sys.modules['atheris'] = None; from tests.fuzz.run import main"
    code = f"{hide}; sys.exit(main())"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert shown.returncode == os.EX_UNAVAILABLE
    assert "threegate: error: atheris is not installed" in shown.stderr


def test_fuzzer_is_here_where_it_is_locked() -> None:
    locked = sys.platform == "linux" and os.uname().machine == "x86_64"
    assert locked == HAS_FUZZER
