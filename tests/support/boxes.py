"""Boxes under test: who starts them, and what the escape suite says about them."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import hostile_gates
from threegate.base.errors import ThreeGateError
from threegate.sandbox.attacks.base import AttackResult
from threegate.sandbox.attacks.runner import EVERY_PROFILE, attack
from threegate.sandbox.attacks.scene import Outsider
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, FETCH_OCR, TOOL_LITE, Bind, Profile
from threegate.sandbox.session import GateAnswer, Session, run_gate
from threegate.sandbox.syscalls import architecture
from threegate.sandbox.tesseract import find_tesseract
from threegate.sandbox.worker import find_worker

ORDINARY_UIDS = range(42_000, 42_256)  # nobody's by convention
LEASES = Path("/run/threegate-tests")  # root's own: nobody else can hold a lease there
IS_ROOT = os.geteuid() == 0
# Root can be both; an ordinary user is what they are.
STARTERS = ("ordinary user", "root") if IS_ROOT else ("ordinary user",)
REPORT = "tests.support.boxes:attack_report"
ATTACK_SECONDS = 1_500  # against one that hangs: every box is attacked once, on a busy machine too


def leased_uid(place: Path = LEASES, uids: Sequence[int] = ORDINARY_UIDS) -> int:
    """Take a uid that no other process of tests on this machine has; until this one ends.

    The kernel counts much per uid: processes, keys, queues, pipes.
    """
    place.mkdir(mode=0o700, exist_ok=True)
    for uid in uids:
        fd = os.open(place / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return uid  # the descriptor stays open: it is the lease
    raise AssertionError(f"every uid of {uids} is taken by other tests")


@cache
def ordinary_uid() -> int:
    """Return the uid of the ordinary user: our own, or for root one that nobody else tests with."""
    return leased_uid() if IS_ROOT else os.geteuid()


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: bytes
    err: str


def starter(who: str, groups: Sequence[int] = ()) -> Outsider:
    """Return how to run our own Python as `who`, outside any box."""
    uid = ordinary_uid() if IS_ROOT and who == "ordinary user" else None
    return Outsider(uid, architecture().numbers["unshare"], tuple(groups))


def run_as(
    who: str, target: str, *arguments: str, groups: Sequence[int] = (), **environment: str
) -> Ran:
    """Run `module:function` as `who`, with a home of its own."""
    with tempfile.TemporaryDirectory(prefix="threegate-home-") as home:
        if IS_ROOT and who == "ordinary user":
            os.chown(home, ordinary_uid(), ordinary_uid())
        process = starter(who, groups).start(
            target,
            arguments,
            env={"HOME": home, "PATH": "/usr/bin:/bin", **environment},
            stderr=subprocess.PIPE,
            paths=(str(repository()),),
        )
        try:
            out, err = process.communicate(timeout=ATTACK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # else the next test is blamed for what this one left
            process.communicate()
            raise
        return Ran(process.returncode, out, err.decode("utf-8", "replace"))


def played_as(who: str, scenes: str) -> dict[str, Any]:
    """Play `module:function` on a test internet as `who`; return what it tells."""
    with tempfile.TemporaryDirectory(prefix="threegate-internet-") as directory:
        if IS_ROOT and who == "ordinary user":
            os.chown(directory, ordinary_uid(), ordinary_uid())
        ran = run_as(who, "tests.support.internet:inside", scenes, directory)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    assert found["end"] == "done"
    return found


def attacked_as(who: str, profiles: str = "", names: str = "") -> list[AttackResult]:
    """Attack the profiles as `who`; the results come from a process of that user."""
    ran = run_as(who, REPORT, profiles, names)
    assert ran.code == 0, ran.err
    return [AttackResult(**item) for item in json.loads(ran.out)]


def attack_report() -> None:
    """Attack the profiles of the first argument with the attempts of the second; none means all.

    A third argument `no-control` leaves the controls out.  The results are JSON, for a caller that
    runs this as another user.
    """
    words = (*sys.argv[1:], "", "", "")
    profiles, names = (word.split(",") if word else [] for word in words[:2])
    control = words[2] != "no-control"
    try:
        results = attack(find_machine(), profiles or EVERY_PROFILE, names=names, control=control)
    except ThreeGateError as exc:
        sys.stderr.write(f"threegate: error: {exc.message} [{exc.code}]\n")
        sys.exit(exc.exit_code)
    sys.stdout.write(json.dumps([item.plain() for item in results]))
    sys.stdout.flush()


def open_to_all(directory: Path) -> None:
    """Let every user read a test's directory; what all users share stays as it is."""
    for path in (directory, *directory.parents[:3]):
        mode = path.stat().st_mode
        if not mode & stat.S_ISVTX and path.stat().st_uid == os.geteuid():
            path.chmod(mode | 0o055)


