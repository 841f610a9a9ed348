"""A program counts if no other account can exchange it."""

import os
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT, ordinary_uid
from threegate.sandbox.programs import SEARCH, find_program, is_unexchangeable


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir(mode=0o755)
    found = directory / "tool"
    found.write_bytes(b"#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(directory),))
    return found


def test_places_are_absolute_and_of_the_system() -> None:
    assert all(place.startswith("/") and "home" not in place for place in SEARCH)
    assert find_program("sh") == Path("/usr/bin/sh"), "control"


@pytest.mark.parametrize("part", ["file", "directory", "above"])
@pytest.mark.parametrize("mode", [0o775, 0o757])
# claim TG-C-415
def test_a_program_that_others_may_write_is_not_found(program: Path, part: str, mode: int) -> None:
    assert find_program("tool") == program, "control"
    chosen = {"file": program, "directory": program.parent, "above": program.parent.parent}[part]
    before = chosen.stat().st_mode
    chosen.chmod(mode)
    assert find_program("tool") is None
    chosen.chmod(before)
    assert find_program("tool") == program, "control"


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
# claim TG-C-415
def test_a_program_of_another_account_is_not_found(program: Path) -> None:
    assert find_program("tool") == program, "control"
    os.chown(program, ordinary_uid(), ordinary_uid())
    assert find_program("tool") is None
    os.chown(program, 0, 0)
    os.chown(program.parent, ordinary_uid(), ordinary_uid())
    assert find_program("tool") is None


def test_a_link_counts_as_what_it_leads_to(program: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    real = program.rename(other / "tool")
    program.symlink_to(real)
    assert find_program("tool") == program, "control"
    other.chmod(0o777)
    assert find_program("tool") is None


def test_what_is_not_a_program_is_not_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.chmod(0o644)
    assert find_program("tool") is None
    program.unlink()
    program.mkdir()
    assert find_program("tool") is None
    monkeypatch.chdir("/usr/bin")
    assert not is_unexchangeable(Path("sh"))
    assert is_unexchangeable(Path("/usr/bin/sh")), "control"


# claim TG-C-415
def test_a_link_in_the_middle_that_others_may_change_does_not_count(
    program: Path, tmp_path: Path
) -> None:
    middle, end = tmp_path / "middle", tmp_path / "end"
    middle.mkdir()
    end.mkdir()
    (middle / "tool").symlink_to(program.rename(end / "tool"))
    program.symlink_to(middle / "tool")
    assert find_program("tool") == program, "control"
    middle.chmod(0o777)
    assert find_program("tool") is None


def test_links_in_a_circle_are_no_program(program: Path) -> None:
    program.unlink()
    program.symlink_to(program)
    assert find_program("tool") is None
