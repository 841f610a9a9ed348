"""Profiles are reviewed data: the table and the exact launch arguments are pinned.

A change here is a change of what a gate may do.  `THREEGATE_WRITE_GOLDEN=1` writes the files
anew; the diff is what a reviewer has to agree to.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.gates_table import gates_table
from tests.support.mutation import SANDBOX, every
from threegate.sandbox.box import Start, command
from threegate.sandbox.profiles import PROFILES
from threegate.sandbox.syscalls import architecture
from threegate.sandbox.view import CANARY, Mount, View

ROOT = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"

# The view differs from machine to machine; what is done with it does not.
VIEW = View(
    (
        Mount("HOST/python", "/rt/bin/python3"),
        Mount("HOST/stdlib", "/rt/lib/python3"),
        Mount("", "/rt/lib/python3/ensurepip"),
        Mount("HOST/threegate/__init__.py", CANARY),
        Mount("HOST/libc.so.6", "/usr/lib/libc.so.6"),
    ),
    "/rt/bin/python3",
    "HOST/ld.so",
    "/lib64/ld.so",
    (),
)


def _check(path: Path, text: str) -> None:
    if os.environ.get("THREEGATE_WRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path.name} is not what the profiles say"


def test_table_shows_the_profiles_in_force() -> None:
    _check(ROOT / "infra" / "gates.table", gates_table())


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
# claim TG-C-66
def test_launch_arguments_are_pinned(name: str, machine: str) -> None:
    profile = PROFILES[name]
    given = {bind.slot: f"HOST/{bind.slot}" for bind in profile.binds}
    start = Start(profile, "module:function", given)
    view = replace(VIEW, devices=profile.devices)
    argv = command(start, view, architecture(machine), bwrap="bwrap", landlock_abi=7, mdwe=True)
    _check(GOLDEN / f"{name}.{machine}.txt", "\n".join(argv) + "\n")


def test_every_profile_has_its_two_golden_files() -> None:
    wanted = {f"{name}.{machine}.txt" for name in PROFILES for machine in ("x86_64", "aarch64")}
    assert {path.name for path in GOLDEN.glob("*.txt")} == wanted


def test_every_mutant_still_names_one_place_in_the_code() -> None:
    # The mutants run for minutes, in `make slow` only; an edit that fits nothing shows here.
    edits = [(mutant.name, edit) for mutant in every() for edit in mutant.edits]
    assert len(edits) > 150, "control: there are mutants"
    missed = [
        name
        for name, edit in edits
        if (ROOT / "src" / SANDBOX / edit.file).read_text("utf-8").count(edit.old) != 1
    ]
    assert missed == []
