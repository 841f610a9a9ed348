"""Checks what this machine can enforce: starts every gate, which then proves its lock.

Modes: `standard` when every gate starts as promised; `strong` when, beyond that, each gate
has its own uid, a cgroup bounds its whole tree and the host's firewall knows the gates;
`refuse` otherwise.  There is no weaker mode.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from threegate.base.errors import GateUnavailable
from threegate.base.text import quote
from threegate.sandbox.box import Start
from threegate.sandbox.doctor_payloads import WORKS
from threegate.sandbox.machine import Machine, find_machine, gate_uid
from threegate.sandbox.profiles import (
    ENGINE,
    FETCH_OCR,
    FETCH_RETRIEVE,
    PROFILES,
    RUNSC_FILES,
    RUNSC_KERNEL,
    TOOL_LITE,
    Profile,
)
from threegate.sandbox.runtime import runtime_directory
from threegate.sandbox.session import GateAnswer, run_gate
from threegate.sandbox.tesseract import PACKAGES, find_tesseract
from threegate.sandbox.worker import find_worker

_EMULATE: Final = "`qemu-emulation` in lanes.era.engines works without it"
_TESSERACT: Final = "threegate.gates.fetch.normalize.readers.tesseract:tell_version"
State = Literal["in-force", "missing", "not-applicable"]
Level = Literal["standard", "strong", "information"]


@dataclass(frozen=True, slots=True)
class Check:
    """One mechanism: its state, the mode that needs it, and how to get it."""

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
    with stand_ins() as given:
        for profile in PROFILES.values():
            if progress is not None:
                progress(profile.name)
            checks.append(_start(machine, profile, given))
        checks.append(_worker(machine))
        checks.append(_recognition(machine))
        kvm = _kvm(machine, given)
    return Diagnosis((*_mechanisms(machine, checks), *checks, *_beyond(machine), kvm))


def _mechanisms(machine: Machine, starts: list[Check]) -> list[Check]:
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
        _proved_by("namespaces", "user, pid, network, ipc, uts, cgroup, mount", starts),
        _proved_by("seccomp", "a filter for each gate", starts),
        Check("memory-deny-write-execute", mdwe, "information", told),
    ]


def _proved_by(name: str, what: str, starts: list[Check]) -> Check:
    """Return a mechanism without which no gate proves its lock."""
    if any(check.state == "in-force" for check in starts):
        return Check(name, "in-force", "standard", f"{what}; proved by every gate that started")
    return Check(name, "missing", "standard", "no gate could be started", starts[0].fix)


def _start(machine: Machine, profile: Profile, given: dict[str, str]) -> Check:
    name = f"gate {profile.name}"
    # In a container nobody gets a /proc of their own, which these need; only a policy that names
    # their engine does.
    level: Level = "information" if profile in (RUNSC_KERNEL, RUNSC_FILES) else "standard"
    if not set(profile.executables) <= set(given):
        hint = "run `make setup`; it compiles the launcher and installs Monty"
        return Check(name, "missing", level, "what it starts is not installed", hint)
    start = Start(profile, "threegate.sandbox.channel:echo", given)
    try:
        answer = run_gate(machine, start, b"hello", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check(name, "missing", level, exc.message, exc.hint)
    with answer.message as message:
        echoed = message.read() == b"hello"
    if answer.ended.why != "done" or not echoed:
        return Check(name, "missing", level, f"started and then ended: {answer.ended.why}")
    return Check(name, "in-force", level, _proved(answer))


def _proved(answer: GateAnswer) -> str:
    own = ", own uid" if answer.evidence.own_uid else ""
    return f"{len(answer.evidence.proofs)} forbidden acts tried and refused{own}"


def _worker(machine: Machine) -> Check:
    try:
        files = find_worker()
        start = Start(TOOL_LITE, "threegate.sandbox.doctor_payloads:use_worker", files.given())
        answer = run_gate(machine, start, b"6 * 7", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check("monty worker", "missing", "standard", exc.message, exc.hint)
    with answer.message as message:
        computed = message.read() == b"42"
    if not computed:
        return Check("monty worker", "missing", "standard", f"gave no answer: {answer.ended.why}")
    digest = files.digests()["monty"][:16]
    return Check(
        "monty worker", "in-force", "standard", f"computed under its filter, binary {digest}"
    )


def _recognition(machine: Machine) -> Check:
    """Check that Tesseract starts in its sandbox, and name its languages."""
    name: Final = "text recognition (OCR)"
    found = find_tesseract()
    if found is None:
        detail = f"scans without text are refused; `sudo apt install {PACKAGES}` changes that"
        return Check(name, "not-applicable", "information", detail)
    start = Start(FETCH_OCR, _TESSERACT, found.given())
    try:
        answer = run_gate(machine, start, b"", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check(name, "missing", "information", exc.message, exc.hint)
    with answer.message as message:
        version = quote(message.read().decode("ascii", "replace"))
    if answer.ended.why != "done":
        return Check(name, "missing", "information", f"Tesseract ended: {answer.ended.why}")
    detail = f"Tesseract {version} started in its sandbox; languages {', '.join(found.languages)}"
    return Check(name, "in-force", "information", detail)


def _firewall(machine: Machine) -> Check:
    """Check that the firewall refuses datagrams of a gate's uid, outside any sandbox."""
    from threegate.sandbox.attacks.scene import says_nothing

    held = machine.root and says_nothing(gate_uid(FETCH_RETRIEVE.name))
    detail = "refuses datagrams of a gate's uid, on loopback as well"
    if not held:
        detail = "namespaces, filters and Landlock hold the network alone"
    fix = "`threegate infra write` makes its rules; docs/deployment.md says how to load them"
    state: State = "in-force" if held else "missing"
    return Check("host firewall", state, "strong", detail, "" if held else fix)


