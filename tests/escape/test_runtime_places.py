"""Another account that owns, names or renames the places of our sockets gets no connection."""

import json
import os
import socket
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT, STARTERS, open_to_all, ordinary_uid, run_as
from threegate.base.errors import GateUnavailable
from threegate.handoff.claims import current_lease
from threegate.host.proxy.supervisor import listening, listening_at
from threegate.host.settings import Settings
from threegate.sandbox import runtime

SCENE = "tests.support.faults:places"
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can act for another account")


def placed_in(directory: Path) -> bool:
    """Tell whether a socket is placed in the directory that the environment names."""
    settings = Settings.from_environment({"HOME": "/", "XDG_RUNTIME_DIR": str(directory)})
    with listening(settings.runtime_home) as found:
        place = Path(os.readlink(found.path.parent))
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert os.listdir(place) == [found.path.name]
        return place.parent == directory


@needs_root
# claim TG-C-410
def test_the_runtime_directory_of_another_account_is_not_used(tmp_path: Path) -> None:
    """Root after plain `su` has the variable of the account that called it."""
    runtime_home = tmp_path / "1000"
    runtime_home.mkdir(mode=0o700)
    assert placed_in(runtime_home), "control: our own closed directory is used"
    os.chown(runtime_home, ordinary_uid(), ordinary_uid())
    assert os.access(runtime_home, os.W_OK), "control: root could write there"
    assert not placed_in(runtime_home)
    assert list(runtime_home.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o701, 0o750, 0o1777])
# claim TG-C-410
def test_a_runtime_directory_open_to_others_is_not_used(tmp_path: Path, mode: int) -> None:
    runtime_home = tmp_path / "1000"
    runtime_home.mkdir(mode=0o700)
    assert placed_in(runtime_home), "control: it is used while it is closed"
    runtime_home.chmod(mode)
    assert not placed_in(runtime_home)


# claim TG-C-410
def test_a_runtime_directory_behind_a_link_is_not_used(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    assert placed_in(real), "control"
    assert not placed_in(link)
    assert not placed_in(tmp_path / "absent")


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-411
def test_a_renamed_directory_leads_a_gate_to_no_other_socket(who: str) -> None:
    """The path of the socket leads to the attacker's; the gate still gets the true one."""
    told = [json.loads(run_as(who, SCENE, when).out) for when in ("never", "before")]
    assert told == [{"answer": "the true one"}] * 2


# claim TG-C-411
def test_a_directory_renamed_while_a_gate_starts_ends_the_start() -> None:
    """Bubblewrap binds by name for an ordinary user: the gate itself sees that it is not ours."""
    told = [json.loads(run_as("ordinary user", SCENE, w).out) for w in ("never", "during")]
    assert told[0] == {"answer": "the true one"}, "control: undisturbed, it is answered"
    assert "/run/model.sock is not the socket that the host gave" in told[1]["refused"]


@needs_root
# claim TG-C-412
def test_no_name_that_another_account_takes_in_advance_stops_us(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The old names had a process id and a start time, which every account can read in /proc."""
    mine = current_lease()
    open_to_all(tmp_path)
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(runtime, "_TEMPORARY", tmp_path)
    known = f"{mine.pid}-{mine.started}-{mine.boot}"
    names = [str(tmp_path / f"threegate-fetch-{known}{tail}") for tail in ("", "-" + "0" * 16)]
    subprocess.run(["/bin/mkdir", *names], check=True, user=ordinary_uid(), cwd="/")
    with listening(None) as found:
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(str(found.path))
        assert Path(os.readlink(found.path.parent)).parent == tmp_path, "control: it is there"
    assert sorted(tmp_path.iterdir()) == sorted(map(Path, names)), "and theirs are not removed"


# claim TG-C-411
def test_a_directory_exchanged_between_two_calls_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the place above may put another directory there as soon as ours is made."""
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    true_mkdir = os.mkdir

    def exchanged(name: str, mode: int, *, dir_fd: int) -> None:
        true_mkdir(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        os.rename(other, name, dst_dir_fd=dir_fd)

    tmp_path.chmod(0o700)
    with listening(tmp_path):
        pass  # control
    (other / "trap").write_bytes(b"")
    monkeypatch.setattr("threegate.sandbox.runtime.os.mkdir", exchanged)
    with pytest.raises(GateUnavailable, match="exchanged") as caught, listening(tmp_path):
        pass
    assert caught.value.code == runtime.NOT_OURS


# claim TG-C-411
def test_a_socket_exchanged_for_a_link_changes_no_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a socket at a place the operator chose others may write: its group, for example."""
    precious, path = tmp_path / "precious", tmp_path / "served.sock"
    precious.write_bytes(b"")
    precious.chmod(0o600)
    true_open = os.open

    def exchanged(name: str, flags: int, *args: int, dir_fd: int | None = None) -> int:
        if name == path.name and dir_fd is not None:
            path.unlink()
            path.symlink_to(precious)
        return true_open(name, flags, *args, dir_fd=dir_fd)

    with listening_at(path):
        assert path.is_socket(), "control: undisturbed, it serves"
    monkeypatch.setattr("threegate.sandbox.runtime.os.open", exchanged)
    with pytest.raises(GateUnavailable, match="exchanged"), listening_at(path):
        pass
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600
