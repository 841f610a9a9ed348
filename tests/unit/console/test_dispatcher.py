"""Which approved requests are tried again, and which wait for another approval."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.requests import approved_request, live_workspace
from threegate.console.workspace_threads import Dispatcher, FinishedRequest, Stop
from threegate.host.workspace.workspace import Workspace


@pytest.mark.parametrize(
    ("code", "again"),
    [("TG-PSH-004", True), ("TG-PSH-005", True), ("TG-ERA-004", False), ("", True)],
)
def test_what_was_refused_for_a_policy_that_came_between_is_tried_again(
    tmp_path: Path, code: str, again: bool
) -> None:
    ws = live_workspace(tmp_path)
    request_id = approved_request(ws, "1")
    asked: list[list[str]] = []

    def run(_ws: Workspace, ids: Sequence[str], _stop: Stop) -> Iterator[FinishedRequest]:
        asked.append(list(ids))
        for one in ids:
            yield FinishedRequest(one, "", "refused", code)

    dispatcher = Dispatcher(ws.root, "tr", run, lambda _kind, /, **_facts: None)
    for _ in range(2):
        dispatcher._look()
    assert asked == [[request_id], [request_id] if again else []]
