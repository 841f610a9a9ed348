"""The doctor reports what it saw by doing, and one gate that does not start is enough to refuse."""

import os
import subprocess
import sys
from typing import Any

import pytest

from threegate.base.errors import GateUnavailable
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
    monkeypatch.setattr("threegate.sandbox.machine.find_program", lambda _: None)
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


def test_text_recognition_is_tried_or_names_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> Check:
        (found,) = [check for check in examine().checks if "OCR" in check.name]
        return found

    here = told()
    assert (here.state, here.level) == ("in-force", "information")
    assert "deu, eng" in here.detail
    monkeypatch.setattr("threegate.sandbox.doctor.find_tesseract", lambda: None)
    absent = told()
    assert (absent.state, absent.level) == ("not-applicable", "information")
    assert "sudo apt install tesseract-ocr tesseract-ocr-eng" in absent.detail


def test_stand_ins_fill_every_slot_and_go_away() -> None:
    from pathlib import Path

    slots = {bind.slot for profile in PROFILES.values() for bind in profile.binds}
    with stand_ins() as given:
        assert given.keys() == slots
        assert all(Path(path).exists() for path in given.values())
        own = [path for path in given.values() if "threegate-doctor-" in path]
        assert own
    assert not any(Path(path).exists() for path in own)


# A device where KVM would be; its owner is root, so the doctor itself can open it in each case.
OTHER_KVM = """
set -e
place=$(mktemp -d); mount -t tmpfs none $place
mknod $place/kvm c 1 3; chmod $0 $place/kvm
[ -e /dev/kvm ] || { mount -t tmpfs none /dev; cp -a $place/kvm /dev/kvm; }
mount --bind $place/kvm /dev/kvm
exec "$@"
"""
ASK_KVM = """
import os
from threegate.sandbox.doctor import _kvm, stand_ins
from threegate.sandbox.machine import find_machine
os.close(os.open("/dev/kvm", os.O_RDWR))  # control: this process can open it
with stand_ins() as given:
    found = _kvm(find_machine(), given)
print(found.state, found.detail)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount another device")
# claim TG-C-418
def test_an_accelerator_counts_only_if_the_engines_sandbox_can_use_it() -> None:
    told = {}
    for mode in ("600", "666"):
        words = ["unshare", "-m", "sh", "-c", OTHER_KVM, mode, sys.executable, "-I", "-c", ASK_KVM]
        told[mode] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert told["600"].startswith("missing the engine's sandbox cannot use it")
    assert "opening it: EACCES" in told["600"]
    assert "asking for its version: ENOTTY" in told["666"], "control: with the mode, it opens"
    assert all("`qemu-emulation` in lanes.era.engines" in one for one in told.values())
