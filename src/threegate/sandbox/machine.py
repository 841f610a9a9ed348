"""The mechanisms of this machine for confinement, its processor and the rate of its clock.

A missing mechanism is noted if another one carries its promise alone; otherwise it is refused
with a sentence that says what to do.
"""

import ctypes
import hashlib
import mmap
import os
import pwd
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.sandbox import kernel
from threegate.sandbox.profiles import PROFILES, Profile
from threegate.sandbox.programs import find_program
from threegate.sandbox.syscalls import Architecture, architecture
from threegate.sandbox.view import Views

# Between the ranges that systemd and login tools hand out: nobody's by convention.
FIRST_GATE_UID: Final = 60600
PORTS_ABI: Final = 4
_CPUINFO: Final = Path("/proc/cpuinfo")
_IDENTIFYING: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
# The C library chooses its mathematical functions by these.
_MATH: Final = ("avx", "avx2", "fma", "fma4")


@dataclass(frozen=True, slots=True)
class Machine:
    """The mechanisms of one machine."""

    bwrap: str
    arch: Architecture
    landlock_abi: int
    mdwe: bool
    root: bool
    views: Views = field(default_factory=Views, compare=False, repr=False)

    def uid_for(self, profile: str) -> int | None:
        """Return the gate's own uid when started by root, else None."""
        return gate_uid(profile) if self.root else None

    def refuse_uncarried(self, profile: Profile) -> None:
        """Raise `GateUnavailable` if this kernel is too old for a promise of the profile.

        A gate with the host's network is held to its ports by Landlock alone.
        """
        if profile.host_network and self.landlock_abi < PORTS_ABI:
            detail = f"this kernel cannot hold {profile.name} to its ports: Landlock ABI "
            hint = (
                f"use Linux 6.7 or newer (Landlock ABI {PORTS_ABI}); other gates are not affected"
            )
            raise GateUnavailable(f"{detail}{self.landlock_abi}", code="TG-BOX-013", hint=hint)


def find_machine() -> Machine:
    """Return what this machine offers, or raise `GateUnavailable`."""
    bwrap = find_program("bwrap")
    if bwrap is None:
        hint = "install it: sudo apt install bubblewrap"
        raise GateUnavailable("bubblewrap is not installed", code="TG-BOX-010", hint=hint)
    version = kernel.abi()
    if version < 1:
        hint = "use a kernel with Landlock (5.13 or newer, `landlock` among the active LSMs)"
        raise GateUnavailable("the kernel has no Landlock", code="TG-BOX-011", hint=hint)
    return Machine(str(bwrap), architecture(), version, _has_mdwe(), os.geteuid() == 0)


def _has_mdwe() -> bool:
    try:
        kernel.prctl(kernel.PR_GET_MDWE)
    except OSError:
        return False  # before Linux 6.3; the filter on mmap and mprotect carries it alone
    return True


def gate_uid(profile: str) -> int:
    """Return the uid a gate gets when root starts it; refuse one that belongs to somebody."""
    uid = FIRST_GATE_UID + list(PROFILES).index(profile)
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid
    if owner.startswith("threegate"):
        return uid
    hint = "run threegate as an ordinary user, or free that uid"
    detail = f"uid {uid} of gate {profile} belongs to {owner}"
    raise GateUnavailable(detail, code="TG-BOX-012", hint=hint)


def reachable(path: Path, *, passable: dict[str, bool] | None = None) -> bool:
    """Tell whether any uid can open `path`: every directory above it lets others through.

    `passable` keeps what is known about directories while many paths are asked about.
    """
    known = {} if passable is None else passable
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
        wanted = 0o005 if stat.S_ISDIR(mode) else 0o004
        return mode & wanted == wanted and _lets_through(os.path.dirname(name), known)
    except OSError:
        return False


def _lets_through(directory: str, known: dict[str, bool]) -> bool:
    if directory not in known:
        above = os.path.dirname(directory)
        passes = bool(os.stat(directory).st_mode & 0o001)
        known[directory] = passes and (above == directory or _lets_through(above, known))
    return known[directory]


# The rate of the time stamp counter.  A guest that measures it compares it with an emulated timer,
# which goes wrong on a busy machine and lets the guest hang; so the guest gets the rate from us.

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ: Final = bytes.fromhex("0f3148c1e2204809d0c3")
_SECONDS: Final = 0.05
_TRIES: Final = 50  # for a look at both clocks that nobody interrupted


def tsc_khz() -> int:
    """Return the rate in kHz, measured for a twentieth of a second."""
    code = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with mmap.mmap(-1, mmap.PAGESIZE, prot=code) as page:
        page.write(_READ)
        start = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
        began, first = _both(read)
        time.sleep(_SECONDS)
        ended, last = _both(read)
        del read, start
    rate: float = (last - first) * 1_000_000 / (ended - began)
    return round(rate)


def _both(read: Callable[[], int]) -> tuple[float, int]:
    """Return both clocks at one moment; on a busy machine one reading may take milliseconds."""
    looks = []
    for _ in range(_TRIES):
        before, count, after = time.perf_counter_ns(), read(), time.perf_counter_ns()
        looks.append((after - before, (before + after) / 2, count))
    _, at, count = min(looks)
    return at, count


def processor_class(arch: str) -> str:
    """Return the architecture and those features of the processor that libm looks at."""
    flags = _cpuinfo().get("flags", "").split()
    return ",".join([arch, *(name for name in _MATH if name in flags)])


def processor_digest() -> str:
    """Return a digest over the model and features that a booted guest depends on."""
    found = _cpuinfo()
    shown = [(name, " ".join(sorted(found.get(name, "").split()))) for name in _IDENTIFYING]
    return hashlib.sha256(repr(shown).encode("utf-8")).hexdigest()


def _cpuinfo() -> dict[str, str]:
    try:
        first = _CPUINFO.read_text("utf-8", "replace").partition("\n\n")[0]
    except OSError:  # nothing is known, as on every such machine
        first = ""
    return dict(_pair(line) for line in first.splitlines())


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
