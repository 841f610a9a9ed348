"""Kill -9 while an answer is stored: all of it is there, or nothing."""

import shutil
from pathlib import Path

from tests.support.core_doubles import FakeAskGates, claim, program, said, wanted_source
from tests.support.crash import TURNING, deaths
from tests.support.holdings import shelf
from tests.support.workspaces import Clock, make_workspace, take_in
from threegate.artifacts.registry import FORMATS
from threegate.host.ask.answer import TypedQuestion, answer_by_model
from threegate.host.workspace.backup import silent
from threegate.host.workspace.index import Index
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import Workspace, open_workspace

ANSWER = said(
    claim("Sea ice broke at 1.2 MPa.", (1, 1, 1)),
    drafts=(program("1 + 1", 1), wanted_source("doi:10.5555/tg.9")),
)


def ask(ws: Workspace) -> None:
    index = Index(ws.store, ws.seals)
    try:
        index.catch_up()
        answer_by_model(ws, index, TypedQuestion("How strong is sea ice?"), FakeAskGates(ANSWER))
    finally:
        index.close()


def kept(ws: Workspace) -> dict[str, int]:
    return {kind: len(list(ws.store.ids(kind))) for kind in FORMATS}


# claim TG-C-154
def test_killed_anywhere_there_is_the_whole_answer_or_none(tmp_path: Path) -> None:
    first = make_workspace(tmp_path)
    take_in(first, *shelf())
    empty = kept(first)
    first.close()
    root, copy = tmp_path / "ws", tmp_path / "copy"
    root.rename(copy)
    whole = {**empty, "an": 1, "tr": 1, "fr": 1}
    found = []

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(copy, root)

    def action() -> None:
        ask(open_workspace(root, clock=Clock()))

    for death in deaths(action, prepare, TURNING):
        ws = open_workspace(root, clock=Clock())
        with ws.store.locked():  # what a crash left is settled by whoever comes next
            there = kept(ws)
        assert there in (empty, whole), death
        ask(ws)
        assert kept(ws)["an"] == there["an"] + 1, "it can be asked again"
        report = verify_workspace(root, given=(), clock=Clock(), progress=silent)
        assert [item.problem for item in report.findings] == [], death
        ws.close()
        found.append(there == whole)
    print(f"{len(found)} kills while an answer was stored, {sum(found)} left the whole of it")
    assert set(found) == {True, False}, "killed before and after"
