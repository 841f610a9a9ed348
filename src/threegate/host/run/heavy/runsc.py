"""runsc (gVisor) as an engine: a user-space kernel, and not a microVM.

    host ──starts──► gate ──agent──► kernel, guest ──files──► image
                     gate ──control──►

A program in one sandbox answers the system calls of a job and runs its processes under `ptrace`.  A
second program, in another sandbox, serves their files; it sees the unpacked image and nothing else.
Neither has a network.  We start both, because runsc's own start makes namespaces, mounts and a root
that our sandboxes have already.  Each sandbox gets its ends of the channels as descriptors.  There
is no snapshot: each guest is started for its one job.  The image is unpacked once.

SECURITY
    Connects a kernel that a hostile guest may own with the gate that judges it.  The host reads
    neither kernel nor file server, only the gate's one answer.
"""

import hashlib
import json
import os
import random
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Self

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.messages import GUEST_NAME, Channels, HeavyOutcome, Probe
from threegate.host.images.contents import tree_of
from threegate.host.images.store import Image
from threegate.host.run.heavy import channels as wiring
from threegate.host.run.heavy.backend import (
    MIB,
    NO_ENGINE,
    PATIENCE_SECONDS,
    Asked,
    Conversation,
    EnginePlace,
    HeavyRun,
    OpenEngine,
    Say,
    Use,
    Want,
    answered,
    input_disk,
    job_for,
    outlet,
    ran_of,
    talk,
)
from threegate.host.run.heavy.memory_watch import MemoryWatch, watching
from threegate.policy.bundle import Bundle
from threegate.sandbox.profiles import GIB, RUNSC_FILES, RUNSC_KERNEL
from threegate.sandbox.view import LOWEST_ADDRESS

RUNSC: Final = "runsc"
KIND: Final = "user-space kernel, not a microVM"
BINARY: Final = Path("/usr/bin/runsc")
AGENT: Final = ("/usr/bin/python3", "-I", "-S", "-B", "/threegate/agent/__main__.py", "0")
# The agent needs these to make directories for its job and to give up root; the job has none.
_CAPABILITIES: Final = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"),
    *("CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"),
)
_FLAGS: Final = (
    *("--network=none", "--platform=ptrace", "--ignore-cgroups", "--root=/"),
    *("--host-uds=none", "--host-fifo=none", "--oci-seccomp=false"),
)
ADDRESSES_BYTES: Final = 4 * GIB  # of the kernel beyond its guest's memory
START_SECONDS: Final = 120


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
    started: int  # where it reports its start
    files: int  # to the process that shows the image
    mounts: int  # the mounts as that process made them
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


@dataclass(frozen=True, slots=True)
class Guest:
    """What a guest is made of."""

    runsc: Runsc
    tree: Path
    scratch: Path  # a directory of ours; nothing in it keeps a name
    cpus: int
    memory_mib: int


def converse(place: EnginePlace, guest: Guest, use: Use) -> tuple[Conversation, MemoryWatch]:
    """Start a guest and its gate, give the gate its message, and end all of them.

    Raises `GateUnavailable` if one of the boxes did not prove its lock.
    """
    watch = MemoryWatch(guest.memory_mib * MIB)
    with ExitStack() as idle, ExitStack() as ends:
        agent, stream = wiring.pair(ends, ends)
        control, accepting = wiring.listener(ends, ends)
        files, showing = wiring.pair(ends, ends)
        read, write = wiring.pipe(ends, ends)
        specs = [wiring.document(ends, guest.scratch, specification()) for _ in range(2)]
        port = outlet(use, idle)
        streams = (stream, wiring.nothing(ends) if port is None else port, wiring.nothing(ends))
        handed = Ends(accepting, specs[0], wiring.nothing(ends), files, read, streams)
        engines = (
            _kernel(place, guest, handed),
            _files(place, guest, spec=specs[1], files=showing, mounts=write),
        )
        channels = Channels(agent, control)
        said = talk(place, engines, channels, use, ends=ends, watched=partial(watching, watch))
    return said, watch


