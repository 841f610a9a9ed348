"""scripts/slow_tests.py on a project of its own: everything is run, kept, resumed and summed up."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = """
import os, pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent
def note(word):
    with (HERE / "ran").open("a") as ran:
        ran.write(word + "\\n")
@pytest.mark.slow
def test_passing(): note("passing")
@pytest.mark.slow
def test_failing():
    note("failing")
    assert (HERE / "mended").exists(), "the reason"
@pytest.mark.slow
def test_dying():
    note("dying")
    if not (HERE / "mended").exists(): os._exit(3)
@pytest.mark.slow
def test_skipped():
    note("skipped")
    pytest.skip("why")
@pytest.mark.slow
def test_last(tmp_path): note("last")
def test_quick(): note("quick")
"""
WAITING = """
import pathlib, time
import pytest
@pytest.mark.slow
def test_waiting():
    begun = pathlib.Path(__file__).parent / "begun"
    if begun.exists(): return
    try:
        begun.touch()
        time.sleep(60)
    finally:
        (begun.parent / "torn-down").touch()
"""


def environment() -> dict[str, str]:
    """Return the variables of a run: not in CI, and without plugins, which take half a second."""
    kept = {key: value for key, value in os.environ.items() if key != "CI"}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclass(frozen=True)
class Project:
    directory: Path

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self.directory / "scripts" / "slow_tests.py")]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *words], env=environment(), capture_output=True, text=True, check=False
        )

    def ran(self) -> list[str]:
        """Return what ran since the last call."""
        notes = self.directory / "tests" / "ran"
        words = notes.read_text("utf-8").split() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return words

    def results(self) -> dict[str, str]:
        lines = (self.directory / "dist/slow/results.jsonl").read_text("utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        assert all(one["revision"] and one["load"] >= 0 and one["seconds"] >= 0 for one in found)
        return {one["test"].partition("::")[2]: one["outcome"] for one in found}

    def commit(self) -> None:
        git = ["git", "-C", str(self.directory), "-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", "step"], check=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in ("scripts", "tests"):
        (tmp_path / name).mkdir()
    shutil.copyfile(ROOT / "scripts" / "slow_tests.py", tmp_path / "scripts" / "slow_tests.py")
    ini = "[pytest]\naddopts = -m 'not slow' -p no:cacheprovider\nmarkers = slow\n"
    (tmp_path / "pytest.ini").write_text(ini, "utf-8")
    (tmp_path / ".gitignore").write_text("dist\nran\nmended\nbegun\n__pycache__\n", "utf-8")
    (tmp_path / "tests" / "test_sample.py").write_text(SAMPLE, "utf-8")
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    Project(tmp_path).commit()
    return Project(tmp_path)


def test_neither_a_failure_nor_a_dead_process_stops_the_rest(project: Project) -> None:
    page = project.directory / "page.md"
    done = project.run("--summary", str(page))
    assert done.returncode == 1
    assert project.ran() == ["passing", "failing", "dying", "skipped", "last"], "and not the quick"
    outcomes = {"passing": "passed", "failing": "failed", "dying": "died", "skipped": "skipped"}
    outcomes["last"] = "passed"
    assert project.results() == {f"test_{name}": word for name, word in outcomes.items()}
    assert "3/5 died in 0 s: tests/test_sample.py::test_dying (1 min left)" in done.stdout
    assert "the reason" in (project.directory / "dist/slow/test_sample.log").read_text("utf-8")
    text = page.read_text("utf-8")
    assert "| tests/test_sample.py | 5 | 2 | 0 |\n| all | 5 | 2 | 0 |" in text
    assert "- died: `tests/test_sample.py::test_dying`" in text
    assert "- skipped: `tests/test_sample.py::test_skipped`" in text
    assert text in done.stdout


def test_resume_runs_what_did_not_pass_at_this_revision(project: Project) -> None:
    project.run()
    assert len(project.ran()) == 5
    (project.directory / "tests" / "mended").touch()
    again = project.run("--resume")
    assert project.ran() == ["failing", "dying", "skipped"]
    assert "threegate: 5 tests; 2 passed before, 0 at other revisions\n" in again.stdout
    assert "| all | 5 | 4 | 0 |" in again.stdout
    assert again.returncode == 0, "a skip is listed and is not a failure"
    # An edit that is not committed, or not even known to git, is another revision.
    (project.directory / "tests" / "helper.py").touch()
    project.run("--resume")
    assert len(project.ran()) == 5
    project.commit()
    older = project.run("--resume", "--any-revision", "last", "dying")
    assert project.ran() == []
    assert "threegate: 2 tests; 2 passed before, 2 at other revisions\n" in older.stdout
    assert "Other revisions of results: none" not in older.stdout
    assert "Other revisions of results: none" in again.stdout, "control"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_tests_and_keeps_their_results(
    project: Project, number: signal.Signals
) -> None:
    (project.directory / "tests" / "test_waiting.py").write_text(WAITING, "utf-8")
    first = subprocess.Popen(
        [*project.command, "passing", "waiting"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = project.directory / "tests" / "begun"
    while not begun.exists():
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(number)
    out, err = first.communicate()
    assert first.returncode == 130
    assert (project.directory / "tests" / "torn-down").exists()
    assert "- not run: `tests/test_waiting.py::test_waiting`" in out
    assert "threegate: interrupted; `make slow SLOW=--resume` continues" in err
    (project.directory / "tests" / "torn-down").unlink()
    project.ran()
    again = project.run("--resume", "passing", "waiting")
    assert again.returncode == 0, again.stdout
    assert project.ran() == [], "it passed before the interruption"
    assert project.results() == {"test_passing": "passed", "test_waiting": "passed"}


def test_tests_that_cannot_be_collected_are_an_error(project: Project) -> None:
    assert "no slow tests were collected" in project.run("no-such-word").stderr
    (project.directory / "tests" / "test_broken.py").write_text("1 / 0\n", "utf-8")
    broken = project.run()
    assert broken.returncode == 1
    assert "ZeroDivisionError" in broken.stderr
    assert project.ran() == []
