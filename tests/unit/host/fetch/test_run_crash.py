"""Killed anywhere, a run leaves what the log says, and the same run again completes it."""

import shutil
from pathlib import Path

from tests.support.crash import TURNING, deaths
from tests.support.fetches import ARTICLE, RETRACTED, Bench
from tests.support.workspaces import Clock, make_workspace
from threegate.host.workspace.backup import silent
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import open_workspace


# claim TG-C-127
def test_killed_anywhere_the_same_command_goes_on(tmp_path: Path) -> None:
    make_workspace(tmp_path).close()
    root, kept = tmp_path / "ws", tmp_path / "kept"
    root.rename(kept)
    found: set[int] = set()

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(kept, root)

    def action() -> None:
        Bench(open_workspace(root, clock=Clock())).fetch(ARTICLE, RETRACTED)

    for death in deaths(action, prepare, TURNING):
        report = verify_workspace(root, given=(), clock=Clock(), progress=silent)
        assert [item.problem for item in report.findings] == [], death
        ws = open_workspace(root, clock=Clock())
        before = len(list(ws.store.ids("rp")))
        statuses = sorted(item.status for item in Bench(ws).fetch(ARTICLE, RETRACTED))
        assert statuses == ["already"] * before + ["made"] * (2 - before), death
        after = verify_workspace(root, given=(), clock=Clock(), progress=silent)
        assert [item.problem for item in after.findings] == [], death
        ws.close()
        found.add(before)
    assert found == {0, 1, 2}, "killed before, between and after"
