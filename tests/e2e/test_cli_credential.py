"""Keys for hosts by the real command: typed unseen, kept for the user alone, never shown."""

from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, made
from tests.support.terminal import Terminal
from tests.support.workspaces import files_below

HOST = "api.openalex.org"
CANARY = "canary-93b1e0d7c2"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def stored(cli: Cli) -> Path:
    return cli.base / ".config/threegate/credentials" / HOST


# claim TG-C-131
def test_a_key_is_kept_listed_and_removed_without_being_shown(cli: Cli) -> None:
    told = cli("credential", "set", HOST, stdin=CANARY.encode() + b"\n")
    assert told.out == f"kept the key for {HOST}, which goes into query:api_key\n"
    assert stored(cli).read_text() == CANARY, "control: it was read and kept"
    listed = cli("credential", "list")
    assert ["query:api_key", "new", "set", HOST] in [
        line.split() for line in listed.out.splitlines()
    ]
    assert "not set" in listed.out
    found = {item["host"]: item for item in cli("credential", "list", "--json").json["credentials"]}
    assert found[HOST]["problem"] is None
    assert found[HOST]["stored"].endswith("Z")
    removed = cli("credential", "remove", HOST)
    assert not stored(cli).exists()
    shown = b"".join(done.raw_out + done.raw_err for done in (told, listed, removed))
    assert CANARY.encode() not in shown
    for data in files_below(cli.base / "ws").values():
        assert CANARY.encode() not in data


# claim TG-C-131
def test_a_key_that_is_typed_is_not_shown(cli: Cli) -> None:
    argv = [*PYTHON, "credential", "set", HOST]
    with Terminal(argv, cli.env(TERM="xterm"), cli.base, columns=100, rows=24) as terminal:
        terminal.until("type the key")
        terminal.type(f"{CANARY}\n")
        terminal.until("kept the key")
        assert terminal.end() == 0
        assert terminal.mode() == terminal.mode_before, "the terminal shows again what is typed"
    assert stored(cli).read_text() == CANARY, "control: it was typed and kept"
    assert CANARY.encode() not in terminal.sent


def test_an_interrupted_question_leaves_the_terminal_as_it_was(cli: Cli) -> None:
    argv = [*PYTHON, "credential", "set", HOST]
    with Terminal(argv, cli.env(TERM="xterm"), cli.base, columns=100, rows=24) as terminal:
        terminal.until("type the key")
        terminal.type(b"\x03")
        assert terminal.end() == 130
        assert terminal.mode() == terminal.mode_before
    assert not stored(cli).exists()


@pytest.mark.parametrize(
    ("argv", "stdin", "code", "named"),
    [
        (("set", "api.crossref.org"), b"x", 77, "TG-CRD-002"),
        (("set", "../x"), b"x", 2, "TG-CRD-001"),
        (("set", HOST), b"two\nlines\n", 2, "TG-CRD-003"),
        (("set", HOST), b"", 2, "TG-CRD-003"),
        (("set", HOST, "value"), b"", 2, "TG-USE-001"),
        (("remove", HOST), b"", 2, "TG-CRD-004"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    cli: Cli, argv: tuple[str, ...], stdin: bytes, code: int, named: str
) -> None:
    done = cli("credential", *argv, stdin=stdin, code=code)
    assert done.out == ""
    assert f"[{named}]" in done.err
    assert "Traceback" not in done.err
    assert not stored(cli).parent.exists()


def test_a_key_others_could_read_is_listed_as_unused(cli: Cli) -> None:
    cli("credential", "set", HOST, stdin=CANARY.encode())
    stored(cli).chmod(0o644)
    listed = cli("credential", "list")
    assert "can be read by others, so it is not used" in listed.out
    assert CANARY not in listed.out