def _kernel(place: EnginePlace, guest: Guest, ends: Ends) -> OpenEngine:
    memory = guest.memory_mib * MIB
    # Narrower than the signed profile: this guest's memory, in whole GiB as the kernel takes it.
    profile = replace(
        RUNSC_KERNEL,
        memory_bytes=min(RUNSC_KERNEL.memory_bytes, memory + ADDRESSES_BYTES),
        file_bytes=min(RUNSC_KERNEL.file_bytes, -(-memory // GIB) * GIB),
    )
    fds = (ends.control, ends.spec, ends.started, ends.files, ends.mounts, *ends.streams)
    here = sorted(os.sched_getaffinity(0))
    return place.engine(
        profile,
        guest.runsc.kernel_given(),
        kernel_command(ends, cpus=guest.cpus, memory_mib=guest.memory_mib),
        keep_fds=fds,
        cpus=tuple(random.sample(here, min(guest.cpus, len(here)))),  # any will do
    )


def _files(place: EnginePlace, guest: Guest, *, spec: int, files: int, mounts: int) -> OpenEngine:
    program = files_command(spec=spec, files=files, mounts=mounts)
    given = guest.runsc.files_given(guest.tree)
    return place.engine(RUNSC_FILES, given, program, keep_fds=(spec, files, mounts))


class RunscBackend:
    """gVisor's kernel, with the image as a directory."""

    name: str = RUNSC

    def __init__(self, *, place: EnginePlace, runsc: Runsc, image: Image, cache: Path) -> None:
        self.place, self._runsc, self.image = place, runsc, image
        self._scratch = cache / "runsc"
        self._trees: dict[tuple[str, ...], tuple[Path, str]] = {}

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Have the image unpacked, and a guest of it answer."""
        if want.layers not in self._trees:
            say(f"unpacking the image, once, and comparing it ({self.name}: {KIND})")
            with disk_errors("make a place for guests"):
                self._scratch.mkdir(parents=True, exist_ok=True)
            self._trees[want.layers] = tree_of(self.image, want.layers)
        self.probe(want)

    def probe(self, want: Want) -> tuple[str, ...]:
        """Start a guest and have it answer a nonce that it cannot know."""
        shape = _shape(want)
        use = Use(
            lambda ends, _: Probe(ends, want.ring, START_SECONDS, shape),
            START_SECONDS,
            patience_seconds=PATIENCE_SECONDS,
        )
        talk, _ = self._converse(want, use)
        return answered(talk, tool_heavy.parse_probed, engine=self.name).probes

    def run(self, want: Want, asked: Asked) -> HeavyRun:
        """Start a guest for one job, and end it with the job."""
        with ExitStack() as stack:
            disk = input_disk(stack, asked.inputs, self._scratch) if asked.inputs else None
            seconds = START_SECONDS + asked.wall_ms / 1000
            job = job_for(asked, _shape(want), START_SECONDS)
            use = Use(job, seconds, inputs=disk, begun=asked.begun, gateway=asked.gateway)
            talk, watch = self._converse(want, use)
        ran = ran_of(talk, self._tree(want)[1])
        largest = max(ran.peak_memory_bytes, watch.largest_bytes)
        return replace(ran, outcome=_judged(ran.outcome, watch), peak_memory_bytes=largest)

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""
        other = copy(self)
        other.place = EnginePlace(self.place.machine, bundle)
        return other

    def close(self) -> None:
        """Nothing is open between two runs."""
        self._trees.clear()

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""
        return {
            "engine": self.name,
            "engine-kind": KIND.replace(" ", "-").replace(",", ""),
            "engine-sha256": self._runsc.digest(),
            "image-sha256": self.image.digest,
        }

    def _converse(self, want: Want, use: Use) -> tuple[Conversation, MemoryWatch]:
        tree, _ = self._tree(want)
        guest = Guest(self._runsc, tree, self._scratch, want.cpus, want.memory_mib)
        return converse(self.place, guest, replace(use, has_gateway=want.has_gateway))

    def _tree(self, want: Want) -> tuple[Path, str]:
        if want.layers not in self._trees:
            self.prepare(want)
        return self._trees[want.layers]


def _shape(want: Want) -> tool_heavy.GuestShape:
    return tool_heavy.GuestShape(want.cpus, want.memory_mib * MIB, "process")


def _judged(outcome: HeavyOutcome, watch: MemoryWatch) -> HeavyOutcome:
    """Return the outcome of a job, corrected if the memory watch ended it."""
    if watch.over and outcome.exit == "crashed":
        return replace(outcome, exit="limit:memory", note=None)
    return outcome
