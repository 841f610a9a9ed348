"""Two runs of the tests on one machine have nothing in common that one could spoil."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT, leased_uid, ordinary_uid, repository

UIDS = range(70_000, 70_003)
HOLD = f"""
import sys
from pathlib import Path
from tests.support.boxes import leased_uid
print(leased_uid(Path(sys.argv[1]), {UIDS}), flush=True)
sys.stdin.read()
"""


@contextmanager
def another_run(place: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start a process that takes a uid and keeps it; give the uid."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)],
        cwd=repository(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdin
        yield int(process.stdout.readline()), process
        process.stdin.close()


def test_two_runs_have_different_uids_and_give_them_back_however_they_end(tmp_path: Path) -> None:
    with another_run(tmp_path) as (first, killed), another_run(tmp_path) as (second, _):
        assert {first, second, leased_uid(tmp_path, UIDS)} == set(UIDS)
        with pytest.raises(AssertionError, match="is taken by other tests"):
            leased_uid(tmp_path, UIDS)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert leased_uid(tmp_path, UIDS) == first


def test_the_ordinary_user_is_the_same_one_for_a_whole_run() -> None:
    assert ordinary_uid() == ordinary_uid()
    if IS_ROOT:
        assert leased_uid() != ordinary_uid(), "another lease is another uid"


def test_a_run_has_temporary_files_of_its_own_that_other_accounts_can_reach(tmp_path: Path) -> None:
    """With pytest's own place, the second run closes it while the first one is under way."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "conftest.py").write_text((repository() / "tests/conftest.py").read_text("utf-8"))
    test = "def test(tmp_path):\n    open('place', 'w').write(str(tmp_path))\n    assert {}\n"
    (project / "test_good.py").write_text(test.format("True"))
    (project / "test_bad.py").write_text(test.format("False"))
    good, bad = (_place_of(project, f"test_{name}.py") for name in ("good", "bad"))
    assert good != bad
    assert not good.exists(), "removed after a success"
    assert bad.stat().st_mode & 0o777 == 0o755, "kept after a failure"


def _place_of(project: Path, name: str) -> Path:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", name]
    environment = {"TMPDIR": str(project.parent), "PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
    return Path((project / "place").read_text("utf-8")).parents[1]
