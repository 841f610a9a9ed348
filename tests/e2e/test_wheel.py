"""A wheel that pip installed alone is the whole program, for an ordinary user as well."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = Path("/usr/bin/python3")  # an ordinary user cannot start an interpreter in root's home
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of a wheel in an empty environment."""
    base = tmp_path_factory.mktemp("wheel")
    for place in (base, *base.parents):
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o055)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(base)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = base.glob("threegate-*-py3-none-linux_*.whl")
    subprocess.run([str(SYSTEM), "-m", "venv", "--without-pip", str(base / "env")], check=True)
    pip = [*PIP, "--python", str(base / "env/bin/python"), "install"]
    locked = ["--require-hashes", "--only-binary", ":all:", "-r", "requirements/runtime.txt"]
    subprocess.run([*pip, *locked], cwd=ROOT, check=True, capture_output=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, capture_output=True)
    return base / "env/bin/threegate"


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    nobody = pwd.getpwnam("nobody")  # ssh-keygen wants an account that has a name
    uid, gid = nobody.pw_uid, nobody.pw_gid
    user = {"user": uid, "group": gid, "extra_groups": []} if IS_ROOT else {}
    if IS_ROOT:
        os.chown(tmp_path, uid, gid)
        for place in (tmp_path, *tmp_path.parents):
            if place != Path("/"):
                place.chmod(place.stat().st_mode | 0o011)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def started(*words: str) -> subprocess.CompletedProcess[str]:
        argv = words if words[0].startswith("/") else (str(installed), *words)
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, **user
        )

    return started


def test_an_installed_wheel_makes_approves_and_runs_a_request(run: Run, tmp_path: Path) -> None:
    key = f"{tmp_path}/key"
    assert run("/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).returncode == 0
    (tmp_path / "sum.py").write_text("print(1 + 2)\n")
    steps = [
        ("init", "ws", "--key", key),
        ("-w", "ws", "request", "new", "--purpose", "Adding", "--code", "sum.py"),
        ("-w", "ws", "doctor"),
    ]
    for step in steps:
        done = run(*step)
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
    listed = json.loads(run("-w", "ws", "request", "list", "--json").stdout)
    request_id = listed["items"][0]["id"]
    approved = run("-w", "ws", "review", "approve", request_id, "--yes", "--key", key)
    assert approved.returncode == 0, approved.stderr
    ran = run("-w", "ws", "run", request_id)
    assert ran.returncode == 0, ran.stderr
    assert "| 3\n" in ran.stdout


def test_a_launcher_that_was_exchanged_ends_the_lane(
    run: Run, installed: Path, tmp_path: Path
) -> None:
    (place,) = installed.parents[1].glob("lib/python3.*/site-packages/threegate/sandbox/native/bin")
    launcher = place / "launcher"
    before = launcher.read_bytes()
    assert run("/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key").returncode == 0
    assert run("init", "ws", "--key", "key").returncode == 0
    (tmp_path / "sum.py").write_text("print(1 + 2)\n")
    new = ("-w", "ws", "request", "new", "--purpose", "Adding", "--code", "sum.py")
    try:
        launcher.write_bytes(before + b"\0")
        refused = run(*new)
        assert refused.returncode == 69, refused.stderr
        assert "[TG-BOX-032]" in refused.stderr
    finally:
        launcher.write_bytes(before)
    assert run(*new).returncode == 0, "control: with the compiled one it starts"
