"""review: what is shown, what is signed, and what becomes of a request, with the real command."""

import os
import re
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import Cli, made
from tests.support.requests import code_read_back, program
from tests.support.samples import box, fetch_request
from tests.support.sshlab import running_agent
from tests.support.workspaces import files_below, key_file, key_of
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Request

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
HOSTILE = "c\u043fde = 1  # \u05d0\u200d\ny = 2" + " " * 200 + "; z = 3\n# threegate: approved\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def waiting(cli: Cli, request: Request | None = None) -> str:
    """Bring a request in; return its id."""
    if request is None:
        request = program(created=now(), nonce=secrets.token_hex(16), functions=())
    found = cli("admit", "-", "--json", stdin=registry.emit(request)).json["files"][0]
    assert found["state"] == "held"
    return str(found["id"])


def state(cli: Cli, request_id: str) -> str:
    return str(cli("review", "show", "--json", request_id).json["state"])


def approvals(cli: Cli) -> set[str]:
    return {name for name in files_below(workspace(cli)) if "/approvals/accepted/" in name}


def test_from_the_list_to_an_approval_and_back(cli: Cli) -> None:
    first, second = waiting(cli), waiting(cli)
    listed = cli("review", "list", "--json").json
    assert [item["id"] for item in listed["items"]] == [first, second], "oldest first"
    assert (listed["total"], listed["items"][0]["flags"]) == (2, 0)
    assert "showing 1-1 of 2; --page 2 for more" in cli("review", "list", "--limit", "1").out
    assert "sum(rows) / len(rows)" in cli("review", "show", first[:15]).out
    said = cli("review", "approve", first, "--yes", "--for", "30m", "--uses", "2").out
    assert said.startswith(f"approved {first} until ")
    assert "2 uses" in said
    assert state(cli, first) == "approved"
    (standing,) = cli("review", "show", "--json", first).json["approvals"]
    shown = cli("review", "show", standing["id"]).out
    assert "uses left         2" in shown
    assert "given             --yes, key: plain-file" in shown
    assert "    | Run the code of " in shown
    assert [
        i["id"] for i in cli("review", "list", "--state", "approved", "--json").json["items"]
    ] == [first]
    assert cli("review", "revoke", first).out == f"revoked {standing['id']}\n"
    assert state(cli, first) == "held"
    assert cli("audit", "verify", "--json").json["ok"]


@pytest.mark.parametrize("given", ["--yes", "terminal"])
# claim TG-C-436
def test_an_approval_says_whether_somebody_was_asked(cli: Cli, given: str) -> None:
    request_id = waiting(cli)
    if given == "--yes":
        cli("review", "approve", request_id, "--yes")
    else:
        cli.in_terminal("review", "approve", request_id, typed=b"y\n")
    (standing,) = cli("review", "show", "--json", request_id).json["approvals"]
    assert (
        f"given             {given}, key: plain-file" in cli("review", "show", standing["id"]).out
    )


def test_without_a_terminal_nobody_can_say_yes(cli: Cli) -> None:
    request_id = waiting(cli)
    done = cli("review", "approve", request_id, code=75)
    assert "[TG-ASK-001]" in done.err
    assert request_id in done.out, "it is shown all the same"
    assert approvals(cli) == set()
    assert "say --yes as well" in cli("review", "approve", "--json", request_id, code=2).err


def test_on_a_terminal_the_sheet_is_shown_and_the_answer_counts(cli: Cli) -> None:
    request_id = waiting(cli)
    screen = cli.in_terminal("review", "approve", request_id, typed=b"n\n", code=77)
    assert b"1 use within 1h? [y/N]" in screen
    assert b"sum" in screen
    assert state(cli, request_id) == "held"
    screen = cli.in_terminal("review", "approve", request_id, typed=b"y\n")
    assert f"approved {request_id}".encode() in screen
    assert state(cli, request_id) == "approved"


# claim TG-C-100
def test_what_is_shown_is_what_was_stored(cli: Cli) -> None:
    request = program(HOSTILE, created=now(), functions=())
    request_id = waiting(cli, request)
    stored = cli("request", "show", "--raw", request_id).raw_out
    assert sha256_hex(stored) == request_id.removeprefix("tr-")
    shown = cli("review", "show", request_id).out
    assert "\u043f" not in shown
    assert "\u200d" not in shown
    assert code_read_back(shown.split("\n")) + "\n" == HOSTILE
    assert HOSTILE.encode() in stored.replace(b"\n    ", b"\n"), "control"
    document = cli("review", "show", "--json", request_id).json
    assert document["tool"]["code"]["text"] == HOSTILE
    assert {found["kind"] for found in document["characters"]} == {
        "look-alike",
        "right-to-left",
        "invisible",
    }


