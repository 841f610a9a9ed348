"""The doctor reports what it saw by doing, and one gate that does not start is enough to refuse."""

from typing import Any

import pytest

from threegate.errors import GateUnavailable
from threegate.sandbox.doctor import Check, Diagnosis, examine, stand_ins
from threegate.sandbox.profiles import PROFILES
from threegate.sandbox.session import run_gate


@pytest.fixture(scope="module")
def healthy() -> Diagnosis:
    return examine()


def states(diagnosis: Diagnosis) -> dict[str, str]:
    return {check.name: check.state for check in diagnosis.checks}


def test_every_gate_and_the_worker_are_started(healthy: Diagnosis) -> None:
    found = states(healthy)
    for name in PROFILES:
        assert found[f"gate {name}"] == "in-force", found
    assert found["monty worker"] == "in-force"
    assert (found["namespaces"], found["seccomp"], found["landlock"]) == ("in-force",) * 3
    assert healthy.mode == "standard"  # a cgroup for each tree is not built


def test_what_is_missing_says_how_to_fix_it(healthy: Diagnosis) -> None:
    missing = [check for check in healthy.checks if check.state == "missing"]
    assert missing
    assert all(check.fix for check in missing)


def test_progress_names_each_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def nothing(*_: Any, **__: Any) -> Any:
        raise GateUnavailable("not started", hint="try")

    monkeypatch.setattr("threegate.sandbox.doctor.run_gate", nothing)
    found = examine(told.append)
    assert told == list(PROFILES)
    assert states(found)["seccomp"] == "missing"
    assert found.mode == "refuse"


def test_without_the_worker_the_others_are_examined_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_built() -> Any:
        raise GateUnavailable("the Monty worker is not installed", hint="build it")

    monkeypatch.setattr("threegate.sandbox.doctor.find_worker", not_built)
    found = states(examine())
    assert (found["gate tool-lite"], found["monty worker"]) == ("missing", "missing")
    assert found["gate core"] == "in-force", "control"


def test_one_gate_that_does_not_start_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_core(machine: Any, start: Any, *arguments: Any, **options: Any) -> Any:
        if start.profile.name == "core":
            raise GateUnavailable("core could not be confined", hint="look there")
        return run_gate(machine, start, *arguments, **options)

    monkeypatch.setattr("threegate.sandbox.doctor.run_gate", all_but_core)
    found = examine()
    (core,) = [check for check in found.checks if check.name == "gate core"]
    assert (core.state, core.detail, core.fix) == (
        "missing",
        "core could not be confined",
        "look there",
    )
    assert states(found)["gate proxy"] == "in-force"
    assert states(found)["seccomp"] == "in-force"
    assert found.mode == "refuse"


def test_no_bubblewrap_is_a_refusal_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threegate.sandbox.machine.shutil.which", lambda *_, **__: None)
    found = examine()
    assert [(check.name, check.state) for check in found.checks] == [("machine", "missing")]
    assert "apt install bubblewrap" in found.checks[0].fix
    assert found.mode == "refuse"


def test_modes() -> None:
    def mode(*states_and_levels: tuple[Any, Any]) -> str:
        return Diagnosis(tuple(Check("x", s, level, "") for s, level in states_and_levels)).mode

    assert mode(("in-force", "standard"), ("in-force", "strong")) == "strong"
    assert mode(("in-force", "standard"), ("missing", "strong")) == "standard"
    assert mode(("missing", "standard"), ("in-force", "strong")) == "refuse"
    assert mode(("missing", "information"), ("not-applicable", "standard")) == "strong"


def test_stand_ins_fill_every_slot_and_go_away() -> None:
    from pathlib import Path

    slots = {bind.slot for profile in PROFILES.values() for bind in profile.binds}
    with stand_ins() as given:
        assert given.keys() == slots
        assert all(Path(path).exists() for path in given.values())
        own = [path for path in given.values() if "threegate-doctor-" in path]
        assert own
    assert not any(Path(path).exists() for path in own)
