"""Commands that ask before they act: a terminal, `--yes`, or nothing happens."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Cli, made
from tests.support.requests import program
from tests.support.samples import packet
from tests.support.workspaces import files_below, key_file, key_of
from threegate.artifacts import registry

Argv = tuple[str, ...]


def state(cli: Cli) -> dict[str, bytes]:
    """Return what an act would change: artifacts, policies and the log."""
    assert cli.workspace is not None
    kept = ("handoff/", "bundles/", "audit/", "policy/")
    return {k: v for k, v in files_below(cli.workspace).items() if k.startswith(kept)}


def admitted(cli: Cli) -> str:
    data = registry.emit(packet())
    cli("admit", "-", stdin=data)
    return registry.id_of(packet())


def requested(cli: Cli) -> str:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    request = program(created=created, nonce=secrets.token_hex(16), functions=())
    cli("admit", "-", stdin=registry.emit(request))
    return registry.id_of(request)


def withdraw(cli: Cli) -> Argv:
    return ("withdraw", admitted(cli), "--reason", "retracted")


def forget(cli: Cli) -> Argv:
    return ("forget", admitted(cli), "--reason", "personal data")


def key_add(cli: Cli) -> Argv:
    public = key_file(cli.base, "ada").with_suffix(".pub")
    return ("key", "add", str(public), "--name", "ada")


def key_revoke(cli: Cli) -> Argv:
    cli(*key_add(cli), "--yes")
    return ("key", "revoke", key_of("ada").fingerprint)


def key_rotate(cli: Cli) -> Argv:
    return ("key", "rotate", "--new", str(key_file(cli.base, "next")))


def policy_apply(cli: Cli) -> Argv:
    assert cli.workspace is not None
    path = cli.workspace / "policy/handoff.policy.md"
    path.write_text(path.read_text("utf-8").replace("7d", "6d", 1), "utf-8")
    return ("policy", "apply")


def review_approve(cli: Cli) -> Argv:
    return ("review", "approve", requested(cli))


ASKING = (withdraw, forget, key_add, key_revoke, key_rotate, policy_apply, review_approve)


@pytest.mark.parametrize("command", ASKING, ids=lambda one: one.__name__)
# claim TG-C-470
def test_what_asks_does_nothing_without_a_yes(
    tmp_path: Path, command: Callable[[Cli], Argv]
) -> None:
    cli = made(tmp_path)
    argv = command(cli)
    before = state(cli)
    done = cli(*argv, stdin=b"y\n", code=75)  # a pipe that says yes is no terminal
    assert "this needs the operator's yes [TG-ASK-001]" in done.err
    assert "add --yes" in done.err
    assert state(cli) == before
    screen = cli.in_terminal(*argv, typed=b"n\n", code=77)
    assert b"the operator said no [TG-ASK-002]" in screen
    assert state(cli) == before
    cli(*argv, "--yes")
    assert state(cli) != before, "control: with --yes it acts"


def test_withdraw_lists_what_goes_to_quarantine_before_it_asks(tmp_path: Path) -> None:
    cli = made(tmp_path)
    source = admitted(cli)
    done = cli("withdraw", source, "--reason", "retracted", code=75)
    headline = "On the toughness of ice: a \u201cmeasurement\u201d (Ada Example et al., 2024)"
    assert done.out == f'to quarantine: {source}, BROUGHT: "{headline}"\n'
    screen = cli.in_terminal("withdraw", source, "--reason", "retracted", typed=b"y\n")
    assert b"withdraw 1 artifact, to quarantine? [y/N]" in screen
    assert cli("packet", "list", "--json").json["total"] == 0


def test_forget_names_what_it_removes_by_its_title_before_it_asks(tmp_path: Path) -> None:
    cli = made(tmp_path)
    source = admitted(cli)
    done = cli("forget", source, "--reason", "private", code=75)
    assert done.out.startswith(f'to forget: {source}, BROUGHT: "On the toughness of ice: ')
    screen = cli.in_terminal("forget", source, "--reason", "private", typed=b"n\n", code=77)
    assert f"forget {source[:15]} for good? [y/N]".encode() in screen


def test_revoke_says_whose_key_it_is_and_how_many_open_approvals_end(tmp_path: Path) -> None:
    cli = made(tmp_path)
    cli(*key_add(cli), "--yes")
    first, second = requested(cli), requested(cli)
    cli("review", "approve", first, second, "--yes")
    approved = cli("review", "list", "--state", "approved", "--json").json
    assert approved["total"] == 2, "control"
    key = key_of("ada").fingerprint
    screen = cli.in_terminal("key", "revoke", key, typed=b"y\n")
    asked = f"revoke the key {key} of ada? 2 open approvals will end. [y/N]"
    assert asked.encode() in screen
    assert cli("review", "list", "--state", "approved", "--json").json["total"] == 0
