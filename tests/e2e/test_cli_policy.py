"""policy: what is in force is what was signed, and widening is said aloud."""

from pathlib import Path

import pytest

from tests.support.cli import Cli, Done, made, write
from tests.support.samples import escalated, fetch_request, tool_request
from tests.support.workspaces import files_below, key_file
from threegate.artifacts import registry
from threegate.artifacts.registry import Artifact

WIDER = ("held_expiry_seconds: 7d", "held_expiry_seconds: 8d")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def edit(cli: Cli, old: str, new: str, name: str = "handoff.policy.md") -> int:
    """Edit a policy file; return the line of the edit."""
    path = workspace(cli) / "policy" / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return text[: text.index(old)].count("\n") + 1


def generation(cli: Cli) -> int:
    found: int = cli("status", "--json").json["policy"]["generation"]
    return found


# claim TG-C-07
def test_an_edit_is_not_in_force_until_it_is_applied(cli: Cli) -> None:
    assert cli("policy", "diff").out == "no difference\n"
    assert cli("status", "--json").json["policy"]["files"] == "as applied"
    edit(cli, *WIDER)
    found = cli("status", "--json").json["policy"]
    assert (found["files"], found["changes"], found["widening"]) == ("edited", 1, 1)
    shown = cli("policy", "diff").out
    assert shown.startswith("! wider ")
    assert shown.endswith("time a request may wait now 8d, before 7d\n")
    (change,) = cli("policy", "diff", "--json").json["changes"]
    assert change["path"] == "handoff/held_expiry_seconds"
    assert (change["effect"], change["old"], change["new"]) == ("widens", 604800, 691200)
    assert "policy/      edited, not in force: 1 rule, 1 wider" in cli("status").out


# claim TG-C-442
def test_enabling_the_heavy_lane_is_one_edit_that_shows_as_wider(cli: Cli) -> None:
    code = workspace(cli).parent / "rows.py"
    code.write_text("print(1)\n", "utf-8")
    words = ("request", "new", "--purpose", "rows", "--code", code, "--backend", "era")
    asked = (
        *words,
        "--why",
        "files",
        "--output",
        "rows.json=256MiB",
        "--limit",
        "disk_bytes=256MiB",
    )
    assert "lane era is not enabled" in cli(*asked, code=77).err, "control: it is off as shipped"
    edit(cli, "  era:\n    enabled: no", "  era:\n    enabled: yes", "tool-exec.policy.md")
    (change,) = cli("policy", "diff", "--json").json["changes"]
    assert (change["path"], change["effect"]) == ("tool-exec/lanes/era/enabled", "widens")
    assert "lane era is not enabled" in cli(*asked, code=77).err, "control: an edit is not in force"
    cli("policy", "apply", "--yes")
    assert cli(*asked).out.startswith("held tr-")


def test_a_limit_that_is_refused_is_named_in_the_units_of_the_file(cli: Cli) -> None:
    code = workspace(cli).parent / "one.py"
    code.write_text("1\n", "utf-8")
    words = ("request", "new", "--purpose", "x", "--code", code, "--limit", "memory_bytes=513MiB")
    done = cli(*words, code=77)
    assert "512MiB" in done.err
    assert "536870912" not in done.err


def test_apply_needs_a_yes_and_without_a_terminal_the_option(cli: Cli) -> None:
    edit(cli, *WIDER)
    before = files_below(workspace(cli) / "bundles")
    done = cli("policy", "apply", stdin=b"y\n", code=75)
    assert "[TG-ASK-001]" in done.err
    assert "--yes" in done.err
    assert files_below(workspace(cli) / "bundles") == before
    cli("policy", "apply", "--yes")
    assert generation(cli) == 2


def test_apply_on_a_terminal_shows_asks_and_takes_no_for_an_answer(cli: Cli) -> None:
    edit(cli, *WIDER)
    screen = cli.in_terminal("policy", "apply", typed=b"n\n", code=77)
    assert b"! wider" in screen
    assert b"apply 1 change, 1 wider? [y/N] n" in screen
    assert b"the operator said no" in screen
    assert generation(cli) == 1
    screen = cli.in_terminal("policy", "apply", typed=b"y\n")
    assert b"in force: generation 2" in screen
    assert generation(cli) == 2
    assert cli("policy", "diff").out == "no difference\n"


def test_nothing_to_apply_applies_nothing(cli: Cli) -> None:
    assert cli("policy", "apply").out.startswith("no difference\nin force: generation 1, ")
    assert generation(cli) == 1


def test_prose_alone_changes_no_rule(cli: Cli) -> None:
    edit(
        cli, "# What may wait in the handoff", "A new first line.\n\n# What may wait in the handoff"
    )
    assert cli("policy", "diff").out == "no rule differs, only where rules stand\n"
    assert cli("status", "--json").json["policy"]["files"] == "reworded"
    cli("policy", "apply", "--yes")
    assert generation(cli) == 2


# claim TG-C-07
def test_a_key_that_is_no_signer_cannot_apply(cli: Cli) -> None:
    edit(cli, *WIDER)
    stranger = key_file(cli.base, "stranger")
    done = cli("policy", "apply", "--yes", "--key", stranger, code=77)
    assert "[TG-KEY-003]" in done.err
    assert generation(cli) == 1
    cli("policy", "apply", "--yes", "--key", key_file(cli.base))  # control
    assert generation(cli) == 2


