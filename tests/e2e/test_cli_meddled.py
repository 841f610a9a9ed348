"""A request that somebody moved or changed by hand: it is named, and the others go on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.approved import approved_request, live_workspace, request_for
from tests.support.cli import Cli
from tests.support.workspaces import take_in
from threegate.host.workspace import Workspace

TAMPERED = 76


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


@pytest.fixture
def cli(tmp_path: Path, ws: Workspace) -> Cli:
    return Cli(tmp_path, ws.root)


def moved(ws: Workspace, request_id: str, new: str) -> None:
    requests = ws.root / "handoff" / "requests"
    (requests / "held" / f"{request_id}.md").rename(requests / new / f"{request_id}.md")


def copied(ws: Workspace, request_id: str, new: str) -> None:
    requests = ws.root / "handoff" / "requests"
    shutil.copy2(requests / "held" / f"{request_id}.md", requests / new / f"{request_id}.md")


def edited(ws: Workspace, request_id: str, _: str) -> None:
    path = ws.root / "handoff" / "requests" / "held" / f"{request_id}.md"
    path.chmod(0o644)
    # Its first lines too, as they say whether it has waited too long.
    path.write_bytes(b"---\n" + path.read_bytes())
    path.chmod(0o444)


@pytest.mark.parametrize(
    ("meddle", "new", "code"),
    [
        (moved, "approved", "TG-HND-015"),
        (copied, "claimed", "TG-HND-015"),
        (edited, "", "TG-HND-008"),
    ],
)
def test_the_others_are_listed_and_run(
    ws: Workspace, cli: Cli, meddle: Callable[[Workspace, str, str], None], new: str, code: str
) -> None:
    bad, waits = take_in(ws, request_for(ws, "'meddled'"), request_for(ws, "2"))
    listed = cli("review", "list", "--json").json["items"]
    assert {item["id"] for item in listed} == {bad, waits}, "control"
    ready = approved_request(ws, "3")
    meddle(ws, bad, new)
    done = cli("review", "list", code=TAMPERED)
    assert waits[:15] in done.out
    assert bad[:15] not in done.out
    named = f"{bad}.md", f"[{code}]", "`threegate audit verify`"
    assert all(words in done.err for words in named)
    done = cli("run", "--all", code=TAMPERED)
    assert f"ok {ready[:15]} res-" in done.out
    assert bad[:15] not in done.out
    assert all(words in done.err for words in named)
    assert len(list(ws.store.ids("res"))) == 1


def test_asked_for_by_name_it_is_the_answer(ws: Workspace, cli: Cli) -> None:
    (bad,) = take_in(ws, request_for(ws, "'meddled'"))
    good = approved_request(ws, "2")
    moved(ws, bad, "approved")
    runs = cli("run", bad, good, "--json", code=TAMPERED).json["runs"]
    found = {run["request"]: (run["error"] or {}).get("code") for run in runs}
    assert found == {bad: "TG-HND-015", good: None}
    assert "[TG-HND-015]" in cli("review", "show", bad, code=TAMPERED).err
    done = cli("review", "show", good, "--json", code=TAMPERED)
    assert "[TG-HND-015]" in done.err
    assert done.json["id"] == good, "it is named, and the others can still be shown"
