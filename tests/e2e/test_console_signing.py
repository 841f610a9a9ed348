"""Whose key signs in the console: a passphrase on its terminal, an agent, and what is accepted."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.browser import Chrome, Tab, chrome
from tests.support.cli import PYTHON, Cli, made
from tests.support.console import (
    Scene,
    console,
    form_of,
    fresh,
    held,
    is_disabled,
    now,
    post,
    read_all,
    state,
)
from tests.support.requests import drafted
from tests.support.samples import box, fetch_request
from tests.support.sshlab import lock, running_agent
from tests.support.terminal import Glass, Terminal
from tests.support.workspaces import key_file

SECRET = "open sesame"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chrome() as found:
        yield found


@pytest.fixture(autouse=True)
def _tabs(browser: Chrome) -> Iterator[None]:
    yield
    browser.close_tabs()


# A tab that is on its way answers no questions; what its page says then is kept for another.
_KEEP = (
    "new MutationObserver(() => localStorage.setItem('said', "
    "document.getElementById('seen').innerText))"
    ".observe(document.getElementById('seen'), {childList: true})"
)


def say_yes(tab: Tab) -> None:
    """Click, without waiting for what comes of it."""
    read_all(tab)
    tab.js(_KEEP)
    tab.js("window.__before = true")
    tab.click("#approve-button")


# claim TG-C-278
def test_a_passphrase_is_asked_for_where_the_console_runs(tmp_path: Path, browser: Chrome) -> None:
    cli = made(tmp_path)
    lock(key_file(tmp_path), SECRET)
    (request_id,) = held(cli, fresh())
    argv = [*PYTHON, "serve", "--port", "0", "--no-run"]
    with Terminal(argv, cli.env(TERM="xterm"), cli.base, columns=200, rows=24) as terminal:
        said = terminal.until("open this link in your browser; it works once: http://")
        (link,) = re.findall(r"http://127\.0\.0\.1:[0-9]+/login/\S+", said)
        tab = browser.tab().open(link)
        terminal.until("threegate: a browser was let in")
        page = link.partition("/login/")[0] + f"/request/{request_id}"
        say_yes(tab.open(page))
        terminal.until("Enter passphrase")
        other = browser.tab().open(link.partition("/login/")[0] + "/inbox")
        assert request_id[:15] in other.text(), "meanwhile other pages are shown"
        assert "waiting for your key" in str(other.js("localStorage.getItem('said')"))
        terminal.type("wrong\n")
        tab.loaded()
        assert "incorrect passphrase" in tab.text()
        assert "TG-KEY-014" in tab.text()
        assert state(cli, request_id) == "held"

        terminal.glass = Glass(200, 24)  # what it asked before is not there any more
        tab.call("Page.bringToFront")
        say_yes(tab.open(page))
        terminal.until("Enter passphrase")
        terminal.type(f"{SECRET}\n")
        tab.loaded()
        assert "approved " in tab.text(), tab.text()
        assert state(cli, request_id) == "approved", "control: the right one signs"
        terminal.until(f"threegate: approved {request_id}")
        assert SECRET not in tab.html()
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 0
        assert terminal.mode() == terminal.mode_before
    assert SECRET.encode() not in terminal.sent, "it was not echoed"


# claim TG-C-278
def test_an_agent_signs_and_none_is_a_refusal(tmp_path: Path) -> None:
    cli = made(tmp_path)
    first, second = held(cli, fresh(), fresh("x = 2\nx\n"))
    with running_agent(tmp_path) as socket:
        cli.environment["SSH_AUTH_SOCK"] = str(socket)
        add = ["ssh-add", "-q", str(key_file(tmp_path))]
        subprocess.run(add, env={**os.environ, **cli.environment}, check=True, capture_output=True)
        key_file(tmp_path).unlink()
        with console(cli, "--no-run", "--key", "agent") as served:
            known = served.login()
            assert served.approve(known, first)[0] == 303
            subprocess.run(
                ["ssh-add", "-q", "-D"],
                env={**os.environ, **cli.environment},
                check=True,
                capture_output=True,
            )
            status, words = served.approve(known, second)
    assert (status != 303, "no ed25519 key in an SSH agent" in words) == (True, True), words
    assert [state(cli, first), state(cli, second)] == ["approved", "held"]


def allow_joined(cli: Cli) -> None:
    """Sign a policy under which the operator may accept all three at once."""
    assert cli.workspace is not None
    page = cli.workspace / "policy" / "tool-exec.policy.md"
    text = page.read_text("utf-8")
    assert text.count("rule_of_two: refuse") == 1
    page.write_text(text.replace("rule_of_two: refuse", "rule_of_two: allow-if-approved"), "utf-8")
    cli("policy", "apply", "--yes")


# claim TG-C-103
def test_a_joined_rule_of_two_is_accepted_by_name_in_the_browser(
    tmp_path: Path, browser: Chrome
) -> None:
    cli = made(tmp_path)
    request = drafted(fetch_request(created=now(), references=(box("doi:10.5555/1"),)))
    (request_id,) = held(cli, replace(request, confidentiality="confidential"))
    with console(cli, "--no-run") as served:
        scene = Scene(cli, served, browser)
        tab = browser.tab().open(served.link)
        assert "3 of 3" in tab.text()
        tab.open(f"{served.base}/request/{request_id}")
        assert "Cannot be approved" in tab.text()
        assert "TG-APR-009" in tab.text()
        assert tab.js("document.getElementById('approve')") is None, "policy allows nobody to"
        allow_joined(cli)

        tab.open(f"{served.base}/request/{request_id}")
        read_all(tab)
        tab.js("document.getElementById('typed').value = ''")  # an `a` may have got there
        tab.click("#typed")
        tab.type(request_id.partition("-")[2][:8])
        tab.wait("!document.getElementById('approve-button').disabled")
        fields, before = form_of(tab), scene.approvals()
        assert "rule_of_two" not in fields, "the box is not ticked for anybody"
        tab.click("#approve-button")
        valid = "document.getElementById('approve').checkValidity()"
        assert tab.js(valid) is False, "the browser sends no form without it"
        status, words = post(tab, f"/request/{request_id}/approve", fields)
        assert (status, "TG-APR-009" in words) == (409, True), "and the console takes none"
        assert (scene.approvals(), state(cli, request_id)) == (before, "draft")

        tab.open(f"{served.base}/request/{request_id}")
        read_all(tab)
        tab.js("document.getElementById('typed').value = ''")
        tab.click("#typed")
        tab.type(request_id.partition("-")[2][:8])
        tab.click("[name=rule_of_two]")
        tab.wait("!document.getElementById('approve-button').disabled")
        assert not is_disabled(tab)
        tab.acts(lambda: tab.click("#approve-button"))
        assert "approved " in tab.text(), tab.text()
    (given,) = scene.approvals() - before
    text = (scene.root / "handoff" / "approvals" / given).read_text("utf-8")
    assert "rule_of_two: accepted" in text.replace('"', "")
    assert "together, accepted" in text
