"""Programs are what they were built as, or they are none."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from threegate.gates.tool_exec.era.guest.commands import is_built, prove

RING: dict[str, Any] = {"patterns": [], "arguments": []}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = tmp_path.resolve() / "sort"
    found.write_bytes(b"sorts")
    return found


def proved(path: Path, digests: dict[str, str]) -> list[str]:
    return prove({**RING, "binaries": [str(path)]}, digests)


# claim TG-C-264
def test_a_program_with_other_bytes_under_a_link_or_unrecorded_is_not_proved(program: Path) -> None:
    digests = {str(program): hashlib.sha256(b"sorts").hexdigest()}
    assert is_built(str(program), digests), "control"
    assert proved(program, digests) == ["commands", "programs"]

    link = program.with_name("link")
    link.symlink_to(program)
    linked = {**digests, str(link): digests[str(program)]}
    assert not is_built(str(link), linked), "a link to it, though its bytes are recorded"
    assert proved(link, linked) == ["commands"]

    below = program.with_name("below")
    below.symlink_to(program.parent)
    through = below / "sort"
    assert not is_built(str(through), {str(through): digests[str(program)]}), "a linked directory"

    assert not is_built(str(program), {}), "unrecorded"
    assert proved(program, {}) == ["commands"]

    assert not is_built(str(program.parent), {str(program.parent): "0" * 64}), "no file"
    assert not is_built(str(program.with_name("none")), digests)

    program.write_bytes(b"Sorts")
    assert not is_built(str(program), digests), "other bytes"
    assert proved(program, digests) == ["commands"]


# claim TG-C-264
def test_one_program_of_many_is_enough_for_no_proof(program: Path) -> None:
    digests = {str(program): hashlib.sha256(b"sorts").hexdigest()}
    ring = {**RING, "binaries": [str(program), "/usr/bin/none"]}
    assert prove(ring, digests) == ["commands"]
