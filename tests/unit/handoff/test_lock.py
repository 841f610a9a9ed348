"""The lock: what is wrong with a disk is not called tampering, and a trap is not called a disk."""

import os
import resource
from pathlib import Path

import pytest

from threegate.base.errors import HandoffTampered, StorageFailed
from threegate.handoff.disk import LOCK_NAME, held, open_lock


@pytest.fixture
def directory(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)


def test_control_a_plain_lock_is_made_and_held(directory: int, tmp_path: Path) -> None:
    fd = open_lock(directory)
    with held(fd):
        assert (tmp_path / LOCK_NAME).is_file()
    os.close(fd)


def test_too_many_open_files_is_not_tampering(directory: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(directory)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        with pytest.raises(StorageFailed) as caught:
            open_lock(directory)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.exit_code == os.EX_IOERR
    assert "EMFILE" in caught.value.message


def test_disk_that_cannot_be_written_is_not_tampering() -> None:
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # nobody can make a file there
    try:
        with pytest.raises(StorageFailed):
            open_lock(proc)
    finally:
        os.close(proc)


@pytest.mark.parametrize("trap", ["symlink", "dangling", "directory", "fifo", "hard link"])
def test_lock_that_is_no_plain_file_is_tampering(directory: int, tmp_path: Path, trap: str) -> None:
    path, other = tmp_path / LOCK_NAME, tmp_path / "other"
    if trap == "symlink":
        other.touch()
        path.symlink_to(other)
    elif trap == "dangling":
        path.symlink_to(other)
    elif trap == "directory":
        path.mkdir()
    elif trap == "fifo":
        os.mkfifo(path)
    else:
        other.touch()
        path.hardlink_to(other)
    with pytest.raises(HandoffTampered):
        open_lock(directory)
    assert trap != "dangling" or not other.exists()
