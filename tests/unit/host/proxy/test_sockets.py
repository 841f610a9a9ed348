"""The proxy's socket: private, gone afterwards, and so is what a killed run left."""

import os
import socket
import stat
from pathlib import Path

import pytest

from threegate.base.errors import GateUnavailable, StorageFailed
from threegate.handoff.claims import current_lease
from threegate.host.proxy.supervisor import listening, listening_at


def test_it_listens_behind_a_door_that_is_shut(tmp_path: Path) -> None:
    with listening(tmp_path) as found:
        assert stat.S_IMODE(found.path.parent.stat().st_mode) == 0o700
        assert found.fd >= 10, "no number that a box uses itself"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(found.path))
    assert list(tmp_path.iterdir()) == []


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 200)
    deep.mkdir(mode=0o700)
    with listening(deep) as found:
        assert found.path.is_socket()
        assert Path(os.readlink(found.path.parent)).parent == deep


def test_what_a_dead_run_left_is_removed_and_what_lives_stays(tmp_path: Path) -> None:
    mine = current_lease()
    tail = f"{mine.boot}-{'0' * 16}"
    dead = tmp_path / f"threegate-fetch-{mine.pid}-{mine.started + 1}-{tail}"
    alive = tmp_path / f"threegate-fetch-{mine.pid}-{mine.started}-{tail}"
    other = tmp_path / "threegate-fetch-notes"
    for path in (dead, alive, other):
        path.mkdir()
        (path / "proxy.sock").write_bytes(b"")
    with listening(tmp_path) as found:
        ours = Path(os.readlink(found.path.parent))
        assert sorted(tmp_path.iterdir()) == sorted([ours, alive, other])


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write beside the socket could have any file of the operator emptied."""
    path, precious = tmp_path / "proxy.sock", tmp_path / "precious"
    precious.write_bytes(b"kept")
    lock = tmp_path / ".proxy.sock.lock"
    lock.symlink_to(precious)
    with pytest.raises(StorageFailed), listening_at(path):
        pass
    assert (precious.read_bytes(), path.exists()) == (b"kept", False)
    lock.unlink()
    with listening_at(path) as found:
        assert found.path.is_socket(), "control: without the link it serves"
        with pytest.raises(GateUnavailable, match="another proxy"), listening_at(path):
            pass
