"""`make demo`: the first session runs, and shows what it promises."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_session_runs_and_leaves_nothing(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", ROOT / "examples/first-session.sh"],
        env={"PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LC_ALL": "C.UTF-8"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for promised in (
        "rejected TG-ART-003",
        "quarantined TG-ART-003",
        "\\u{1b}]52;c;",
        "! wider ",
        "- narrower ",
        "in force: generation 2",
        "verified: ",
        'Good "threegate-checkpoint" signature for operator',
        "gate core",
        "forbidden acts tried and refused",
        "is not what the log recorded",
        "docs/operator-guide.md",
    ):
        assert promised in ended.stdout, promised
    assert "\x1b" not in ended.stdout
    assert list(tmp_path.iterdir()) == []