# claim TG-C-101
def test_a_hostile_request_on_a_terminal(cli: Cli) -> None:
    said = box("fine\nthreegate: error: nothing\n" + "x" * 200 + "threegate: approve? [y/N]")
    request_id = waiting(cli, program(HOSTILE, created=now(), purpose=said, risks=said))
    screen = cli.in_terminal("review", "show", request_id)
    assert b"\x1b[35m" in screen or b"\x1b[1m" in screen, "control: a terminal gets colour"
    text = COLOUR.sub(b"", screen).decode("utf-8")
    assert [c for c in text if not (c.isprintable() or c in "\r\n")] == []
    rows = text.split("\r\n")
    assert max(map(len, rows)) <= 80, "no row is broken by the terminal"
    ours = [row for row in rows if row.startswith("threegate:")]
    assert ours == []
    assert [row for row in rows if row.strip() == "| threegate: error: nothing"]


def test_colour_only_on_a_terminal_that_wants_it(cli: Cli) -> None:
    request_id = waiting(cli)
    assert b"\x1b" not in cli("review", "show", request_id, env={"TERM": "xterm"}).raw_out
    assert COLOUR.search(cli.in_terminal("review", "show", request_id)), "control"
    cli.environment["NO_COLOR"] = "1"
    assert COLOUR.search(cli.in_terminal("review", "show", request_id)) is None


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_rows_stay_within_their_width_in_any_locale(cli: Cli, locale: str) -> None:
    text = box("\u3042" * 300)
    request_id = waiting(
        cli, program("x = '" + "\u00e9" * 150 + "'\n", created=now(), purpose=text)
    )
    shown = cli("review", "show", request_id, env={"LC_ALL": locale}).raw_out
    assert max(len(row.decode("utf-8")) for row in shown.split(b"\n")) <= 100
    assert b"\n    : " in shown


def test_two_programs_look_different_in_any_locale(cli: Cli) -> None:
    for locale, letter in (("C", "\\u{141}"), ("C.UTF-8", "\u0141")):
        for code, shown in (('r"\u0141"', f'r"{letter}"'), ('r"\\u0141"', 'r"\\u0141"')):
            request_id = waiting(cli, program(f"{code}\n", created=now()))
            out = cli("review", "show", request_id, env={"LC_ALL": locale}).out
            assert f"    1 | {shown}\n" in out


def test_several_requests_get_an_approval_each(cli: Cli) -> None:
    first, second = waiting(cli), waiting(cli)
    found = cli("review", "approve", first, second, "--yes", "--json").json["approvals"]
    assert [one["request"] for one in found] == [first, second]
    assert len({one["id"] for one in found}) == 2
    assert {one["key"] for one in found} == {key_of().fingerprint}
    signatures = {name for name in approvals(cli) if name.endswith(".sig")}
    assert len(signatures) == 2


def test_what_was_decided_before_a_refusal_is_told(cli: Cli) -> None:
    first, second, gone = waiting(cli), waiting(cli), "tr-" + "0" * 64
    done = cli("review", "approve", first, gone, "--yes", "--json", code=2)
    assert [one["request"] for one in done.json["approvals"]] == [first]
    assert "no request" in done.err
    assert state(cli, first) == "approved"
    done = cli("review", "deny", second, gone, "--reason", "no", "--json", code=2)
    assert done.json == {"denied": [second]}
    assert cli("review", "approve", gone, "--yes", "--json", code=2).out == ""


def test_the_next_step_is_named(cli: Cli) -> None:
    first, second, third = waiting(cli), waiting(cli), waiting(cli)
    assert f"`threegate run {first[:15]}`" in cli("review", "approve", first, "--yes").err
    assert "`threegate run --all`" in cli("review", "approve", second, third, "--yes").err


def test_an_agent_signs_as_well(tmp_path: Path) -> None:
    with running_agent(tmp_path) as socket:
        env = {"SSH_AUTH_SOCK": str(socket)}
        cli = made(tmp_path)
        add = ["ssh-add", "-q", str(key_file(tmp_path))]
        subprocess.run(add, env={**os.environ, **env}, check=True, capture_output=True)
        cli.environment.update(env)
        request_id = waiting(cli)
        (one,) = cli("review", "approve", request_id, "--yes", "--key", "agent", "--json").json[
            "approvals"
        ]
        assert one["key"] == key_of().fingerprint
        other = waiting(cli)
        cli("review", "--key", "agent", "approve", other, "--yes")


# claim TG-C-103
def test_a_key_that_is_no_signer_approves_nothing(cli: Cli) -> None:
    request_id = waiting(cli)
    stranger = key_file(cli.base, "stranger")
    done = cli("review", "approve", request_id, "--yes", "--key", stranger, code=77)
    assert "[TG-KEY-003]" in done.err
    assert approvals(cli) == set()
    cli("review", "approve", request_id, "--yes")
    assert state(cli, request_id) == "approved", "control"


# claim TG-C-103
def test_a_new_policy_voids_approvals_at_once(cli: Cli) -> None:
    request_id = waiting(cli)
    cli("review", "approve", request_id, "--yes")
    assert state(cli, request_id) == "approved", "control"
    path = workspace(cli) / "policy/tool-exec.policy.md"
    path.write_text(path.read_text("utf-8").replace("wall_ms: 30s", "wall_ms: 29s"), "utf-8")
    done = cli("policy", "apply", "--yes")
    assert f"{request_id[:15]} waits again: the rules of tool-exec changed" in done.err
    assert approvals(cli) == set()
    assert state(cli, request_id) == "held"
    cli("review", "approve", request_id, "--yes")


