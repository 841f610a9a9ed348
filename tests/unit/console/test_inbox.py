"""The inbox: riskiest first, of equals the newest, a page at a time, and what cannot be read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.requests import drafted, program
from tests.support.samples import box, escalated, fetch_request
from tests.support.workspaces import make_workspace, take_in
from threegate.console.inbox_page import AT_ONCE, PAGE, Inbox, InboxPage
from threegate.host.review.decisions import deny
from threegate.host.review.sheet import read_sheet
from threegate.host.workspace.index import Index
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def live(ws: Workspace) -> Iterator[LiveWorkspace]:
    index = Index(ws.store, ws.seals)
    yield LiveWorkspace(ws, index)
    index.close()


def look(inbox: Inbox, live: LiveWorkspace, number: int = 1) -> InboxPage:
    """Return a page of the inbox as it is now."""
    live.index.catch_up()
    return inbox.page(live, number)


def ids(page: InboxPage) -> list[str]:
    return [row.id for row in page.rows]


def test_the_riskiest_stand_first_and_of_equals_the_newest(
    ws: Workspace, live: LiveWorkspace
) -> None:
    secret = {"confidentiality": "confidential"}
    flagged = program("p\u0430ss = 1\n")  # a letter of another alphabet
    heavy = escalated("files", inputs=(), profile="python")
    two = fetch_request(references=(box("10.1000/2"),), **secret)
    joined = drafted(fetch_request(references=(box("10.1000/1"),)), **secret)
    old, new = (program(f"x = {n}\nx\n") for n in range(2))
    arrived = take_in(ws, old, flagged, two, joined, heavy, new)
    named = dict(zip(("old", "flagged", "two", "joined", "heavy", "new"), arrived, strict=True))
    inbox = Inbox()
    look(inbox, live)
    page = look(inbox, live)
    assert page.unrated == 0, "the first look rates a few, the second one the rest"
    wanted = [named[one] for one in ("joined", "two", "heavy", "flagged", "new", "old")]
    assert ids(page) == wanted
    assert [row.joins for row in page.rows] == [3, 2, 0, 0, 0, 0]
    flags = {row.id: row.item.flags for row in page.rows if row.item is not None}
    assert flags[named["flagged"]] > flags[named["new"]] == flags[named["old"]]

    deny(ws, named["joined"], "no")
    assert ids(look(inbox, live)) == wanted[1:], "what was decided waits no more"


def test_many_come_on_pages_and_those_not_rated_yet_are_counted(
    ws: Workspace, live: LiveWorkspace
) -> None:
    count = PAGE + 6
    made = take_in(ws, *(program(f"x = {n}\nx\n") for n in range(count)))
    inbox = Inbox()
    first = look(inbox, live)
    assert (len(first.rows), first.total, first.unrated) == (AT_ONCE, count, count - AT_ONCE)
    while inbox.rate_some(live):
        pass
    pages = [look(inbox, live, number) for number in (1, 2, 3)]
    assert [len(page.rows) for page in pages] == [PAGE, 6, 0]
    assert {(page.total, page.unrated, page.pages) for page in pages} == {(count, 0, 2)}
    shown = [one for page in pages for one in ids(page)]
    assert shown == made[::-1], "each once, the last to come first"


def test_a_meddled_file_stands_above_everything_and_says_why(
    ws: Workspace, live: LiveWorkspace
) -> None:
    worst = drafted(fetch_request(references=(box("10.1000/1"),)), confidentiality="confidential")
    rated, meddled = take_in(ws, worst, program())
    inbox = Inbox()
    assert ids(look(inbox, live)) == [rated, meddled], "control: as it was it was the last"
    (path,) = ws.root.rglob(f"{meddled}.md")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data.replace(b"rows", b"row5"))
    path.chmod(0o444)
    look(inbox, live)  # a rating is kept: the page on which it stands finds out
    first, second = look(inbox, live).rows
    assert (first.id, first.item, second.id) == (meddled, None, rated)
    assert "[TG-HND-008]" in first.problem
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)
    look(inbox, live)
    assert [row.problem for row in look(inbox, live).rows] == ["", ""], "control: put back"


def test_a_profile_that_policy_does_not_have_is_a_denial_and_not_the_end_of_the_list(
    ws: Workspace, live: LiveWorkspace
) -> None:
    unknown, known = take_in(ws, program("x = 1\nx\n", profile="no-such"), program())
    assert ids(look(Inbox(), live)) == [known, unknown]
    assert "deny" in {one.verdict for one in read_sheet(ws, unknown).verdicts}
    assert "deny" not in {one.verdict for one in read_sheet(ws, known).verdicts}, "control"
