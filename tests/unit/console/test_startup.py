"""What the console does in the background goes on, whatever happens."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.requests import program
from tests.support.workspaces import make_workspace, take_in
from threegate.base.errors import StorageFailed
from threegate.console import startup
from threegate.console.events import Events
from threegate.console.inbox_page import Inbox
from threegate.console.workspace_threads import WorkspaceThread
from threegate.host.workspace.live import LiveWorkspace

SECONDS = 60.0


class Meddled(Inbox):
    """An inbox whose first looks fail."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self._errors = list(errors)
        self._loop, self.rated = asyncio.get_running_loop(), asyncio.Event()

    def rate_some(self, live: LiveWorkspace) -> bool:
        """Fail as long as there is a reason to, then rate."""
        if self._errors:
            raise self._errors.pop(0)
        more = super().rate_some(live)
        self._loop.call_soon_threadsafe(self.rated.set)
        return more


def test_rating_goes_on_after_an_error_which_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "LOOK_SECONDS", 0.01)
    ws = make_workspace(tmp_path)
    take_in(ws, program())
    ws.close()
    told: list[Mapping[str, object]] = []

    async def rated() -> None:
        events = Events(asyncio.get_running_loop(), lambda: "now", told.append)
        failed = StorageFailed("the disk is full")
        inbox = Meddled(failed, failed, ValueError("x"), ValueError("y"), failed)
        thread = WorkspaceThread(ws.root, "read")
        app: Any = SimpleNamespace(reading=thread, inbox=inbox, events=events)
        task = asyncio.create_task(startup._rate(app))
        both = [task, asyncio.create_task(inbox.rated.wait())]
        await asyncio.wait(both, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert (task.done(), inbox.rated.is_set()) == (False, True), "it went on, and rates"
        task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        await thread.close()

    asyncio.run(rated())
    assert [one["event"] for one in told] == ["not-rated", "bug", "not-rated"]
    assert (told[0]["code"], told[0]["reason"]) == (StorageFailed.code, "the disk is full")
    assert told[1]["kind"] == "ValueError"
