"""The Monty worker's own confinement: a list of system calls; any other ends the process.

The worker is started by `native/launcher.c` inside the tool-lite box, whose namespaces,
Landlock rules and filter it inherits.  The header both C files include is made from the
data here, so there is one list and one assembler.
"""

import errno
import json
import struct
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.sandbox.filters import ALLOW, CLONE_THREAD, KILL, CallRule, Test, assemble, error
from threegate.sandbox.payload import BINARY, LOCK
from threegate.sandbox.profiles import MIB
from threegate.sandbox.syscalls import Architecture

NAME: Final = "monty-worker"
MEMORY_BYTES: Final = 1024 * MIB
CPU_SECONDS: Final = 120
OPEN_FILES: Final = 64

# The interpreter of pydantic-monty-runtime 1.4.0 for glibc; another build is another program.
MONTY_SHA256: Final = {
    "x86_64": "4479e7306fdf0c6a2a567aa139150ac47c75ab3c0138ec2c4efa010c382a87e0",
    "aarch64": "d6ddbeb67d00187176fa5d6508d34e64721869cc3b2c2f32211b2ff4125e7361",
}

# libm chooses its functions by the processor: with FMA, sin and exp end in another last bit.
# Without these features every x86_64 processor gets the same ones.  aarch64 has FMA always.
MATH: Final = {
    "x86_64": "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4",
    "aarch64": "GLIBC_TUNABLES=",
}

# What the worker's runtime needs once it is linked; found by running Monty's own tests.
ALLOWED: Final = (
    "brk",
    "clock_gettime",
    "close",
    "exit",
    "exit_group",
    "futex",
    "getpid",
    "getrandom",
    "gettid",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "poll",
    "prlimit64",
    "read",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "sigaltstack",
    "tgkill",
    "write",
)
# Asked for and refused without harm: files, and new threads by the newer call.
REFUSED: Final = {
    "access": errno.EACCES,
    "getdents64": errno.EACCES,
    "lseek": errno.EACCES,
    "newfstatat": errno.EACCES,
    "openat": errno.EACCES,
    "prctl": errno.EPERM,
    "pread64": errno.EACCES,
    "readlink": errno.EACCES,
    "statx": errno.EACCES,
    "clone3": errno.ENOSYS,
}
_NATIVE: Final = Path(__file__).parent / "native"
BUILT: Final = _NATIVE / "bin"
DIGESTS: Final = "digests.json"  # of what was compiled there


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files of a Monty worker, and their digests for the evidence."""

    launcher: Path
    lock: Path
    binary: Path

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file."""
        return {
            name: sha256(path.read_bytes()).hexdigest()
            for name, path in (
                ("launcher", self.launcher),
                ("lock", self.lock),
                ("monty", self.binary),
            )
        }

    def checked_digests(self, arch: str) -> dict[str, str]:
        """Return the digests, or raise `GateUnavailable` if they are not the expected ones."""
        found = self.digests()
        if found["monty"] != MONTY_SHA256.get(arch):
            hint = "run `make setup`: it installs the interpreter this version was tested with"
            detail = "the Monty binary is not the one this version was tested with"
            raise GateUnavailable(detail, code="TG-BOX-031", hint=hint)
        if {name: found[name] for name in ("launcher", "lock")} != _compiled(self.launcher.parent):
            hint = "install ThreeGate again; in a checkout, run `make setup`"
            detail = "the launcher is not the one that was compiled with this version"
            raise GateUnavailable(detail, code="TG-BOX-032", hint=hint)
        return found

    def given(self) -> dict[str, str]:
        """Return the slots of the tool-lite profile."""
        return {"launcher": str(self.launcher), "lock": str(self.lock), "worker": str(self.binary)}


def _compiled(place: Path) -> object:
    try:
        return json.loads((place / DIGESTS).read_bytes())
    except (OSError, ValueError):
        return None


def find_worker() -> WorkerFiles:
    """Return the worker's files, or raise `GateUnavailable` if they were not built."""
    binary = _installed_binary()
    files = (BUILT / "launcher", BUILT / "lock.so")
    if binary is None or not binary.exists() or not all(path.exists() for path in files):
        hint = "install the package `threegate` with pip; in a checkout, run `make setup`"
        raise GateUnavailable("the Monty worker is not installed", code="TG-BOX-030", hint=hint)
    return WorkerFiles(files[0], files[1], binary)


def _installed_binary() -> Path | None:
    from importlib import metadata  # slow, and most who import this module want the data only

    try:
        files = metadata.files("pydantic-monty-runtime") or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name == "monty"]
    return found[0].resolve() if found else None


def worker_rules() -> list[CallRule]:
    """Return the worker's filter; a call without a rule ends the process."""
    # Its own limits only: by number it could reach those of the gate that started it.
    rules = [CallRule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),))]
    rules += [CallRule(call, ALLOW) for call in ALLOWED if call != "prlimit64"]
    rules += [CallRule(call, error(number)) for call, number in REFUSED.items()]
    rules.append(CallRule("clone", KILL, ((Test(0, bits=CLONE_THREAD), ALLOW),)))
    return rules


def header(arch: Architecture) -> str:
    """Return the C header with the worker's limits, places and filter."""
    program = assemble(worker_rules(), arch, default=KILL)
    rows = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    cells = ",".join(f"{{{code:#x},{yes},{no},{value:#x}}}" for code, yes, no, value in rows)
    return (
        f'#define WORKER_BINARY "{BINARY}"\n'
        f'#define WORKER_LOCK "{LOCK}"\n'
        f'#define WORKER_MATH "{MATH[arch.name]}"\n'
        f"#define WORKER_MEMORY_BYTES {MEMORY_BYTES}UL\n"
        f"#define WORKER_CPU_SECONDS {CPU_SECONDS}\n"
        f"#define WORKER_OPEN_FILES {OPEN_FILES}\n"
        f"#define WORKER_FILTER {{{cells}}}\n"
    )
