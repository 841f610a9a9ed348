"""A request that somebody moved or changed by hand: it is named, and the others go on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_policy_push import edit
from tests.support.cli import PYTHON, Cli, made
from tests.support.console import console, fresh, held, opened
from tests.support.requests import approved_request, live_workspace, request_for
from tests.support.terminal import Terminal
from tests.support.workspaces import key_file, public_of, take_in
from threegate.handoff.states import directory_of
from threegate.host.keys.operator import Operator, remember
from threegate.host.settings import Settings
from threegate.host.workspace.workspace import Workspace

TAMPERED = 76


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


@pytest.fixture
def cli(tmp_path: Path, ws: Workspace) -> Cli:
    operator = Operator(key_file(tmp_path), public_of())
    remember(Settings(tmp_path / ".config/threegate", tmp_path / "state", None, tmp_path), operator)
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


MEDDLED = pytest.mark.parametrize(
    ("meddle", "new", "code"),
    [
        (moved, "approved", "TG-HND-015"),
        (copied, "claimed", "TG-HND-015"),
        (edited, "", "TG-HND-008"),
    ],
)


def states_of(ws: Workspace, *request_ids: str) -> list[str | None]:
    with ws.store.locked():
        return [ws.store.standing(one) for one in request_ids]


@MEDDLED
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


@MEDDLED
# claim TG-C-391
def test_of_several_the_others_are_approved_and_denied(
    ws: Workspace, cli: Cli, meddle: Callable[[Workspace, str, str], None], new: str, code: str
) -> None:
    bad, *good = take_in(ws, *(request_for(ws, one) for one in ("'meddled'", "2", "3", "4", "5")))
    assert f"approved {good[0]}" in cli("review", "approve", good[0], "--yes").out, "control"
    meddle(ws, bad, new)
    done = cli("review", "approve", bad, good[1], "--yes", "--json", code=TAMPERED)
    assert [one["request"] for one in done.json["approvals"]] == [good[1]]
    assert (done.err.count(f"{bad}.md"), f"[{code}]" in done.err) == (1, True)
    done = cli("review", "approve", good[2], "--yes", code=TAMPERED)
    assert f"approved {good[2]}" in done.out, "it was not asked for, and is named all the same"
    assert f"[{code}]" in done.err
    done = cli("review", "deny", bad, good[3], "--reason", "no", "--json", code=TAMPERED)
    assert done.json == {"denied": [good[3]]}
    assert f"[{code}]" in done.err
    assert states_of(ws, *good) == ["approved", "approved", "approved", "denied"]
    kept = ws.store.names(directory_of("ap", "accepted"))
    assert sum(name.endswith(".md") for name in kept) == 3, "none for what was meddled with"


def test_of_several_each_is_decided_by_itself(ws: Workspace, cli: Cli) -> None:
    first, decided, *more = take_in(ws, *(request_for(ws, one) for one in "1234"))
    cli("review", "deny", decided, "--reason", "no")
    gone = "tr-" + "0" * 64
    done = cli("review", "approve", gone, decided, first, "--yes", "--json", code=77)
    assert [one["request"] for one in done.json["approvals"]] == [first]
    assert ("no request" in done.err, "[TG-APR-012]" in done.err) == (True, True)
    stranger = cli.base / "none"
    done = cli("review", "approve", *more, "--yes", "--key", stranger, code=None)
    assert (done.code, done.err.count("error: "), done.out) == (69, 1, ""), "refuses all of them"
    assert states_of(ws, *more) == ["held", "held"]


def test_at_a_terminal_a_no_is_for_one_request(ws: Workspace, cli: Cli) -> None:
    first, second = take_in(ws, request_for(ws, "1"), request_for(ws, "2"))
    argv = [*PYTHON, "review", "approve", first, second]
    with Terminal(argv, cli.env(TERM="xterm"), cli.base, columns=100, rows=60) as terminal:
        terminal.until(f"run {first[:15]}")
        terminal.type("n\n")
        terminal.until(f"run {second[:15]}")
        terminal.type("y\n")
        assert terminal.end() == 77
    assert f"{first[:15]} not approved: the operator said no".encode() in terminal.sent
    assert states_of(ws, first, second) == ["held", "approved"]


@MEDDLED
# claim TG-C-391
def test_the_interactive_review_names_it_and_goes_on(
    ws: Workspace, cli: Cli, meddle: Callable[[Workspace, str, str], None], new: str, code: str
) -> None:
    bad, good, late = take_in(ws, *(request_for(ws, one) for one in ("'meddled'", "2", "3")))
    env = cli.env(TERM="xterm")
    with Terminal([*PYTHON, "review"], env, cli.base, columns=120, rows=90) as terminal:
        terminal.until("requests waiting for review: 3", bad[:15])
        meddle(ws, bad, new)
        take_in(ws, request_for(ws, "4"))  # somebody else's: the log grows, so it looks again
        shown = terminal.until("requests waiting for review: 3; tampered with: 1", f"[{code}]")
        assert f"{bad}.md" in shown.replace("\n", "")
        terminal.type("\r")
        terminal.until(good[:15], "all seen")
        terminal.type("a")
        terminal.until("y sign")
        terminal.type("y")
        terminal.until(f"approved {good[:15]}", late[:15])
        terminal.type("q")
        assert terminal.end() == TAMPERED
        terminal.until(f"error: {bad}.md", "`threegate audit verify`")
    assert terminal.sent.count(f"[{code}]".encode()) >= 2, "in the session, and at its end"
    assert states_of(ws, good, late) == ["approved", "held"]


# claim TG-C-391
def test_the_console_names_it_and_goes_on(ws: Workspace, cli: Cli) -> None:
    bad, good = take_in(ws, request_for(ws, "'meddled'"), request_for(ws, "2"))
    with console(cli, "--warm", "1") as served:
        known = served.login()
        assert served.ask("GET", f"/request/{bad}", **known)[0] == 200, "control"
        edited(ws, bad, "")
        status, _, page = served.ask("GET", f"/request/{bad}", **known)
        assert (status, b"TG-HND-008" in page) == (500, True), page
        inbox = served.ask("GET", "/inbox", **known)[2].decode()
        assert all(one in inbox for one in (bad, good, "TG-HND-008"))
        assert served.approve(known, good)[0] == 303
        assert served.wait_for("ran")["request"] == good
        told = served.wait_for("meddled")
        assert (told["request"], told["code"]) == (bad, "TG-HND-008")
        assert sum(one["event"] == "meddled" for one in served.events) == 1, "once"


def test_a_policy_is_in_force_and_it_is_named(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (bad,) = held(cli, fresh())
    with opened(cli) as ws:
        edited(ws, bad, "")
    edit(cli, "wall_ms: 30s", "wall_ms: 29s")
    done = cli("policy", "apply", "--yes", "--json", code=TAMPERED)
    assert done.json["generation"] == 2, "control: it was applied"
    assert (f"{bad}.md" in done.err, "[TG-HND-008]" in done.err) == (True, True)
    assert cli("policy", "apply", "--yes").out.startswith("no difference\n")
