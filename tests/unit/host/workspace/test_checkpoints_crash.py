"""A checkpoint is there as a whole, or not at all: half of one would look like tampering."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.support.crash import deaths
from tests.support.workspaces import Clock, make_workspace, soft_signer
from threegate.base.errors import StorageFailed
from threegate.host.workspace.backup import silent
from threegate.host.workspace.log_signatures import make_checkpoint, stored_checkpoints
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import open_workspace


def test_killed_anywhere_a_checkpoint_is_whole_or_absent(tmp_path: Path) -> None:
    make_workspace(tmp_path).close()
    root, kept = tmp_path / "ws", tmp_path / "kept"
    root.rename(kept)
    seen = set()

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(kept, root)

    def action() -> None:
        make_checkpoint(open_workspace(root, clock=Clock()), soft_signer())

    for death in deaths(action, prepare):
        report = verify_workspace(root, given=(), clock=Clock(), progress=silent)
        assert [finding.problem for finding in report.findings] == [], death
        found = list(stored_checkpoints(root))
        assert all(item.signature is not None for item in found), death
        seen.add((len(found), death.mode))
    assert {count for count, _ in seen} == {0, 1}, "killed on both sides of the rename"
    assert (0, "half") in seen, "killed in the middle of a write"


def test_a_checkpoint_the_disk_has_no_room_for_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = make_workspace(tmp_path)
    directory = ws.root / "audit/checkpoints"
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if "/handoff/incoming/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailed):
        make_checkpoint(ws, soft_signer())
    assert not directory.exists() or os.listdir(directory) == []
    monkeypatch.undo()
    make_checkpoint(ws, soft_signer())  # control: with room it works
    assert len(os.listdir(directory)) == 2
    ws.close()


def test_a_deleted_checkpoint_is_missed(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    kept = make_checkpoint(ws, soft_signer())
    ws.close()
    before = verify_workspace(ws.root, given=(), clock=Clock(), progress=silent)
    assert (before.findings, before.checkpoints) == ([], 1), "control"
    for name in (kept.name, f"{kept.name}.sig"):
        (ws.root / "audit/checkpoints" / name).unlink()
    after = verify_workspace(ws.root, given=(), clock=Clock(), progress=silent)
    missing = {finding.name for finding in after.findings if finding.problem == "is missing"}
    assert missing == {kept.name, f"{kept.name}.sig"}
