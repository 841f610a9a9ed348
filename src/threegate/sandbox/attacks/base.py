"""What an escape attempt is, what every attempt may use, and how its result is judged.

SECURITY
    Attack code.  It runs inside boxes, and outside them as its own positive control, always
    as an ordinary uid, against canaries the runner made for it.  An attempt returns a
    sentence when the attack WORKED and raises when something stopped it.
    A box that lies about itself could look intact: so what canaries saw counts more than what
    the box said, and an attempt without an answer never counts as held.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from threegate.sandbox import kernel
from threegate.sandbox.syscalls import architecture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Act = Callable[["Facts"], str]
    Names = tuple[str, ...]

ARCH = architecture()
LIBC = ctypes.CDLL(None, use_errno=True)

# name: (x86_64, aarch64), for calls that neither the lock nor its proofs know.
_MORE_NUMBERS = {
    "capset": (126, 91),
    "fchmodat2": (452, 452),
    "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26),
    "mlock": (149, 228),
    "move_pages": (279, 239),
    "msgctl": (71, 187),
    "openat2": (437, 437),
    "pidfd_send_signal": (424, 424),
    "pkey_alloc": (330, 289),
    "semctl": (66, 191),
    "shmat": (30, 196),
}
NUMBERS = ARCH.numbers | {
    name: pair[0 if ARCH.name == "x86_64" else 1] for name, pair in _MORE_NUMBERS.items()
}

# Profiles that share an answer.
DIALLING: Names = ("proxy", "run-proxy")
HOST_NETWORK: Names = (*DIALLING, "bridge")
UNIX: Names = (
    *("fetch-retrieve", "core", "model-server", "bridge-socket", "bridge-remote"),
    "run-gateway",
)
FORKING: Names = ("tool-lite", "runsc-kernel")
EXECUTING: Names = ("tool-lite", "engine", "runsc-kernel", "runsc-files")
JUST_IN_TIME: Names = ("engine", "runsc-kernel")
TRACING: Names = ("runsc-kernel",)
CHANGING_ROOT: Names = ("runsc-files",)  # with a /proc of its own, and that one capability
SCRATCH: Names = ("engine",)
WORKER = "monty-worker"  # not a profile of its own: the filter of lock.so inside tool-lite

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIGCHLD = 17


class Blocked(Exception):
    """Something other than an errno stopped the attempt; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the host tells an attacker: where everything worth reaching is."""

    profile: str
    control: bool
    token: str  # sent by every network attempt; a canary that sees it has been reached
    uid: int
    host_name: str
    address4: str
    address6: str
    tcp_port: int
    tcp6_port: int
    udp_port: int
    abstract: str
    socket_path: str
    datagram_path: str
    secret: str  # path
    secret_text: str
    directory: str  # where the secret lies
    gate: int  # pid of the payload itself, as the box sees it
    victim: int  # pid on the host
    victim_address: int  # where the secret lies in its memory
    victim_fd: int  # its descriptor of the secret
    shm_key: int
    shm_id: int
    sem_id: int
    msg_id: int
    queue: str
    key_name: str
    leaked_fd: int
    descriptors: tuple[int, ...]  # open beyond the streams before anything was tried
    scratch: str  # a place that may be written, "" for none
    targets: tuple[str, ...]  # files in view that must not change
    places: tuple[str, ...]  # directories in view that must not change
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attack: what it does, where it applies, and what must stop it there."""

    name: str
    group: str
    act: Act
    expected: tuple[str, ...]
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()  # profiles that may do this: it is what they are for
    control: str = ""  # why an ordinary user outside cannot do it either; "": the control must work
    alone: bool = False  # needs a process of its own
    narrow: Mapping[str, int] = field(default_factory=dict)  # profile limits made smaller
    deadline_seconds: float = 60.0
    machine: str = ""  # only on this architecture

    def applies(self, profile: str) -> bool:
        """Tell whether the attempt must be stopped in this profile."""
        if self.machine and self.machine != ARCH.name:
            return False
        if profile in self.granted:
            return False
        return not self.only or profile in self.only

    def reasons(self, profile: str) -> tuple[str, ...]:
        """Return the reasons that count as stopped in this profile."""
        return self.exceptions.get(profile, self.expected)


def attempt(
    *expected: str, but: Mapping[tuple[str, ...], str] | None = None, **options: Any
) -> Callable[[Act], Attempt]:
    """Make a function an attempt; `but` names profiles where other reasons count."""
    exceptions = {
        profile: tuple(reasons.split())
        for profiles, reasons in (but or {}).items()
        for profile in profiles
    }

    def wrap(act: Act) -> Attempt:
        group = act.__module__.rpartition(".")[2]
        return Attempt(act.__name__, group, act, expected, exceptions, **options)

    return wrap


