"""doctor: what confines the gates here, exit 0 only if every one starts as promised."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import PYTHON, Cli, made
from tests.support.policies import GATES
from tests.support.workspaces import key_file, make_workspace, settings_for
from threegate.cli.main import main
from threegate.sandbox.attacks.base import AttackResult
from threegate.sandbox.doctor import Check, Diagnosis
from threegate.sandbox.profiles import PROFILES

GOOD = Diagnosis((Check("gate core", "in-force", "standard", "98 acts"),))


def test_it_starts_every_gate_without_a_workspace(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    shown = cli("doctor").out
    assert shown.startswith("mode  standard\nkey   no key of yours is known here\n")
    for name in PROFILES:
        (line,) = [line for line in shown.splitlines() if line.startswith(f"gate {name} ")]
        assert "in force" in line
        assert "forbidden acts tried and refused" in line
    assert "sandboxes as signed" not in shown
    assert "for mode strong:" in shown


def test_json_names_mode_checks_key_and_signed_boxes(tmp_path: Path) -> None:
    cli = made(tmp_path)
    found = cli("doctor", "--json").json
    assert set(found) == {"mode", "checks", "key"}
    assert found["key"] == {"path": str(key_file(tmp_path)), "strength": "plain-file"}
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["sandboxes as signed"]["state"] == "in-force"
    assert set(checks["seccomp"]) == {"name", "state", "level", "detail", "fix"}
    assert {check["state"] for check in found["checks"]} <= {
        "in-force",
        "missing",
        "not-applicable",
    }


# claim TG-C-35
def test_boxes_wider_than_the_signed_ones_are_told_diffed_and_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade widened CORE's memory and gave every gate a call that was forbidden."""
    forbidden = [*GATES["every-gate"]["forbidden_calls"], "zz_old_call"]
    older = {
        **GATES,
        "core": {**GATES["core"], "memory_bytes": GATES["core"]["memory_bytes"] // 2},
        "every-gate": {"forbidden_calls": forbidden},
    }
    monkeypatch.setattr("threegate.host.workspace.setup.program_gates", lambda: older)
    make_workspace(tmp_path).close()
    cli = Cli(
        tmp_path, tmp_path / "ws", {"XDG_CONFIG_HOME": str(settings_for(tmp_path).config_home)}
    )
    done = cli("doctor", code=69)
    (line,) = [line for line in done.out.splitlines() if line.startswith("sandboxes as signed")]
    assert "MISSING" in line
    assert "does not hold 2 of them" in line
    assert "mode  refuse" in done.out
    assert "not as promised: sandboxes as signed [TG-BOX-050]" in done.err
    shown = cli("policy", "diff").out.splitlines()
    assert [line.split()[:2] for line in shown] == [["!", "wider"], ["!", "wider"]]
    assert "gates core: memory of a process now 2GiB, before 1GiB" in shown[0] + shown[1]
    assert "every-gate: system calls forbidden to every gate no longer zz_old_call" in str(shown)
    cli("policy", "apply", "--yes", "--key", key_file(tmp_path))
    assert cli("policy", "diff").out == "no difference\n"
    cli("doctor")
    shown_rules = cli("policy", "show", "gates").out
    assert "the program  gates/core/memory_bytes" in shown_rules
    assert "gates/monty-worker/calls" in shown_rules


def test_a_named_workspace_that_is_none_is_told(tmp_path: Path) -> None:
    done = Cli(tmp_path)("-w", tmp_path / "nowhere", "doctor", code=69)
    assert "is not a workspace" in done.out
    assert "[TG-BOX-050]" in done.err


def run_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *argv: str, **faults: Any) -> int:
    """Run the command in this process, with what it would find replaced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("THREEGATE_WORKSPACE", raising=False)
    for name, value in faults.items():
        monkeypatch.setattr(name.replace("__", "."), value)
    return main(["doctor", *argv])


def test_without_bubblewrap_it_refuses_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = {"threegate__sandbox__programs__SEARCH": (str(tmp_path),)}
    assert run_here(monkeypatch, tmp_path, "--attack", **faults) == 69
    shown = capsys.readouterr()
    assert shown.out.startswith("mode  refuse\n")
    assert "machine: install it: sudo apt install bubblewrap" in shown.out
    assert "error: not as promised: machine [TG-BOX-050]" in shown.err


def result(name: str, *, held: bool, counted: bool = True) -> AttackResult:
    outcome, reason = ("blocked", "EPERM") if held else ("worked", "")
    control = "worked" if counted else "EPERM: needs root"
    return AttackResult("core", name, "network", held, outcome, reason, "", control, counted)


@pytest.mark.parametrize("escaped", [False, True])
def test_attack_prints_the_table_and_fails_for_one_escape(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    escaped: bool,
) -> None:
    found = [result("tcp_connect", held=True), result("udp", held=not escaped, counted=False)]
    faults = {
        "threegate__sandbox__doctor__examine": lambda *_: GOOD,
        "threegate__sandbox__attacks__runner__attack": lambda *_, **_options: found,
    }
    code = run_here(monkeypatch, tmp_path, "--attack", **faults)
    shown = capsys.readouterr()
    assert code == (69 if escaped else 0)
    row = next(line for line in shown.out.splitlines() if line.startswith("core "))
    assert row.split() == ["core", "2", "1" if escaped else "2", "1" if escaped else "0", "1"]
    assert ("core: udp: worked, no reason" in shown.out) == escaped
    assert ("1 escapes were not stopped: udp [TG-BOX-051]" in shown.err) == escaped


@pytest.mark.slow
def test_the_full_attack_on_this_machine(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*PYTHON, "doctor", "--attack", "--json"],
        capture_output=True,
        cwd=tmp_path,
        env=Cli(tmp_path).env(),
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)["attacks"]
    assert {item["profile"] for item in found} == {*PROFILES, "monty-worker"}
    assert all(item["held"] for item in found)
    assert len({item["name"] for item in found}) >= 150
