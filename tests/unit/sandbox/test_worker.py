"""The interpreter is the one this version was tested with, or the lane does not start."""

from dataclasses import replace
from pathlib import Path

import pytest

from threegate.base.errors import GateUnavailable
from threegate.sandbox.syscalls import architecture
from threegate.sandbox.worker import MONTY_SHA256, find_worker


def test_the_installed_interpreter_is_the_pinned_one() -> None:
    arch = architecture().name
    assert find_worker().checked_digests(arch)["monty"] == MONTY_SHA256[arch]


def test_another_binary_is_refused(tmp_path: Path) -> None:
    arch, worker = architecture().name, find_worker()
    worker.checked_digests(arch)  # control: the installed one is taken
    other = tmp_path / "monty"
    other.write_bytes(worker.binary.read_bytes() + b"\0")
    with pytest.raises(GateUnavailable) as refused:
        replace(worker, binary=other).checked_digests(arch)
    assert refused.value.code == "TG-BOX-031"
