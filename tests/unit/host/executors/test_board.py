"""The table of executors in the log: of processes that live, the newest, whatever lies between."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.workspaces import make_workspace
from threegate.handoff.lease import current_lease
from threegate.host.executors.board import (
    AGAIN_ENTRIES,
    LOOK_BACK_ENTRIES,
    STATE,
    Board,
    ask_again,
    executors,
)
from threegate.host.executors.states import APPLIED, NONE, RESTART, UNAVAILABLE, Status
from threegate.host.workspace import Workspace

ONE = Status("monty-1", "monty", APPLIED, 1, "0" * 64)


def grow(ws: Workspace, count: int) -> None:
    with ws.store.locked() as journal:
        journal.log.append([("note", {})] * count, durable=False)


def shown(ws: Workspace) -> list[tuple[str, str, int]]:
    rows = executors(ws.store.journal.log)
    return [(row.status.executor, row.status.state, row.status.generation) for row in rows]


def test_a_table_is_found_however_long_the_log_grows(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    board = Board(ws.store, [ONE])
    board.begin()
    for _ in range(2 * LOOK_BACK_ENTRIES // AGAIN_ENTRIES):
        grow(ws, AGAIN_ENTRIES)
        board.tell_again()
    assert shown(ws) == [("monty-1", APPLIED, 1)]
    grow(ws, 500)
    grow(ws, 500)
    grow(ws, 500)
    grow(ws, 500)
    assert shown(ws) == [], "control: one that is not said again is lost"


def test_what_a_policy_has_not_stands_in_no_table_and_an_end_empties_it(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    board = Board(ws.store, [ONE])
    board.begin()
    board.tell(Status("era-1", "era", UNAVAILABLE, reason="no image", code="TG-ERA-001"))
    assert shown(ws) == [("era-1", UNAVAILABLE, 0), ("monty-1", APPLIED, 1)]
    board.tell(Status("era-1", "era", NONE))
    assert shown(ws) == [("monty-1", APPLIED, 1)]
    board.end()
    assert shown(ws) == []


def test_who_has_answered_is_told_by_entry_and_generation(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    board = Board(ws.store, [])
    board.tell(ONE)
    asked = ask_again(ws.store, 2)
    (row,) = executors(ws.store.journal.log)
    assert not row.has_answered(asked, 1), "before it was asked"
    for status, answered in (
        (Status("monty-1", "monty", RESTART, 1, "0" * 64), False),
        (ONE, False),  # of an older policy
        (Status("monty-1", "monty", APPLIED, 2, "0" * 64), True),
        (Status("monty-1", "monty", UNAVAILABLE, code="TG-PSH-003"), True),
    ):
        board.tell(status)
        (row,) = executors(ws.store.journal.log)
        assert row.has_answered(asked, 2) == answered, status


ROW = {**ONE.plain(), "entry": 1, "time": "2026-11-15T21:50:55Z"}


@pytest.mark.parametrize(
    "row",
    [
        None,
        {**ROW, "state": "fine"},
        {**ROW, "generation": "1"},
        {**ROW, "more": 1},
        {**ROW, "time": 7},
        {key: value for key, value in ROW.items() if key != "entry"},
    ],
)
def test_what_is_no_row_and_what_is_of_no_process_is_left_out(tmp_path: Path, row: Any) -> None:
    ws, holder = make_workspace(tmp_path), current_lease()
    owner = {"boot": holder.boot, "pid": holder.pid, "started": holder.started}
    others = [None, {}, {**owner, "pid": "1"}, {**owner, "started": holder.started + 1}]
    with ws.store.locked() as journal:
        for one in others:
            journal.log.append([(STATE, {"executors": [ROW], "owner": one})])
        journal.log.append([(STATE, {"executors": [row], "owner": owner})])
    assert shown(ws) == []
    with ws.store.locked() as journal:
        journal.log.append([(STATE, {"executors": [row, ROW], "owner": owner})])
    assert shown(ws) == [("monty-1", APPLIED, 1)], "control"
