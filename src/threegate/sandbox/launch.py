"""Starts the process of a gate; `session` and `service` talk to it.

No other code of ThreeGate starts one.  If any part of the box is missing, nothing starts: there
is no weaker mode and no switch.

As root, the child gives up root before anything runs.  An unprivileged process cannot bind an
interpreter below a closed home directory.  So the child first makes a mount namespace of its own
and binds such sources to numbered places on a private tmpfs; then it becomes the gate's uid and
starts bubblewrap.  Nothing of it is visible outside the child.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import quote
from threegate.sandbox import kernel
from threegate.sandbox.box import Start, command, orders_for
from threegate.sandbox.machine import Machine, reachable
from threegate.sandbox.supervise import Ended, Started
from threegate.sandbox.usage import Meter
from threegate.sandbox.view import Mount, View

STAGE: Final = "/run"
_NEW_MOUNTS: Final = 0x00020000
_RECURSIVE_PRIVATE: Final = 0x4000 | 0x40000
_BIND: Final = 0x1000 | 0x4000
_TMPFS_FLAGS: Final = 0x2 | 0x4  # nosuid, nodev


def staged(sources: list[str]) -> dict[str, str]:
    """Return the staged path of each source that other accounts cannot reach."""
    known: dict[str, bool] = {}
    hidden = [s for s in dict.fromkeys(sources) if not reachable(Path(s), passable=known)]
    return {source: f"{STAGE}/{number}" for number, source in enumerate(hidden)}


def groups_of(devices: Iterable[str]) -> list[int]:
    """Return the groups that give access to these devices, if a group does."""
    found = [os.stat(f"/dev/{name}") for name in devices]
    return sorted({s.st_gid for s in found if s.st_mode & 0o060 == 0o060 and s.st_gid})


def become(
    uid: int, places: Mapping[str, str], unshare: int, groups: Sequence[int] = ()
) -> Callable[[], None]:
    """Return the function for the child between fork and exec; an exception ends it."""
    kinds = {source: os.path.isdir(source) for source in places}

    def child() -> None:
        if places:
            kernel.syscall(unshare, _NEW_MOUNTS)
            kernel.mount("none", "/", None, _RECURSIVE_PRIVATE)
            for source in places:
                # Opened before the tmpfs hides anything that may lie below it.
                os.stat(source)
            _bind(places, kinds)
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    return child


def _bind(places: Mapping[str, str], kinds: Mapping[str, bool]) -> None:
    opened = {source: os.open(source, os.O_PATH | os.O_CLOEXEC) for source in places}
    kernel.mount("tmpfs", STAGE, "tmpfs", _TMPFS_FLAGS)
    os.chmod(STAGE, 0o755)
    for source, place in places.items():
        if kinds[source]:
            os.mkdir(place, 0o755)
        else:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))
        kernel.mount(f"/proc/self/fd/{opened[source]}", place, None, _BIND)
        os.close(opened[source])


_DOCTOR: Final = "`threegate doctor` shows which mechanism is missing"
_NAMESPACES: Final = (
    "allow unprivileged user namespaces (kernel.unprivileged_userns_clone, AppArmor)"
)
# What a failed start says, and what helps.
_HINTS: Final = (
    ("new namespace", _NAMESPACES),
    ("user namespace", _NAMESPACES),
    ("user ns", _NAMESPACES),
    ("uid map", _NAMESPACES),
    ("/proc", "mount /proc: bubblewrap needs it, and no gate will see it"),
    ("Landlock", "use a kernel with Landlock (5.13 or newer), or a container that permits it"),
    ("seccomp", "use a kernel with seccomp filters, or a container that permits them"),
    ("close_range", "use Linux 5.9 or newer, or a container that permits close_range"),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The confinement of one start, for results and the log."""

    profile: str
    profile_sha256: str
    filter_sha256: str
    kernel: str
    landlock_abi: int
    mdwe: bool
    own_uid: bool
    proofs: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Return the record for the log."""
        return {
            "filter_sha256": self.filter_sha256,
            "kernel": self.kernel,
            "landlock_abi": self.landlock_abi,
            "mdwe": self.mdwe,
            "own_uid": self.own_uid,
            "profile": self.profile,
            "profile_sha256": self.profile_sha256,
            "proofs": len(self.proofs),
        }


def view_for(machine: Machine, start: Start) -> View:
    """Return the view of the gate, without the files given at start."""
    libraries = [
        b.slot for b in start.profile.binds if b.kind == "library" and b.slot in start.given
    ]
    programs = tuple(Path(start.given[slot]) for slot in (*start.profile.executables, *libraries))
    return machine.views.of(start.profile, programs)


def start_process(machine: Machine, start: Start, view: View) -> Started:
    """Start the gate's process; root is given up before anything runs."""
    machine.refuse_uncarried(start.profile)
    start = _named(_with_inodes(start))
    prepare: Callable[[], None] | None = None
    uid = machine.uid_for(start.profile.name)
    if uid is not None:
        sources = [m.source for m in view.mounts if m.source] + [view.loader, *start.given.values()]
        places = staged(sources)
        view, start = _moved(view, start, places)
        groups = groups_of(view.devices)
        prepare = become(uid, places, machine.arch.numbers["unshare"], groups)
    prepare = _held_to(start.cpus, prepare) if start.cpus else prepare
    argv = command(
        start,
        view,
        machine.arch,
        bwrap=machine.bwrap,
        landlock_abi=machine.landlock_abi,
        mdwe=machine.mdwe,
    )
    return _popen(start, argv, prepare)


