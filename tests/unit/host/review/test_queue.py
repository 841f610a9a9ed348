"""What waits, oldest first, a page at a time, with the number of flags."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.requests import approved, drafted, held, program
from tests.support.samples import fetch_request
from tests.support.workspaces import make_workspace
from threegate.host.review.sheet import listed, total
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

WAITING = ("draft", "held")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path)) as found:
        yield found


def test_oldest_first_with_flags_and_pages(ws: Workspace) -> None:
    first = held(ws, program(functions=()))
    second = held(ws, drafted(program(nonce="e" * 32)))
    third = held(ws, fetch_request())
    gone = held(ws, program(nonce="f" * 32))
    approved(ws, gone)
    index = Index(ws.store, ws.seals)
    index.catch_up()
    items = list(listed(ws, index, WAITING, limit=50, skip=0))
    assert [item.id for item in items] == [first.id, second.id, third.id]
    assert [item.flags for item in items] == [len(one.flags) for one in (first, second, third)]
    assert [item.state for item in items] == ["held", "draft", "held"]
    assert items[1].origin == "core"
    assert items[2].lane == "fetch"
    assert total(index, WAITING) == 3
    page = list(listed(ws, index, WAITING, limit=1, skip=1))
    assert [item.id for item in page] == [second.id]
    (one,) = listed(ws, index, ("approved",), limit=50, skip=0)
    assert (one.id, one.expires_in_seconds) == (gone.id, None)
    index.close()
