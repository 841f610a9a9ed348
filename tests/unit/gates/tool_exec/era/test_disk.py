"""The disk of inputs, as the gate finds it."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from threegate.base.erofs import ErofsFile, lay_out, write
from threegate.gates.tool_exec.era.disk import DiskBroken, disk_inputs
from threegate.gates.tool_exec.era.messages import GivenInput

INPUTS = {"a": b"x" * 5000, "b": b"", "c": b"three"}
SAID = tuple(GivenInput(name, len(data)) for name, data in INPUTS.items())


def disk(path: Path) -> int:
    layout = lay_out({name: ErofsFile(len(data)) for name, data in INPUTS.items()})
    with path.open("wb") as out:
        write(layout, out, lambda name: io.BytesIO(INPUTS[name]))
    return os.open(path, os.O_RDWR)


def test_every_input_is_found_with_its_own_digest(tmp_path: Path) -> None:
    fd = disk(tmp_path / "disk")
    found = disk_inputs(fd, SAID)
    for name, data in INPUTS.items():
        assert (found[name].bytes, found[name].sha256()) == (
            len(data),
            hashlib.sha256(data).hexdigest(),
        )
    os.close(fd)


def test_another_layout_a_hidden_file_or_a_short_disk_is_refused(tmp_path: Path) -> None:
    fd = disk(tmp_path / "disk")
    for lie in (SAID[:2], (*SAID, GivenInput("d", 1)), (GivenInput("a", 5000), GivenInput("c", 5))):
        with pytest.raises(DiskBroken, match="laid out"):
            disk_inputs(fd, lie)
    os.pwrite(fd, b"\0", 1024)  # the superblock
    with pytest.raises(DiskBroken, match="laid out"):
        disk_inputs(fd, SAID)
    os.ftruncate(fd, 100)
    with pytest.raises(DiskBroken, match="too short"):
        disk_inputs(fd, SAID)
    assert disk_inputs(0, ()) == {}, "without inputs there is no disk"
    os.close(fd)
