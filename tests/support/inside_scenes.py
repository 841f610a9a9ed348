"""A user's derived files, seals, key, budgets and sockets, and an attacker who looks for them."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.support import inside_payload
from tests.support.boxes import said
from tests.support.inside_payload import Scene, looked
from tests.support.sshlab import private_file, put
from tests.support.workspaces import key_of, make_workspace
from threegate.cli.main import main as threegate
from threegate.host.fetch.budgets import Budgets
from threegate.host.keys.operator import KEY_NAME
from threegate.host.settings import Settings, unix_now
from threegate.host.workspace.fetched import FILE as FETCHED
from threegate.host.workspace.fetched import FetchCache
from threegate.host.workspace.index import FILE as INDEX
from threegate.host.workspace.index import Index
from threegate.host.workspace.seal import seal_of
from threegate.host.workspace.vectors import FILE as VECTORS
from threegate.host.workspace.vectors import VectorStore
from threegate.host.workspace.workspace import open_workspace
from threegate.sandbox.attacks.base import WORKER
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.payload import LOCK
from threegate.sandbox.profiles import PROFILES, Bind
from threegate.sandbox.runtime import listen, runtime_directory
from threegate.sandbox.session import run_gate

HOST = "example.org"
# A gate may not list its root: every directory that a profile has there is named too.
TOPS = ["/", "/dev", "/etc", "/gate", "/in", "/proc", "/rt", "/run", "/tmp", "/usr"]
TOPS += ["/proc/1/root", ".."]


def scene_of(home: Path) -> Scene:
    """Return where the files of a user are, or will be."""
    settings = Settings.from_environment({"HOME": str(home)})
    ws, seals, budgets = home / "ws", settings.seals, settings.state_home / "budgets"
    files = {
        **{name: ws / name for name in (INDEX, VECTORS, FETCHED)},
        "seal": seal_of(seals, ws / INDEX),
        "key": seals / "key",
        "budget": budgets / f"{HOST}.json",
        "operator's key": settings.config_home / KEY_NAME,
    }
    directories = {"ws": ws, "seals": seals, "budgets": budgets, "keys": settings.config_home}
    return {
        "files": {name: str(path) for name, path in files.items()},
        "directories": {name: str(path) for name, path in directories.items()},
        "sockets": {},
        "inodes": [],
        "own": [],
        "tops": [str(home)],
    }


def furnish(home: Path) -> None:
    """Make and use every file of the scene in a workspace that exists."""
    ws, settings = home / "ws", Settings.from_environment({"HOME": str(home)})
    with closing(open_workspace(ws, seals=settings.seals)) as opened:
        with closing(Index(opened.store, opened.seals)) as index:
            index.catch_up()
        FetchCache(opened.store, opened.seals).close()
        VectorStore(ws, "embedder", opened.seals).close()
    budgets = Budgets(settings.state_home / "budgets", unix_now)
    budgets.spend(HOST, requests=1, rate_per_minute=9, bytes_per_day=9)


@contextmanager
def another_run(scene: Scene) -> Iterator[Scene]:
    """Add the private directory and the socket of another run, and every inode."""
    with runtime_directory(None, "other") as place, listen(place.fd, "s.sock", mode=0o666):
        directories = {**scene["directories"], "runtime": str(place.path)}
        sockets = {"socket": str(place.path / "s.sock")}
        every = (*scene["files"].values(), *directories.values(), *sockets.values())
        inodes = [_inode(path) for path in every]
        scene = {**scene, "tops": [*scene["tops"], str(place.path)], "inodes": inodes}
        yield {**scene, "directories": directories, "sockets": sockets}


def _inode(path: str | Path) -> list[int]:
    info = os.stat(path)
    return [info.st_dev, info.st_ino]


def inside() -> None:
    """Attack as each gate that the arguments name; the control is the same code outside."""
    home = Path(os.environ["HOME"])
    make_workspace(home).close()
    furnish(home)
    key = Path(scene_of(home)["files"]["operator's key"])
    key.parent.mkdir(mode=0o700, parents=True)
    put(key, private_file(key_of()))
    code = _code(home)
    machine = find_machine()
    with stand_ins() as given, another_run(scene_of(home)) as scene:
        scene["own"] = _inode(code)
        told = {"control": looked(scene)}
        for name in sys.argv[1:]:
            start = _start(name, code, given)
            told[name] = _told(machine, start, scene, LOCK if name == WORKER else "")
    sys.stdout.write("\n" + json.dumps(told))
    sys.stdout.flush()


def _code(home: Path) -> Path:
    """Return a copy of the attacker's code that the gates of root can read too."""
    home.chmod(0o755)
    (home / "code").mkdir()
    code = home / "code" / "attack.py"
    code.write_bytes(Path(inside_payload.__file__).read_bytes())
    for path in (code, code.parent):
        path.chmod(0o755)
    return code


def _start(name: str, code: Path, given: dict[str, str]) -> Start:
    """Return a start of the real profile with one file more."""
    profile = PROFILES["tool-lite" if name == WORKER else name]
    binds = (*profile.binds, Bind("payload", "/gate/attack.py", "file"))
    return Start(replace(profile, binds=binds), "attack:main", {**given, "payload": str(code)})


def _told(machine: Machine, start: Start, scene: Scene, lock: str) -> dict[str, str]:
    asked = {**scene, "tops": TOPS, "lock": lock}
    answer = run_gate(machine, start, json.dumps(asked).encode(), deadline_seconds=60)
    found: dict[str, str] = json.loads(said(answer))
    return found


def owner() -> None:
    """Make a user's workspace with real commands; with `used`, every file of the scene too."""
    home = Path(sys.argv[1])
    os.environ["HOME"] = str(home)
    os.umask(0)  # closes nothing: a command must see to that itself
    assert threegate(["init", str(home / "ws")]) == 0
    if sys.argv[2] == "used":
        os.umask(0)
        assert threegate(["-w", str(home / "ws"), "packet", "search", "ice"]) == 0
        os.umask(0)  # directories exist by now; every file sets its own mode
        furnish(home)


def attacker() -> None:
    """Make every attempt as the account of this process; the scene is the argument."""
    sys.stdout.write("\n" + json.dumps(looked(json.loads(sys.argv[1]))))