def _beyond(machine: Machine) -> list[Check]:
    uid = "each gate its own uid" if machine.root else "all gates share your uid"
    checks = [
        Check(
            "own uid per gate",
            "in-force" if machine.root else "missing",
            "strong",
            uid,
            ""
            if machine.root
            else "not built yet; it comes with the installation as a system service",
        )
    ]
    checks += [
        Check(
            "cgroup for each tree",
            "missing",
            "strong",
            "limits hold for each process, not for the sum over a tree",
            "not built yet; docs/threat-model.md says what that leaves open",
        ),
        _firewall(machine),
    ]
    return checks


def _kvm(machine: Machine, given: dict[str, str]) -> Check:
    """Check that the engine can use the accelerator in its sandbox, with its uid."""
    name: Final = "/dev/kvm"
    if not os.path.exists(name):
        return Check(name, "not-applicable", "information", f"is not here; {_EMULATE}")
    try:
        start = Start(ENGINE, "threegate.sandbox.doctor_payloads:use_kvm", given)
        answer = run_gate(machine, start, b"", deadline_seconds=30)
    except GateUnavailable as exc:
        return Check(name, "missing", "information", exc.message, exc.hint)
    with answer.message as message:
        told = message.read()
    if told == WORKS:
        detail = "the engine's sandbox made a machine with it; it counts when a guest has answered"
        return Check(name, "in-force", "information", detail)
    why = quote(told.decode("ascii", "replace")) if told else answer.ended.why
    fix = "let a group use it, for example: chgrp kvm /dev/kvm && chmod 660 /dev/kvm"
    detail = f"the engine's sandbox cannot use it ({why}): qemu-kvm does not work; {_EMULATE}"
    return Check(name, "missing", "information", detail, fix)


@contextmanager
def stand_ins() -> Iterator[dict[str, str]]:
    """Give every slot of every profile something harmless to bind."""
    with runtime_directory(None, "doctor") as place:
        root = place.path
        os.fchmod(place.fd, 0o755)
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
        tesseract = find_tesseract()
        given |= {} if tesseract is None else tesseract.given()
        yield given
