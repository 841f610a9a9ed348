"""What the console tells: the same as the commands, to every page, and not without end."""

import os
import re
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.test_console_service import heard, listened
from tests.support.browser import Tab, chrome
from tests.support.cli import Cli, made
from tests.support.console import Console, console, fresh, held, opened
from tests.support.holdings import paper, put_results, shelf
from tests.support.policies import GATES
from tests.support.workspaces import make_workspace, settings_for

_CHECK = re.compile(r'<tr><th scope="row">([^<]+)</th><td><span class="chip [^"]*">([^<]+)</span>')


def posted(served: Console, known: dict[str, str], path: str, **fields: str) -> tuple[int, str]:
    """Post a form with the token of its page; status and page."""
    page = served.ask("GET", "/doctor", **known)[2].decode()
    (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
    sent = {**known, "Origin": served.base}
    status, _, body = served.ask("POST", path, urlencode({"csrf": csrf, **fields}), **sent)
    return status, body.decode()


def test_the_doctor_of_the_console_says_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes wider than the signed ones: gates would start, and none may."""
    older = {**GATES, "core": {**GATES["core"], "memory_bytes": GATES["core"]["memory_bytes"] // 2}}
    monkeypatch.setattr("threegate.host.workspace.setup.program_gates", lambda: older)
    make_workspace(tmp_path).close()
    home = {"XDG_CONFIG_HOME": str(settings_for(tmp_path).config_home)}
    cli = Cli(tmp_path, tmp_path / "ws", home)
    command = cli("doctor", "--json", code=69).json
    assert command["mode"] == "refuse"
    with console(cli, "--no-run") as served:
        status, page = posted(served, served.login(), "/doctor")
    assert (status, "<h2>mode refuse</h2>" in page) == (200, True)
    checks = [(one["name"], one["state"]) for one in command["checks"]]
    assert ("sandboxes as signed", "missing") in checks, "control: that is the reason"
    assert _CHECK.findall(page) == checks
    assert "Your key: none is known here" in page
    assert command["key"] is None


def says(tab: Tab, words: str) -> None:
    """Wait until a page says that something is new, and what."""
    tab.wait(
        "!document.getElementById('live').hidden &&"
        f"document.getElementById('live-words').innerText === '{words}'"
    )


def test_policy_audit_and_doctor_are_told_what_others_do(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run") as served, chrome() as browser:
        browser.tab().open(served.link)
        tabs = [
            browser.tab().open(served.base + path)
            for path in ("/policy", "/audit", "/doctor", "/fetch")
        ]
        held(cli, fresh())
        for tab in tabs[:3]:
            says(tab, "Something changed.")
        assert tabs[3].js("document.getElementById('live').hidden"), "control: no page of facts"


def test_a_page_of_a_console_that_ended_says_that_no_news_come(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with chrome() as browser:
        with console(cli, "--no-run", end=-signal.SIGKILL) as served:
            held(cli, *shelf())
            port = str(served.port)
            inbox = browser.tab().open(served.link)
            asking = browser.tab().open(f"{served.base}/ask")
            asking.js("document.getElementById('question').value = 'How tough is ice?'")
            asking.click("[name=extractive]")
            with opened(cli) as ws, ws.store.locked():  # so that it is not answered
                asking.acts(lambda: asking.click("main button[type=submit]"))
                assert "being answered" in asking.text()
                served.process.kill()
                served.process.wait(60)
        assert "No news" not in inbox.text(), "control: it tries again by itself"
        with console(cli, "--no-run", "--port", port) as served:
            says(inbox, "No news any more.")
            says(asking, "No news any more.")
            inbox.acts(lambda: inbox.press("r"))
            assert "Not logged in" in inbox.text()
            again = browser.tab().open(served.link)
            held(cli, fresh())
            says(again, "Something changed.")  # control: who is let in again hears again


def test_a_console_ends_at_once_while_pages_listen(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run") as served, listened(served, served.login()) as stream:
        heard(stream, "retry:")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(15) == 0, "nobody waits for another request of that page"
        assert heard(stream, "0\r\n\r\n"), "its stream came to an end"


def refusals(served: Console, kind: str) -> int:
    return len([one for one in served.events if one["event"] == kind])


def counted(served: Console, code: str) -> int:
    text = served.ask("GET", "/metrics")[2].decode()
    found = re.findall(rf'threegate_refused_total{{code="{code}"}} (\d+)', text)
    return int(found[0]) if found else 0


_MANY = """
import os, socket, sys
os.setuid(65534)
for _ in range(int(sys.argv[2])):
    with socket.socket() as found:
        found.connect(("127.0.0.1", int(sys.argv[1])))
"""


# claim TG-C-290
def test_whoever_is_refused_fills_no_journal_and_pushes_no_news_out(tmp_path: Path) -> None:
    assert os.getuid() == 0, "needs root, to be somebody else"
    cli, times = made(tmp_path), 300
    with console(cli, "--no-run") as served:
        known = served.login()
        with listened(served, known) as stream:
            heard(stream, "retry:")
            held(cli, fresh())
            last = heard(stream, "event: changed").partition("id: ")[2].partition("\n")[0]
        began = time.monotonic()
        before = len(served.events)
        connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
        for _ in range(times):
            connection.request("GET", "/flood", headers={"Host": "rebound.test"})
            answer = connection.getresponse()
            assert (answer.status, b"TG-CON-001" in answer.read()) == (421, True)
        connection.close()
        argv = [sys.executable, "-c", _MANY, str(served.port), str(times)]
        subprocess.run(argv, check=True)
        while counted(served, "TG-CON-005") < times:
            assert time.monotonic() < began + 60
        assert counted(served, "TG-CON-001") == times, "each of them is counted"
        served.wait_for("refused", 32)
        served.wait_for("turned-away", 32)
        most = 32 + (time.monotonic() - began) / 2
        assert refusals(served, "refused") <= most, "and some are told"
        assert refusals(served, "turned-away") <= most
        lines = [one for one in served.events if one.get("path") == "/flood"]
        assert 32 <= len(lines) <= most
        assert len(served.events) - before < times
        held(cli, fresh("x = 8\nx\n"))
        with listened(served, known, last) as stream:
            assert "event: missed" not in heard(stream, "event: changed"), "no news were lost"
        answered = [one for one in served.events if one.get("status") == 200]
        assert len(answered) > 2, "control: what is answered is told each time"


def test_a_quote_is_marked_in_the_text_it_is_of(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (packet,) = held(cli, paper(1, "Ice floats. Really.", "Ice floats."))
    with opened(cli) as ws:
        (result,) = put_results(ws, ["Ice floats."])  # behind a value
    with console(cli, "--no-run") as served:
        known = served.login()

        def marked(artifact: str, place: str) -> tuple[list[str], bool]:
            """Return under which headings a quote is marked, and whether the page says so."""
            page = served.ask("GET", f"/artifact/{artifact}?{place}", **known)[2].decode()
            parts = re.findall(r"<h2>([^<]+)</h2>(.*?)</section>", page, re.DOTALL)
            found = [heading for heading, text in parts if 'id="quote"' in text]
            assert len({heading for heading, _ in parts}) == len(parts), "each stands there once"
            assert ("no such place" in page) == (not found)
            return found, "marked below" in page

        assert marked(packet, "text=1&offset=0&length=11") == (["Excerpts 1"], True)
        assert marked(packet, "text=2&offset=0&length=11") == (["Excerpts 2"], True)
        assert marked(result, "text=2&offset=4&length=6") == (["Stdout"], True)
        for nowhere in ((3, 0, 3), (2, 5, 40), (0, 0, 1), (2, 2, 0)):
            place = "text={}&offset={}&length={}".format(*nowhere)
            assert marked(packet, place) == ([], False), place


def test_what_failed_leads_back_and_says_whether_anything_is_there(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (request_id,) = held(cli, fresh())
    with console(cli, "--no-run") as served:
        known, path = served.login(), f"/request/{request_id}"
        back = f'href="{path}">Look at it again'
        status, page = posted(served, known, f"{path}/approve", view="x", shown="x")
        assert (status, "TG-CON-009" in page, back in page) == (409, True, True)
        status, page = posted(served, known, f"{path}/deny", reason="")
        assert (status, "TG-USE-001" in page, back in page) == (422, True, True)
        assert "64KiB at most" in served.ask("GET", "/fetch", **known)[2].decode()
        status, page = served.approve(known, request_id, uses="many")
        assert (status, back in page) == (422, True)
        status, _, body = served.ask("GET", f"/request/tr-{'0' * 64}", **known)
        assert (status, b"TG-USE-001" in body, b"Look at it again" in body) == (404, True, False)
