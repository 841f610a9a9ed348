"""Reading the policy directory: all of it or nothing."""

import os
from pathlib import Path

import pytest

from tests.support.policies import GATES, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.policy.compiler import compile_policy, default_files, load_policy
from threegate.policy.limits import MAX_FILE_BYTES


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, data in policy_files().items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def refused(directory: Path) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(directory, gates=GATES)
    return caught.value


def test_directory_compiles_to_what_its_files_compile_to(directory: Path) -> None:
    assert (
        load_policy(directory, gates=GATES).bundle().digest
        == compile_policy(policy_files(), gates=GATES).bundle().digest
    )


@pytest.mark.parametrize("name", policy_files())
def test_missing_file_is_an_error(directory: Path, name: str) -> None:
    (directory / name).unlink()
    error = refused(directory)
    assert (error.code, error.exit_code) == ("TG-POL-003", 78)
    assert error.message == f"policy/{name}: no such file or directory"


def test_missing_directory_is_an_error(directory: Path) -> None:
    assert refused(directory / "nowhere").code == "TG-POL-003"


@pytest.mark.parametrize("name", policy_files())
def test_symlink_is_not_followed(directory: Path, name: str) -> None:
    load_policy(directory, gates=GATES)  # control: the target itself is valid
    (directory / name).rename(directory / "elsewhere")
    (directory / name).symlink_to(directory / "elsewhere")
    error = refused(directory)
    assert (error.code, f"policy/{name}: " in error.message) == ("TG-POL-003", True)
    assert "symbolic links" in error.message


def test_fifo_does_not_hang_and_is_refused(directory: Path) -> None:
    (directory / "fetch.policy.md").unlink()
    os.mkfifo(directory / "fetch.policy.md")
    assert refused(directory).message == "policy/fetch.policy.md: not a plain file"


def test_directory_in_place_of_a_file_is_refused(directory: Path) -> None:
    (directory / "fetch.policy.md").unlink()
    (directory / "fetch.policy.md").mkdir()
    assert refused(directory).code == "TG-POL-003"


def test_huge_file_is_read_only_up_to_the_cap(directory: Path) -> None:
    with (directory / "core.policy.md").open("wb") as file:
        file.truncate(2**40)  # sparse: reading it whole would take the machine down
    error = refused(directory)
    assert (error.code, str(MAX_FILE_BYTES + 1) in error.message) == ("TG-POL-009", True)


@pytest.mark.parametrize("name", ["extra.policy.md", "Fetch.policy.md", "tool_exec.policy.md"])
def test_policy_file_that_would_not_be_enforced_is_an_error(directory: Path, name: str) -> None:
    (directory / name).write_text("# Nobody reads this\n")
    error = refused(directory)
    assert (error.code, name in error.message) == ("TG-POL-003", True)


def test_other_files_beside_the_policy_are_left_alone(directory: Path) -> None:
    (directory / "README.md").write_text("notes\n")
    (directory / "fetch.policy.md~").write_text("backup\n")
    load_policy(directory, gates=GATES)


def test_unknown_name_is_refused_by_the_pure_compiler_too() -> None:
    with pytest.raises(PolicyInvalid, match=r"\Apolicy: \"x\" is not a file"):
        compile_policy({**policy_files(), "x": b""}, gates=GATES)


def test_shipped_files_hold_no_signer() -> None:
    assert "allowed_signers" not in default_files()
    with pytest.raises(PolicyInvalid, match="allowed_signers: missing"):
        compile_policy(default_files(), gates=GATES)
