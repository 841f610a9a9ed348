"""`threegate review` as a human uses it: the real command, on a real terminal, with a real key."""

import signal
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.cli import PYTHON, Cli, made
from tests.support.samples import box, digest, fetch_request, tool_request
from tests.support.sshlab import lock
from tests.support.terminal import Terminal
from tests.support.workspaces import key_file
from threegate.artifacts import registry
from threegate.audit.entry import time_of
from threegate.host.settings import unix_now

CODE = "rows = [1.1, 1.2, 1.3]\n" + "".join(f"x{n} = {n}\n" for n in range(60)) + "len(rows)\n"
PURPOSES = ("The mean of three", "Mischief of some kind", "Sorting of a list")


def asked(cli: Cli, purpose: str, code: str = CODE, **changes: Any) -> str:
    """Store a request that waits now; return its id."""
    made_now = {"created": time_of(unix_now()), "nonce": digest(purpose)[:32]}
    texts = {"purpose": box(purpose), "code": box(code), "code_sha256": digest(code)}
    request = tool_request(**{**made_now, **texts, "inputs": (), "profile": "pure", **changes})
    data = registry.emit(request)
    cli("admit", "-", stdin=data)
    return registry.id_of(request)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def three(cli: Cli) -> list[str]:
    return [asked(cli, purpose) for purpose in PURPOSES]


def review(cli: Cli, *argv: str, columns: int = 80, rows: int = 24, **env: str) -> Terminal:
    settings = cli.env(**{"TERM": "xterm-256color", **env})
    return Terminal([*PYTHON, "review", *argv], settings, cli.base, columns=columns, rows=rows)


def state_of(cli: Cli, request_id: str) -> str:
    found: str = cli("review", "show", "--json", request_id).json["state"]
    return found


def read_to_the_end(terminal: Terminal) -> None:
    terminal.type(" " * 40)
    terminal.until("all seen")


def test_list_show_approve_deny_next(cli: Cli, three: list[str]) -> None:
    first, second, third = three
    with review(cli) as terminal:
        shown = terminal.until("requests waiting for review: 3", *PURPOSES)
        assert shown.index(PURPOSES[0]) < shown.index(PURPOSES[2]), "oldest first"
        terminal.type("\r")
        terminal.until(first[:15], "1 of 3", "purpose", PURPOSES[0])
        terminal.type("a")
        terminal.until("not on screen yet")
        read_to_the_end(terminal)
        terminal.type("a")
        shown = terminal.until("y sign", first, "uses      1", "lifetime  1 h")
        terminal.type("\x1b[C\x1b[B\x1b[D")  # two uses, and a shorter time
        terminal.until("uses      2", "lifetime  15 min")
        terminal.type("y")
        terminal.until(f"approved {first[:15]} until", "2 uses", second[:15], "1 of 2")
        terminal.type("d" + "more than was asked for")
        terminal.until("more than was asked for_")
        terminal.type("\r")
        terminal.until(f"denied {second[:15]}", third[:15], "1 of 1")
        terminal.type("s")
        terminal.until("every request was skipped")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.mode() == terminal.mode_before
    assert terminal.glass.foreign == []
    assert [state_of(cli, one) for one in three] == ["approved", "denied", "held"]
    denial = cli("review", "show", "--json", second).json["denial"]
    assert denial["reason"] == "more than was asked for"
    approval = cli("review", "show", "--json", first).json["approvals"][0]
    assert approval["max_uses"] == 2
    assert cli("audit", "verify", "--json").json["ok"]


def test_the_whole_sheet_can_be_read_at_forty_columns(cli: Cli) -> None:
    code = "x = 1\n" + "y = '" + "abc" * 200 + "THE END'\n"
    request_id = asked(cli, "Narrow", code)
    with review(cli, columns=40) as terminal:
        terminal.until("requests waiting for review: 1", request_id[:8], "held", "Narrow")
        terminal.type("\r")
        found, last = "", ""
        while "all seen" not in (shown := terminal.until(request_id[:15], without=last)):
            found += "".join(line.partition(": ")[2] for line in shown.split("\n"))
            last = shown.split("\n")[-2]
            terminal.type(" ")
        assert "THE END" in found
        for words in ("limits", "inputs", "external functions", "rule of two"):
            terminal.type("g/" + words + "\r")
            terminal.until(words)
        terminal.type("a")
        terminal.until("y sign", "uses      1")
        terminal.type("\x1b")
        terminal.until("not approved")
        terminal.type("q")
        assert terminal.end() == 0
    assert state_of(cli, request_id) == "held"