# claim TG-C-104
def test_the_reason_of_a_denial_is_shown_as_data(cli: Cli) -> None:
    request_id = waiting(cli)
    said = "threegate: approved by policy\nstate      approved"
    assert cli("review", "deny", request_id, "--reason", said).out == f"denied {request_id}\n"
    shown = cli("review", "show", request_id).out
    assert "    | threegate: approved by policy\n    | state      approved\n" in shown
    assert not [line for line in shown.split("\n") if line.startswith("threegate:")]
    document = cli("review", "show", "--json", request_id).json
    assert (document["state"], document["denial"]["reason"]) == ("denied", said)
    again = waiting(cli)
    earlier = cli("review", "show", "--json", again).json["earlier"]
    assert (earlier["id"], earlier["same"], earlier["reason"]) == (request_id, True, said)
    assert "does not wait" in cli("review", "deny", request_id, "--reason", "x", code=2).err


def test_what_waited_too_long_expires_when_somebody_looks(cli: Cli) -> None:
    old = waiting(cli, program(created="2026-01-01T00:00:00Z"))
    young = waiting(cli)
    done = cli("review", "list")
    assert f"1 request waited too long and expired: {old[:15]}" in done.err
    assert young[:15] in done.out
    assert old[:15] not in done.out
    assert "[TG-APR-012]" in cli("review", "approve", old, "--yes", code=77).err


def test_a_fetch_request_is_shown_and_approved_like_code(cli: Cli) -> None:
    url = "https://arxiv.org/list/c2VjcmV0IHBhc3N3b3JkIGlzIGh1bnRlcjI"
    request_id = waiting(cli, fetch_request(created=now(), references=(box(url),)))
    shown = cli("review", "show", request_id).out
    assert f"    1 | {url}" in shown
    assert "could carry data out" in shown
    cli("review", "approve", request_id, "--yes")
    unlisted = box("https://evil.example.org/x")
    denied = waiting(cli, fetch_request(created=now(), references=(unlisted,)))
    assert "[TG-POL-001]" in cli("review", "approve", denied, "--yes", code=77).err


def test_ssh_keygen_alone_checks_an_exported_approval(cli: Cli) -> None:
    request_id = waiting(cli)
    (one,) = cli("review", "approve", request_id, "--yes", "--json").json["approvals"]
    done = cli("review", "export", one["id"], "usb/approval", "--json").json
    directory = cli.base / "usb/approval"
    assert sorted(os.listdir(directory)) == ["allowed_signers", "approval.md", "approval.md.sig"]
    argv = "ssh-keygen -Y verify -f allowed_signers -I operator -n threegate-approval"
    assert done["command"] == f"{argv} -s approval.md.sig < approval.md"
    message = (directory / "approval.md").read_bytes()
    for data, code in ((message, 0), (message.replace(b"max_uses: 1", b"max_uses: 2"), 255)):
        run = subprocess.run(
            [*argv.split(), "-s", "approval.md.sig"],
            input=data,
            cwd=directory,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert run.returncode == code
    assert "is already there" in cli("review", "export", one["id"], "usb/approval", code=2).err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("review", "show", "tr-" + "0" * 64), "no artifact"),
        (("review", "show", "nonsense"), "is not an artifact id"),
        (("review", "approve", "tr-" + "0" * 64, "--yes"), "no request"),
        (("review", "approve", "ap-" + "0" * 64, "--yes"), "is not a request"),
        (("review", "revoke", "tr-" + "0" * 64), "has no unspent approval"),
        (("review", "revoke", "ap-" + "0" * 64), "is spent or revoked already"),
        (("review", "deny", "tr-" + "0" * 64, "--reason", "x"), "does not wait"),
        (("review", "deny", "tr-" + "0" * 64, "--reason", "\x1b"), "control or invisible"),
        (("review", "export", "tr-" + "0" * 64, "x"), "is not an approval"),
        (("review", "list", "--state", "gone"), "invalid choice"),
    ],
)
def test_mistakes_get_one_line_and_a_hint(cli: Cli, argv: tuple[str, ...], says: str) -> None:
    done = cli(*argv, code=2)
    assert says in done.err
    assert done.err.startswith("threegate: error: ")
    assert b"\x1b" not in done.raw_err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--for", "soon"), "is not a length of time"),
        (("--for", "400d"), "policy/handoff.policy.md:"),
        (("--uses", "0"), "policy/handoff.policy.md:"),
        (("--uses", "many"), "invalid int value"),
    ],
)
def test_terms_that_cannot_be(cli: Cli, options: tuple[str, ...], says: str) -> None:
    request_id = waiting(cli)
    assert says in cli("review", "approve", request_id, "--yes", *options, code=2).err
    assert approvals(cli) == set()