def collected(names: Mapping[str, Any]) -> tuple[Attempt, ...]:
    """Return the attempts of a module, in order."""
    return tuple(item for item in names.values() if isinstance(item, Attempt))


def reason_of(exc: BaseException) -> str:
    """Return why an attempt was stopped, in one word where there is one."""
    if isinstance(exc, OSError) and exc.errno:
        return errno.errorcode.get(exc.errno, str(exc.errno))
    if isinstance(exc, Blocked):
        return str(exc)
    if isinstance(exc, ImportError):
        return "ImportError"
    return type(exc).__name__


def call(name: str, *arguments: Any) -> int:
    """Make a system call by name."""
    return kernel.syscall(NUMBERS[name], *arguments)


def libc(name: str, *arguments: Any) -> int:
    """Call a function of the C library that reports by errno."""
    function = getattr(LIBC, name)
    function.restype = ctypes.c_long
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = function(*plain)
    if ctypes.c_int(result).value == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def on_any(items: Iterable[str], act: Callable[[str], object]) -> str:
    """Try an act on each item; return the first that works, else raise with all reasons."""
    reasons = set()
    for item in items:
        try:
            act(item)
        except OSError as exc:
            reasons.add(reason_of(exc))
            continue
        return f"worked on {item}"
    raise Blocked("+".join(sorted(reasons)) or "nothing to try it on")


def namespace_root(flags: int = 0) -> None:
    """Become root of a new user namespace, if that is possible; then try the act itself."""
    uid, gid = os.getuid(), os.getgid()
    try:
        call("unshare", CLONE_NEWUSER | flags)
        for file, text in (
            ("setgroups", "deny"),
            ("gid_map", f"0 {gid} 1"),
            ("uid_map", f"0 {uid} 1"),
        ):
            with open(f"/proc/self/{file}", "w", encoding="ascii") as handle:
                handle.write(text)
    except OSError:
        return


class _Symbol(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def library_of(function: str) -> tuple[str, int]:
    """Return the file a C function was loaded from, and where in memory it begins."""
    found = _Symbol()
    address = ctypes.cast(getattr(LIBC, function), ctypes.c_void_p)
    if not LIBC.dladdr(address, ctypes.byref(found)):
        raise Blocked("no such symbol")
    return os.fsdecode(found.file), int(found.base)


# Results

# The worker's filter ends the process, or refuses what its runtime may ask for.
WORKER_REASONS = ("SIGSYS", "EACCES", "EPERM", "ENOSYS")


@dataclass(frozen=True, slots=True)
class Said:
    """One attempt as reported: it worked, was blocked, or ended the process."""

    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attempt in one profile."""

    profile: str
    name: str
    group: str
    held: bool  # stopped, and for a reason that counts
    outcome: str  # blocked | worked | ended | reached
    reason: str
    detail: str
    control: str  # worked, or why it did not
    counted: bool  # the control worked, so the attempt has teeth

    def plain(self) -> dict[str, str | bool]:
        """Return the result for JSON."""
        return {name: getattr(self, name) for name in AttackResult.__slots__}


def judged(
    item: Attempt, profile: str, said: Said, control: Said, *, reached: bool
) -> AttackResult:
    """Compare what was said with what must be."""
    expected = item.reasons(profile)
    if profile == WORKER and WORKER not in item.exceptions and not item.only:
        expected = WORKER_REASONS
    stopped = said.outcome in {"blocked", "ended"} and not reached
    held = stopped and bool(said.reason) and set(said.reason.split("+")) <= set(expected)
    return AttackResult(
        profile=profile,
        name=item.name,
        group=item.group,
        held=held,
        outcome="reached" if reached else said.outcome,
        reason=said.reason,
        detail=said.detail,
        control="worked" if control.outcome == "worked" else _excuse(item, control),
        counted=control.outcome == "worked",
    )


def _excuse(item: Attempt, control: Said) -> str:
    return f"{control.reason}: {item.control}" if item.control else f"FAILED: {control.detail}"


def said_of(value: Mapping[str, str]) -> Said:
    """Return a report of a payload as a value; missing fields are empty."""
    cut = {name: str(value.get(name, ""))[:200] for name in ("outcome", "reason", "detail")}
    return Said(**cut)