def test_a_broken_file_names_its_line_and_changes_nothing(cli: Cli) -> None:
    line = edit(cli, "held_expiry_seconds: 7d", "held_expiry_seconds: never")
    for command in ("check", "diff", "apply"):
        done = cli("policy", command, code=78)
        assert f"policy/handoff.policy.md:{line}: " in done.err
        assert "[TG-POL-" in done.err
    found = cli("status", "--json").json["policy"]
    assert found["files"] == "invalid"
    assert f"policy/handoff.policy.md:{line}" in found["problem"]
    cli("admit", "-", stdin=registry.emit(fetch_request()))  # what was signed is in force


def test_check_needs_no_workspace_when_a_directory_is_named(cli: Cli) -> None:
    outside = Cli(cli.base)
    shown = outside("policy", "check", workspace(cli) / "policy").out
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [
        "core",
        "fetch",
        "tool-exec",
        "handoff",
        "instruction-hierarchy",
        "signers",
        "gates",
        "valid",
    ]
    assert set(outside("policy", "check", "--json", workspace(cli) / "policy").json) == {
        "ok",
        "sections",
    }
    assert "[TG-POL-003]" in outside("policy", "check", cli.base / "nowhere", code=78).err


def acting(cli: Cli, packet: Path) -> dict[str, tuple[str | Path, ...]]:
    return {
        "admit": ("admit", packet),
        "status": ("status",),
        "list": ("packet", "list"),
        "show": ("packet", "show", "rp-" + "0" * 64),
        "apply": ("policy", "apply", "--yes"),
        "explain": ("policy", "explain", "read", "analysis"),
        "checkpoint": ("audit", "checkpoint"),
        "export": ("audit", "export", cli.base / "export"),
        "withdraw": ("withdraw", "rp-" + "0" * 64, "--reason", "x"),
        "forget": ("forget", "rp-" + "0" * 64, "--reason", "x", "--yes"),
    }


# claim TG-C-30
def test_without_a_policy_everything_that_acts_is_refused(cli: Cli) -> None:
    packet = write(cli.base / "packet.md", registry.emit(fetch_request()))
    cli("admit", packet)  # control
    (workspace(cli) / "bundles/current.json").unlink()
    before = files_below(workspace(cli))
    for name, argv in acting(cli, packet).items():
        done = cli(*argv, code=78)
        assert "no policy is applied [TG-POL-002]" in done.err, name
        assert done.out == ""
    assert files_below(workspace(cli)) == before
    assert "current.json: is missing" in cli("audit", "verify", code=76).out


def test_a_policy_of_a_newer_program_is_refused_with_a_hint(cli: Cli) -> None:
    marker = workspace(cli) / "threegate.json"
    marker.write_bytes(marker.read_bytes().replace(b"ws/1", b"ws/2"))
    done = cli("status", code=78)
    assert "[TG-VER-001]" in done.err
    assert "install a newer threegate" in done.err


def explained(cli: Cli, *question: str | Path) -> Done:
    return cli("policy", "explain", *question)


def test_explain_a_url(cli: Cli) -> None:
    shown = explained(cli, "https://api.crossref.org/works/10.5555/12345678").out
    assert "allow: api.crossref.org is allowed (policy/fetch.policy.md:" in shown
    external = explained(cli, "https://api.crossref.org/x", "--integrity", "external").out
    assert "\n  ask: " in external
    assert "\n  deny: no rule matched" in explained(cli, "https://example.org/").out
    hostile = explained(cli, "https://api.crossref.org/\x1b]52;c;x\x07")
    assert b"\x1b" not in hostile.raw_out
    assert "\n  deny: URL refused" in hostile.out


def test_explain_what_a_gate_may_read_and_draft(cli: Cli) -> None:
    (read,) = explained(cli, "read", "tool-result", "--json").json["decisions"]
    assert read["verdict"] == "allow"
    (read,) = explained(cli, "read", "an", "--gate", "fetch", "--json").json["decisions"]
    assert read["verdict"] == "deny"
    assert "deny: " in explained(cli, "draft", "approval").out
    assert "[TG-USE-001]" in cli("policy", "explain", "make", "tea", code=2).err


def test_explain_stored_requests(cli: Cli) -> None:
    ids = {}
    offered: dict[str, Artifact] = {
        "fr": fetch_request(),
        "tr": tool_request(inputs=()),
        "era": escalated("binary", inputs=()),
    }
    for name, item in offered.items():
        answer = cli("admit", "-", "--json", stdin=registry.emit(item)).json["files"][0]
        ids[name] = answer["id"]
    assert 'fetch "doi:10.5555/12345678" from crossref' in explained(cli, ids["fr"]).out
    assert 'deny: profile "default" is not offered to monty' in explained(cli, ids["tr"]).out
    assert "deny: lane era is not enabled" in explained(cli, ids["era"]).out


def test_show_tells_rule_file_and_line(cli: Cli) -> None:
    shown = cli("policy", "show", "handoff").out
    line = edit(cli, "held_expiry_seconds: 7d", "held_expiry_seconds: 7d")
    assert f"policy/handoff.policy.md:{line}" in shown
    assert "handoff/held_expiry_seconds" in shown
    assert "fetch/hosts/api.crossref.org" in cli("policy", "show", "fetch").out
    assert "signers/operator" in cli("policy", "show").out
    found = cli("policy", "show", "--json", "handoff").json
    assert found["sections"]["handoff"]["held_expiry_seconds"] == 604800
    source = cli("policy", "show", "--source", "allowed_signers").raw_out
    assert source == (workspace(cli) / "policy/allowed_signers").read_bytes()
