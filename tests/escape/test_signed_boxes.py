"""Every gate that the host starts: refused in a box that nobody signed, started in a signed one."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.policies import GATES as SIGNED
from tests.support.policies import policy, policy_files
from threegate.base.errors import GateUnavailable
from threegate.host.open_box import GATES, PROGRAM, open_box
from threegate.policy.bundle import Compiled
from threegate.policy.compiler import compile_policy
from threegate.sandbox import worker
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import PROFILES, TOOL_LITE
from threegate.sandbox.service import Companion

TABLE = Path(__file__).resolve().parents[2] / "infra" / "gates.table"
ROWS = [line.split()[0] for line in TABLE.read_text("utf-8").splitlines()[1:]]
RIGHT = policy()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Harmless files for every slot; the engine is a real program that ends at once."""
    engine = tmp_path_factory.mktemp("engine") / "true"
    shutil.copy("/bin/true", engine)
    with stand_ins() as found:
        yield {**found, "engine": str(engine)}


def nothing_starts(machine: Machine, start: object) -> NoReturn:
    raise AssertionError(f"{start} would be started on {machine}")


def opened(kind: Any, name: str, bundle: Compiled, given: Mapping[str, str]) -> Any:
    """Open the gate of one row; the worker's row is part of the lite lane's box."""
    profile = TOOL_LITE if name == worker.NAME else PROFILES[name]
    slots = {bind.slot: given[bind.slot] for bind in profile.binds}
    inside = {bind.slot: bind.inside for bind in profile.binds}
    program = (inside["engine"],) if GATES[profile.name].payload == PROGRAM else ()
    devices = replace(profile, devices=())  # narrower: not every machine has an accelerator
    return open_box(kind, find_machine(), bundle, devices, slots, program=program)


def signed_otherwise(name: str) -> list[Compiled]:
    """Return policies that hold less, something else, and nothing of this row."""
    less = {**SIGNED[name], "memory_bytes": SIGNED[name]["memory_bytes"] - 1}
    other = {**SIGNED[name], "hugepages": ["2M"]}
    without = {key: rules for key, rules in SIGNED.items() if key != name}
    held = ({**SIGNED, name: less}, {**SIGNED, name: other}, without)
    return [compile_policy(policy_files(), gates=gates) for gates in held]


def test_the_table_has_a_row_for_every_gate_that_is_started() -> None:
    assert {*ROWS} == {*GATES, worker.NAME}
    assert GATES.keys() == PROFILES.keys()


@pytest.mark.parametrize("name", ROWS)
# claim TG-C-35
def test_a_gate_in_a_box_that_nobody_signed_is_refused_and_in_the_signed_one_starts(
    name: str, given: Mapping[str, str]
) -> None:
    box = TOOL_LITE.name if name == worker.NAME else name
    for bundle in signed_otherwise(name):
        with pytest.raises(GateUnavailable) as caught:
            opened(nothing_starts, name, bundle, given)
        assert caught.value.code == "TG-BOX-040"
        assert caught.value.message.startswith(f"the sandbox of {box} is not the signed one: ")
        assert "threegate policy apply" in caught.value.hint
    with opened(Companion, name, RIGHT, given) as started:
        assert started.ready().profile == box, "control: in the signed box its lock is proved"
