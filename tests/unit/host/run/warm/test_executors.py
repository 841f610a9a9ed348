"""The table of executors in the log: of processes that live, the newest, whatever lies between."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.pushing import chain
from tests.support.workspaces import make_workspace
from threegate.handoff.claims import current_lease
from threegate.host.run.warm.executors import (
    AGAIN_ENTRIES,
    APPLIED,
    LOOK_BACK_ENTRIES,
    NONE,
    RESTART,
    STATE,
    UNAVAILABLE,
    Board,
    Status,
    ask_again,
    live_executors,
)
from threegate.host.workspace.workspace import Workspace

ONE = Status("monty-1", "monty", APPLIED, 1, "0" * 64)


def grow(ws: Workspace, count: int) -> None:
    with ws.store.locked() as journal:
        journal.log.append([("note", {})] * count, durable=False)


def shown(ws: Workspace) -> list[tuple[str, str, int]]:
    rows = live_executors(ws.store.journal.log)
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


# claim TG-C-80
def test_who_has_answered_is_told_by_entry_and_policy_and_not_by_a_number(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    first, second, third = (one.bundle for one in chain(3))
    board = Board(ws.store, [])
    board.tell(ONE)
    asked = ask_again(ws.store, 2)
    (row,) = live_executors(ws.store.journal.log)
    assert not row.has_answered(asked, first), "before it was asked"
    for state, generation, policy, answered, enforces in (
        (RESTART, 1, first.digest, False, False),
        (APPLIED, 1, first.digest, False, False),
        (APPLIED, 2, "0" * 64, False, False),  # another policy of the same number
        (APPLIED, 2, second.digest, True, True),
        (APPLIED, 3, third.digest, True, True),  # somebody applied another one meanwhile
        (UNAVAILABLE, 0, "", True, False),
    ):
        board.tell(Status("monty-1", "monty", state, generation, policy))
        (row,) = live_executors(ws.store.journal.log)
        assert row.has_answered(asked, second) == answered, row
        assert row.enforces(second) == enforces, row


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
