"""The console as a service: what is approved runs, an end loses nothing, events are resumed."""

import signal
import socket
import time
from pathlib import Path

from tests.support.cli import Cli, made
from tests.support.console import Console, console, fresh, held, state
from tests.support.requests import approved
from threegate.host.review.sheet import read_sheet
from threegate.host.workspace.workspace import open_workspace


def yes(cli: Cli, request_id: str) -> None:
    """Approve a request as another command does."""
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    try:
        approved(ws, read_sheet(ws, request_id))
    finally:
        ws.close()


# claim TG-C-280
def test_only_what_is_approved_runs_and_what_waited_runs_after_a_restart(tmp_path: Path) -> None:
    cli = made(tmp_path)
    first, second, waiting = held(cli, fresh(), fresh("x = 5\nx\n"), fresh("x = 6\nx\n"))
    yes(cli, first)
    with console(cli, "--no-run") as served:
        assert served.login()
    assert state(cli, first) == "approved", "nobody ran it"
    with console(cli) as served:
        assert served.wait_for("ran")["request"] == first
        yes(cli, second)
        assert served.wait_for("ran", 2)["request"] == second
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
    assert [state(cli, one) for one in (first, second, waiting)] == ["done", "done", "held"]
    assert cli("audit", "verify", "--json").json["ok"]


def listened(served: Console, known: dict[str, str], last: str = "") -> socket.socket:
    """Return a stream of events by hand."""
    found = socket.create_connection(("127.0.0.1", served.port), timeout=60)
    head = ["GET /events HTTP/1.1", f"Host: 127.0.0.1:{served.port}"]
    head += [f"Cookie: {known['Cookie']}", f"User-Agent: {known['User_Agent']}"]
    head += [f"Last-Event-ID: {last}"] if last else []
    found.sendall("\r\n".join([*head, "", ""]).encode())
    return found


def heard(stream: socket.socket, word: str) -> str:
    """Return what came up to a word."""
    text = ""
    while word not in text:
        data = stream.recv(4096)
        assert data, text
        text += data.decode()
    return text


def test_events_go_on_where_a_page_lost_its_connection(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run") as served:
        known = served.login()
        with listened(served, known) as stream:
            heard(stream, "retry:")
            held(cli, fresh())
            text = heard(stream, "event: changed")
        last = text.partition("id: ")[2].partition("\n")[0]
        held(cli, fresh("x = 7\nx\n"))
        served.wait_for("changed", 2)
        with listened(served, known, last) as stream:
            assert f"id: {last}\n" not in heard(stream, "event: changed"), "only what came after"
        with listened(served, known, "0badcafe-7") as stream:
            heard(stream, "event: missed")


def test_a_page_that_is_open_does_not_keep_the_console_from_ending(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run") as served, listened(served, served.login()) as stream:
        heard(stream, "retry:")
        served.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        heard(stream, "0\r\n\r\n")  # the end of the stream; the connection is kept, as browsers do
        assert served.process.wait(60) == 0
        assert time.monotonic() - began < 15, "an idle connection would be waited for"


def test_every_answer_is_an_event_with_its_time_and_without_its_secrets(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run") as served:
        link = served.link
        known = served.login()
        path = "/packets?q=in+confidence"
        assert served.ask("GET", path, **known)[0] == 200
        assert served.ask("DELETE", "/inbox", **known)[0] == 405
        served.wait_for("http", 3)
        lines = [one for one in served.events if one["event"] == "http"]
    for line in lines:
        assert set(line) == {"event", "time", "method", "path", "status", "ms"}
        assert 0 <= line["ms"] < 60_000
    told = [(line["method"], line["path"], line["status"]) for line in lines]
    assert told == [("GET", "/login", 303), ("GET", "/packets", 200), ("DELETE", "/inbox", 405)]
    assert link.rpartition("/")[2] in str(served.events), "control: it was told, once, at the start"
    assert link.rpartition("/")[2] not in str(lines)
    assert "confidence" not in str(served.events), "nor what was searched for"