def test_the_bytes_view_shows_the_canonical_bytes(cli: Cli) -> None:
    request_id = asked(cli, "caf\u00e9 \\ tab")
    with review(cli) as terminal:
        terminal.until("requests waiting")
        terminal.type("o")
        terminal.until("its bytes", '    2 | format: "tr/1"')
        terminal.type("G")
        terminal.until("len(rows)")
        terminal.type("\x1b[H")
        terminal.until("1 | ---")
        terminal.type("q")
        terminal.until("requests waiting")
        terminal.type("q")
        assert terminal.end() == 0
    assert state_of(cli, request_id) == "held"


def test_a_fetch_request_is_shown_and_denied_here_too(cli: Cli) -> None:
    request = fetch_request(created=time_of(unix_now()), purpose=box("Look it up"))
    cli("admit", "-", stdin=registry.emit(request))
    with review(cli) as terminal:
        terminal.until("requests waiting for review: 1", "Look it up")
        terminal.type("\r")
        terminal.until("would ask for 1 reference", "doi:10.5555/12345678")
        terminal.type("d" + "not now\r")
        terminal.until("denied fr-", "nothing waits")
        terminal.type("q")
        assert terminal.end() == 0
    assert state_of(cli, registry.id_of(request)) == "denied"


# -- signing -------------------------------------------------------------------------------


def to_the_question(terminal: Terminal) -> None:
    terminal.until("requests waiting")
    terminal.type("\r")
    read_to_the_end(terminal)
    terminal.type("a")
    terminal.until("y sign")


@pytest.fixture
def locked(cli: Cli) -> Cli:
    """Return a user whose key has a passphrase."""
    lock(cli.base / "keys/operator", "open sesame")
    return cli


def test_a_passphrase_is_asked_for_on_the_plain_terminal(locked: Cli) -> None:
    request_id = asked(locked, "With a passphrase")
    with review(locked) as terminal:
        to_the_question(terminal)
        terminal.type("y")
        terminal.until("Enter passphrase")
        screens = [terminal.glass.alternate]
        terminal.type("open sesame\n")
        terminal.until("approved", "nothing waits")
        screens.append(terminal.glass.alternate)
        assert screens == [False, True]
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.mode() == terminal.mode_before
    assert b"open sesame" not in terminal.sent, "it was not echoed"
    assert state_of(locked, request_id) == "approved"


def test_a_wrong_passphrase_or_ctrl_c_approves_nothing_and_goes_on(locked: Cli) -> None:
    request_id = asked(locked, "With a passphrase")
    with review(locked) as terminal:
        to_the_question(terminal)
        terminal.type("y")
        terminal.until("Enter passphrase")
        terminal.type("wrong\n")
        terminal.until("incorrect passphrase", "TG-KEY-014", request_id[:15])
        terminal.type("a")
        terminal.until("y sign")
        terminal.type("y")
        terminal.until("Enter passphrase")
        terminal.type("\x03")
        terminal.until("signing was interrupted", "a approve")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.mode() == terminal.mode_before
    assert state_of(locked, request_id) == "held"


def test_a_signal_while_a_passphrase_is_asked_for_ends_everything(locked: Cli) -> None:
    request_id = asked(locked, "With a passphrase")
    with review(locked) as terminal:
        to_the_question(terminal)
        terminal.type("y")
        terminal.until("Enter passphrase")
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 143
        assert terminal.mode() == terminal.mode_before, "echo is back, too"
    assert state_of(locked, request_id) == "held"


def test_a_key_that_may_not_sign_here_is_refused_before_it_signs(cli: Cli) -> None:
    request_id = asked(cli, "Somebody else's key")
    with review(cli, "--key", str(key_file(cli.base, "stranger"))) as terminal:
        to_the_question(terminal)
        terminal.type("y")
        terminal.until("not in allowed_signers", "TG-KEY-003")
        terminal.type("q")
        assert terminal.end() == 0
    assert state_of(cli, request_id) == "held"


# claim TG-C-110
def test_keys_typed_while_signing_decide_nothing_about_the_next_request(
    cli: Cli, three: list[str]
) -> None:
    first, second, _ = three
    with review(cli) as terminal:
        to_the_question(terminal)
        terminal.type("y" + "dtoo early\rq")
        terminal.until(f"approved {first[:15]} until", second[:15], "1 of 2")
        terminal.type("d")
        terminal.until("_")
        terminal.type("in time\r")
        terminal.until(f"denied {second[:15]}")
        terminal.type("q")
        assert terminal.end() == 0
    assert [state_of(cli, one) for one in three] == ["approved", "denied", "held"]
    assert cli("review", "show", "--json", second).json["denial"]["reason"] == "in time"


# -- what others do meanwhile ----------------------------------------------------------------