def _with_inodes(start: Start) -> Start:
    """Record the inodes of given sockets: the gate proves that it sees these and no others."""
    slots = [b.slot for b in start.profile.binds if b.kind == "socket" and b.slot in start.given]
    try:
        found = {slot: os.stat(start.given[slot]) for slot in slots}
    except OSError as exc:
        detail = f"a socket for {start.profile.name} is not there: {exc.strerror}"
        raise GateUnavailable(detail, code="TG-BOX-024") from exc
    return replace(start, inodes={s: f"{f.st_dev}:{f.st_ino}" for s, f in found.items()})


def _named(start: Start) -> Start:
    """Return the start with the current paths of its sockets: a descriptor cannot be bound.

    The kernel binds nothing from another mount namespace, and bubblewrap resolves names itself.
    """
    given = {slot: os.path.realpath(start.given[slot]) for slot in start.inodes}
    return replace(start, given={**start.given, **given})


def _held_to(cpus: tuple[int, ...], then: Callable[[], None] | None) -> Callable[[], None]:
    def child() -> None:
        os.sched_setaffinity(0, cpus)
        if then is not None:
            then()

    return child


def _popen(start: Start, argv: list[str], prepare: Callable[[], None] | None) -> Started:
    # Processes that bubblewrap leaves behind become our children, so that we can wait for them.
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    pipe = subprocess.PIPE
    info, tell = os.pipe()
    try:
        process = subprocess.Popen(  # the child only makes system calls
            [argv[0], "--info-fd", str(tell), *argv[1:]],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={},
            cwd="/",
            umask=0o077,
            close_fds=True,
            pass_fds=(*start.keep_fds, tell),
            process_group=0,
            preexec_fn=prepare,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        os.close(info)
        detail = f"cannot start {start.profile.name}: {exc}"
        hint = (
            "as root, ThreeGate needs CAP_SYS_ADMIN and CAP_SETUID; or run it as an ordinary user"
        )
        raise GateUnavailable(detail, code="TG-BOX-020", hint=hint) from exc
    finally:
        os.close(tell)
    return Started(process, Meter(info))


def _moved(view: View, start: Start, places: dict[str, str]) -> tuple[View, Start]:
    def place(source: str) -> str:
        return places.get(source, source)

    mounts = tuple(Mount(place(m.source), m.inside) for m in view.mounts)
    given = {slot: place(source) for slot, source in start.given.items()}
    moved = replace(view, mounts=mounts, loader=place(view.loader))
    return moved, replace(start, given=given)


def evidence_of(machine: Machine, start: Start, view: View) -> Evidence:
    """Return the record of a start; it is true once the gate has said that it is ready."""
    orders = orders_for(
        _with_inodes(start),
        view,
        machine.arch,
        landlock_abi=machine.landlock_abi,
        mdwe=machine.mdwe,
    )
    return Evidence(
        profile=start.profile.name,
        profile_sha256=hashlib.sha256(start.profile.to_bytes()).hexdigest(),
        filter_sha256=hashlib.sha256(orders.filter).hexdigest(),
        kernel=platform.release(),
        landlock_abi=machine.landlock_abi,
        mdwe=machine.mdwe,
        own_uid=machine.root,
        proofs=orders.proofs,
    )


def not_started(name: str, ended: Ended) -> GateUnavailable:
    """Return the error for a gate that ended before it proved its lock."""
    told = ended.stderr.open_for_display().decode("utf-8", "replace").strip()
    last = told.rpartition("\n")[2]
    hint = next((text for word, text in _HINTS if word in last), _DOCTOR)
    reason = "deadline" if ended.why == "not-ready" and not told else quote(last, 160)
    detail = f"{name} could not be confined: {reason}"
    return GateUnavailable(detail, code="TG-BOX-021", hint=hint)
