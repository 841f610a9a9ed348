"""`make demo`: the first session runs on the test internet, and shows what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT, ORDINARY_UID, open_to_all, starter
from tests.support.origins.scholarly import WORLD

ROOT = Path(__file__).resolve().parents[2]
PROMISED = (
    "! wider     fetch: certificate authorities now also sha256:",
    "dry run: nobody was contacted",
    "RETRACTED, TEST SOURCE: ",
    "\n! TEST SOURCE: ",
    "4 references: 4 made",
    "no rule matched",
    "rejected TG-ART-003",
    "quarantined TG-ART-003",
    "\\u{1b}]52;c;",
    "- narrower ",
    "in force: generation 3",
    "verified: ",
    'Good "threegate-checkpoint" signature for operator',
    "gate core",
    "forbidden acts tried and refused",
    "is not what the log recorded",
    "docs/operator-guide.md",
)


def demo() -> None:
    """Run what `make demo` runs, as whoever this process is."""
    command = [sys.argv[1], "-m", "tests.support.internet", WORLD, "bash"]
    os.chdir(ROOT)
    os.execv(command[0], [*command, "examples/first-session.sh"])  # noqa: S606


@pytest.mark.parametrize(
    "who",
    [
        pytest.param("root" if IS_ROOT else "ordinary user"),
        *([pytest.param("ordinary user", marks=pytest.mark.slow)] if IS_ROOT else []),
    ],
)
def test_the_first_session_runs_and_leaves_nothing(tmp_path: Path, who: str) -> None:
    if IS_ROOT and who == "ordinary user":
        open_to_all(tmp_path)
        os.chown(tmp_path, ORDINARY_UID, ORDINARY_UID)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = starter(who).start(
        "tests.e2e.test_first_session:demo",
        (sys.executable,),
        env={"PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LC_ALL": "C.UTF-8"},
        stderr=subprocess.STDOUT,
        paths=(str(ROOT),),
    )
    out, _ = process.communicate(timeout=300)
    shown = out.decode("utf-8")
    assert process.returncode == 0, shown
    for promised in PROMISED:
        assert promised in shown, promised
    assert "\x1b" not in shown
    assert list(tmp_path.iterdir()) == []