def test_a_request_decided_by_another_process_is_noticed(cli: Cli, three: list[str]) -> None:
    first, second, _ = three
    with review(cli) as terminal:
        terminal.until("requests waiting for review: 3")
        terminal.type("\r")
        terminal.until(first[:15], "1 of 3")
        cli("review", "deny", first, "--reason", "no")
        terminal.until(
            f"{first[:15]} was decided elsewhere: it is denied now",
            "requests waiting for review: 2",
        )
        terminal.type("\r")
        terminal.until(second[:15])
        read_to_the_end(terminal)
        terminal.type("a")
        terminal.until("y sign")
        cli("review", "approve", "--yes", second)
        terminal.until(f"{second[:15]} was decided elsewhere: it is approved now")
        terminal.type("y")
        asked(cli, "A new one")
        terminal.until("1 more waiting", "A new one")
        terminal.type("q")
        assert terminal.end() == 0
    assert [state_of(cli, one) for one in three] == ["denied", "approved", "held"]
    approvals = cli("review", "show", "--json", second).json["approvals"]
    assert len(approvals) == 1, "the y was not for anything"


def test_a_policy_changed_by_another_process_is_judged_by(cli: Cli) -> None:
    request_id = asked(cli, "Under new rules")
    rules = cli.workspace
    assert rules is not None
    path = rules / "policy/handoff.policy.md"
    with review(cli) as terminal:
        to_the_question(terminal)
        text = path.read_text()
        assert "max_uses: 100" in text, "control"
        path.write_text(text.replace("max_uses: 100", "max_uses: 3"))
        cli("policy", "apply", "--yes")
        terminal.until("changed: look at it again")
        read_to_the_end(terminal)
        terminal.type("a")
        terminal.until("y sign", "at most 3")
        terminal.type("y")
        # The plain terminal says "approved", too; keys typed there are dropped.
        terminal.until(f"approved {request_id[:15]}", "nothing waits")
        terminal.type("q")
        assert terminal.end() == 0
    assert state_of(cli, request_id) == "approved"


# -- the way in and out -------------------------------------------------------------------------


def test_ctrl_c_says_so_and_gives_the_terminal_back(cli: Cli, three: list[str]) -> None:
    with review(cli) as terminal:
        terminal.until("requests waiting for review: 3")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert terminal.mode() == terminal.mode_before
        assert not terminal.glass.alternate
    assert [state_of(cli, one) for one in three] == ["held"] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(cli: Cli, number: int) -> None:
    with review(cli) as terminal:
        terminal.until("nothing waits")
        terminal.signal(number)
        assert terminal.end() == 128 + number
        assert terminal.mode() == terminal.mode_before
        assert not terminal.glass.alternate


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again(cli: Cli) -> None:
    asked(cli, "Later")
    env = cli.env(TERM="xterm", PS1="prompt> ")
    shell = [which("bash") or "", "--norc", "--noprofile", "-i"]
    with Terminal(shell, env, cli.base, columns=80, rows=24) as terminal:
        terminal.until("prompt>")
        terminal.type(f"{' '.join(PYTHON)} review\n")
        terminal.until("requests waiting for review: 1")
        terminal.type("\x1a")
        terminal.until("Stopped", "prompt>")
        screens = [terminal.glass.alternate]
        terminal.type("fg\n")
        terminal.until("requests waiting for review: 1", "Later")
        screens.append(terminal.glass.alternate)
        terminal.type("q")
        terminal.until("prompt>")
        terminal.type("exit\n")
        assert terminal.end() == 0
    assert screens == [False, True]


def test_without_a_terminal_it_names_the_commands_for_scripts(cli: Cli, three: list[str]) -> None:
    done = cli("review", code=75)
    assert done.raw_out == b""
    error, hint = done.err.splitlines()
    assert error == "threegate: error: the interactive review needs a terminal [TG-ASK-001]"
    for word in ("list", "show", "approve", "deny"):
        assert f"`threegate review {word}" in hint
    assert cli("review", "list", "--json").json["total"] == len(three), "control: they work"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_show_it_is_told_so(cli: Cli, term: str) -> None:
    with review(cli, TERM=term) as terminal:
        assert terminal.end() == 75
        assert terminal.mode() == terminal.mode_before
    assert b"\x1b" not in terminal.sent
    assert b"this terminal cannot show the interactive review [TG-ASK-001]" in terminal.sent


@pytest.mark.parametrize("setting", ["", "1"])
def test_no_color(cli: Cli, setting: str) -> None:
    asked(cli, "Colours")
    with review(cli, NO_COLOR=setting) as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        read_to_the_end(terminal)
        terminal.type("q")
        assert terminal.end() == 0
    coloured = {"35", "36"} & terminal.glass.looks  # keywords and numbers
    assert bool(coloured) == (setting == "")
    assert terminal.glass.looks <= {"0", "1", "7"} or setting == ""