def said(answer: GateAnswer) -> bytes:
    """Return a gate's whole answer, and close it."""
    with answer.message as message:
        return message.read()


def repository() -> Path:
    return Path(__file__).parent.parent.parent


# -- Payloads of a test's own in a real box: a module bound beside the gate's packages.

MODULE = "payload_under_test"
_HEAD = "from threegate.sandbox.channel import read_message, write_message\n"


def start_with(
    directory: Path, code: str, profile: Profile = FETCH_NORMALIZE, **changes: Any
) -> Start:
    """Return a start whose payload is `main` in `code`; `changes` are fields of the profile."""
    path = directory / f"{MODULE}.py"
    path.write_text(_HEAD + code, encoding="utf-8")
    bind = Bind("payload", f"/gate/{MODULE}.py", "file")
    changed = replace(profile, binds=(*profile.binds, bind), **changes)
    given = {"payload": str(path)}
    if profile is TOOL_LITE:
        given |= find_worker().given()
    if profile is FETCH_OCR:
        tesseract = find_tesseract()
        assert tesseract is not None, "install it: scripts/setup.sh tests"
        given |= tesseract.given()
    return Start(changed, f"{MODULE}:main", given)


def hostile_start(
    payload: str,
    mark: str,
    profile: Profile = FETCH_NORMALIZE,
    given: Mapping[str, str] | None = None,
) -> Start:
    """Return a start of a function of `hostile_gates`, with a word to find its processes by."""
    module = Path(hostile_gates.__file__)
    bind = Bind("payload", f"/gate/{module.name}", "file")
    changed = replace(profile, binds=(*profile.binds, bind))
    slots = {**(given or {}), "payload": str(module)}
    return Start(changed, f"{module.stem}:{payload}", slots, (mark,))


def importable(directory: Path, profile: Profile, names: Sequence[str]) -> list[str]:
    """Return which of these modules can be imported in a box of the profile."""
    code = f"""
import json
def main():
    read_message(0, 1)
    there = []
    for name in {tuple(names)!r}:
        try:
            __import__(name)
        except ImportError:
            continue
        there.append(name)
    write_message(3, json.dumps(there).encode())
"""
    found = said(run_gate(find_machine(), start_with(directory, code, profile), b""))
    return [str(name) for name in json.loads(found)]


# -- Sessions under test, in a process of whoever starts them.

WAIT_SECONDS = 20.0
LEAVER = """
import os, signal, time
def main():
    while (request := read_message(0, 2**20)) is not None:
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                time.sleep(600)
        if request == b'stay':
            time.sleep(600)
        write_message(3, request)
"""


def children() -> set[int]:
    """Return the children of this process."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set(map(int, (task / "children").read_text("ascii").split()))
    return found


def is_dead(pid: int) -> bool:
    """Tell whether a process has ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def living(pids: Iterable[int]) -> set[int]:
    """Return those of these processes that do not end, however busy the machine is."""
    deadline = time.monotonic() + WAIT_SECONDS
    while left := {pid for pid in pids if not is_dead(pid)}:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def leaving() -> None:
    """Leave processes behind in jobs, end the session both ways, and print what is left."""
    machine = find_machine()
    found: dict[str, Any] = {"own uid": machine.root}
    with tempfile.TemporaryDirectory() as name:
        start = start_with(Path(name), LEAVER, TOOL_LITE)
        for how in ("closed", "killed"):
            session = Session.open(machine, start)
            for _ in range(2):
                assert session.ask(b"job", deadline_seconds=30).message == b"job"
            inside = session._line.started.meter.processes()
            if how == "killed":
                session.ask(b"stay", deadline_seconds=0.3)
            why = session.close().why
            left = [pid for pid in inside if Path(f"/proc/{pid}").exists()]
            found[how] = {"alive": len(inside), "left": len(left) + len(children()), "why": why}
    json.dump(found, sys.stdout)
