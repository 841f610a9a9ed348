"""runsc (gVisor) as this machine has it, and the exact commands that make a guest of it.

A kernel in user space, and not a microVM: what a job calls is answered by a program in one of
our boxes.  That program runs the job's processes under `ptrace`; their files come from a
second one, in another box, which sees the unpacked image and nothing else.  There is no
network in either, and both are started by us: runsc's own start makes namespaces, mounts and
a root, which our boxes have made already.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import GateUnavailable
from threegate.gates.tool_exec.era.messages import GUEST_NAME
from threegate.host.run.heavy.engine import MIB, NO_ENGINE
from threegate.sandbox.view import LOWEST_ADDRESS

RUNSC: Final = "runsc"
KIND: Final = "user-space kernel, not a microVM"
BINARY: Final = Path("/usr/bin/runsc")
AGENT: Final = ("/usr/bin/python3", "-I", "-S", "-B", "/threegate/agent/__main__.py", "0")
# What the agent needs to make places for its job and to give up root; the job has none.
_CAPABILITIES: Final = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"),
    *("CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"),
)
_FLAGS: Final = (
    *("--network=none", "--platform=ptrace", "--ignore-cgroups", "--root=/"),
    *("--host-uds=none", "--host-fifo=none", "--oci-seccomp=false"),
)


@dataclass(frozen=True, slots=True)
class Runsc:
    """The engine's file."""

    binary: Path = BINARY

    def digest(self) -> str:
        """Return its digest."""
        return _digest(str(self.binary.resolve()))

    def kernel_given(self) -> dict[str, str]:
        """Return the slots of the kernel's profile."""
        return {"engine": str(self.binary), "lowest-address": LOWEST_ADDRESS}

    def files_given(self, tree: Path) -> dict[str, str]:
        """Return the slots of the profile that shows the files."""
        return {"engine": str(self.binary), "image": str(tree)}


@cache  # twenty megabytes, once a command
def _digest(name: str) -> str:
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


def find_runsc(binary: Path = BINARY) -> Runsc:
    """Return the engine, or raise `GateUnavailable`."""
    found = Runsc(binary)
    if not found.binary.exists():
        hint = "install it: sudo apt install --no-install-recommends runsc"
        raise GateUnavailable(f"{found.binary} is not here", code=NO_ENGINE, hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class Ends:
    """The descriptors a user-space kernel starts with."""

    control: int  # listens
    spec: int
    started: int  # where it tells that it has started
    files: int  # to the process that shows the image
    mounts: int  # what that process made of the mounts
    streams: tuple[int, int, int]  # the agent's


def kernel_command(ends: Ends, *, cpus: int, memory_mib: int) -> tuple[str, ...]:
    """Return the program and its arguments, as they stand inside the kernel's box."""
    return (
        *(str(BINARY), *_FLAGS, "boot", "--bundle=/", "--setup-root=false", "--apply-caps=false"),
        *(f"--controller-fd={ends.control}", f"--spec-fd={ends.spec}"),
        *(f"--start-sync-fd={ends.started}", f"--io-fds={ends.files}"),
        *(f"--mounts-fd={ends.mounts}", *(f"--stdio-fds={fd}" for fd in ends.streams)),
        *(f"--cpu-num={cpus}", f"--total-memory={memory_mib * MIB}", GUEST_NAME),
    )


def files_command(*, spec: int, files: int, mounts: int) -> tuple[str, ...]:
    """Return the program and its arguments, as they stand inside the box that shows files."""
    # It serves what the specification names as root, and changes its own root to that first;
    # the flag keeps it from looking for a root that runsc's own start would have made.
    return (
        *(str(BINARY), *_FLAGS, "--TESTONLY-unsafe-nonroot", "gofer", "--bundle=/"),
        *("--setup-root=false", "--apply-caps=false"),
        *(f"--spec-fd={spec}", f"--io-fds={files}", f"--mounts-fd={mounts}"),
    )


def specification() -> bytes:
    """Return the guest in the form runsc reads: our agent on a read-only root, and no more."""
    value: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(AGENT),
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {
                kind: list(_CAPABILITIES) for kind in ("bounding", "effective", "permitted")
            },
        },
        "root": {"path": "/image", "readonly": True},
        "hostname": GUEST_NAME,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev/shm",  # noqa: S108  # the guest's own
                "type": "tmpfs",
                "source": "shm",
                "options": ["mode=1777", "size=64m"],
            },
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]
        },
    }
    return json.dumps(value).encode()
