"""What this machine can enforce, found by doing it: every gate is started and proves its lock.

Modes: `standard` when every gate starts as promised; `strong` when, beyond that, each gate
has its own uid, a cgroup bounds its whole tree and the host's firewall knows the gates;
`refuse` otherwise.  There is no weaker mode.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from threegate.errors import GateUnavailable
from threegate.sandbox.box import Start
from threegate.sandbox.launch import Answer, run_gate
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import PROFILES, TOOL_LITE, Profile
from threegate.sandbox.worker import find_worker

State = Literal["in-force", "missing", "not-applicable"]
Level = Literal["standard", "strong", "information"]


@dataclass(frozen=True, slots=True)
class Check:
    """One mechanism: whether it is in force, what for, and how to get it."""

    name: str
    state: State
    level: Level
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, and the mode they allow."""

    checks: tuple[Check, ...]

    @property
    def mode(self) -> str:
        """Return strong, standard or refuse."""
        missing = {check.level for check in self.checks if check.state == "missing"}
        if "standard" in missing:
            return "refuse"
        return "standard" if "strong" in missing else "strong"


def examine(progress: Callable[[str], None] | None = None) -> Diagnosis:
    """Try everything; never raises for what it finds."""
    checks: list[Check] = []
    try:
        machine = find_machine()
    except GateUnavailable as exc:
        found = Check("machine", "missing", "standard", exc.message, exc.hint)
        return Diagnosis((found,))
    checks += _mechanisms(machine)
    with stand_ins() as given:
        for profile in PROFILES.values():
            if progress is not None:
                progress(profile.name)
            checks.append(_start(machine, profile, given))
        checks.append(_worker(machine))
    checks += _beyond(machine)
    return Diagnosis(tuple(checks))


def _mechanisms(machine: Machine) -> list[Check]:
    landlock = f"ABI {machine.landlock_abi}"
    if machine.landlock_abi < 6:
        landlock += "; signals and abstract sockets are held by the namespaces alone"
    mdwe: State = "in-force" if machine.mdwe else "not-applicable"
    told = (
        "kernel" if machine.mdwe else "needs Linux 6.3; the filter on mmap and mprotect holds alone"
    )
    return [
        Check("bubblewrap", "in-force", "standard", machine.bwrap),
        Check("landlock", "in-force", "standard", landlock),
        Check("memory-deny-write-execute", mdwe, "information", told),
    ]


def _start(machine: Machine, profile: Profile, given: dict[str, str]) -> Check:
    name = f"gate {profile.name}"
    start = Start(profile, "threegate.sandbox.channel:echo", given)
    try:
        answer = run_gate(machine, start, b"hello", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check(name, "missing", "standard", exc.message, exc.hint)
    if answer.ended.why != "done" or answer.message.read() != b"hello":
        return Check(name, "missing", "standard", f"started and then ended: {answer.ended.why}")
    return Check(name, "in-force", "standard", _proved(answer))


def _proved(answer: Answer) -> str:
    own = ", own uid" if answer.evidence.own_uid else ""
    return f"{len(answer.evidence.proofs)} forbidden acts tried and refused{own}"


def _worker(machine: Machine) -> Check:
    try:
        files = find_worker()
        start = Start(TOOL_LITE, "threegate.sandbox.workercheck:main", files.given())
        answer = run_gate(machine, start, b"6 * 7", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check("monty worker", "missing", "standard", exc.message, exc.hint)
    if answer.message.read() != b"42":
        return Check("monty worker", "missing", "standard", f"gave no answer: {answer.ended.why}")
    digest = files.digests()["monty"][:16]
    return Check(
        "monty worker", "in-force", "standard", f"computed under its filter, binary {digest}"
    )


def _beyond(machine: Machine) -> list[Check]:
    uid = "each gate its own uid" if machine.root else "all gates share your uid"
    checks = [
        Check(
            "own uid per gate",
            "in-force" if machine.root else "missing",
            "strong",
            uid,
            "" if machine.root else "install ThreeGate as a system service",
        )
    ]
    cgroup = Path("/sys/fs/cgroup/cgroup.controllers")
    checks.append(
        Check(
            "cgroup for each tree",
            "missing",
            "strong",
            "cgroup v2 is there, and no gate uses it yet" if cgroup.exists() else "no cgroup v2",
            "limits per process hold; see docs/threat-model.md",
        )
    )
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")
    told = "nft is installed, no rules of ThreeGate are loaded" if nft else "nft is not installed"
    checks.append(
        Check("host firewall", "missing", "strong", told, "generated from policy, with FETCH")
    )
    kvm: State = "in-force" if os.access("/dev/kvm", os.R_OK | os.W_OK) else "not-applicable"
    checks.append(
        Check("/dev/kvm", kvm, "information", "opening it proves nothing; see the heavy lane")
    )
    return checks


@contextmanager
def stand_ins() -> Iterator[dict[str, str]]:
    """Give every slot of every profile something harmless to bind."""
    with tempfile.TemporaryDirectory(prefix="threegate-doctor-") as name:
        root = Path(name)
        root.chmod(0o755)
        given: dict[str, str] = {}
        for bind in {bind.slot: bind for p in PROFILES.values() for bind in p.binds}.values():
            path = root / bind.slot
            if bind.kind == "directory":
                path.mkdir(mode=0o755)
            else:  # to a bind mount a socket is a file like any other
                path.write_bytes(b"stand-in\n")
                path.chmod(0o755)
            given[bind.slot] = str(path)
        try:
            given |= find_worker().given()
        except GateUnavailable:
            given.pop("worker", None)  # the check of the worker says so
        yield given
