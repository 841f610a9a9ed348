"""A guest of a user-space kernel for one use: three boxes, their channels, and a watch.

    host ──starts──► gate ──agent──► kernel, guest ──files──► image
                     gate ──control──►

Each box gets its ends of the channels as descriptors; none can open another.

SECURITY
    Connects a kernel that a hostile guest may own with the gate that judges it.  The host
    listens to neither kernel nor files: only the gate's one answer comes back here.
"""

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from threegate.gates.tool_exec.era.messages import Channels
from threegate.host.run.heavy import channels as wiring
from threegate.host.run.heavy.engine import MIB
from threegate.host.run.heavy.machines import Conversation, OpenEngine, Place, Use, outlet, talk
from threegate.host.run.heavy.memory_watch import Watch, watching
from threegate.host.run.heavy.runsc import (
    Ends,
    Runsc,
    files_command,
    kernel_command,
    specification,
)
from threegate.sandbox.profiles import GIB, RUNSC_FILES, RUNSC_KERNEL

ADDRESSES_BYTES: Final = 4 * GIB  # of the kernel beyond its guest's memory


@dataclass(frozen=True, slots=True)
class Guest:
    """What a guest is made of."""

    runsc: Runsc
    tree: Path
    scratch: Path  # a directory of ours; nothing in it keeps a name
    cpus: int
    memory_mib: int


def converse(place: Place, guest: Guest, use: Use) -> tuple[Conversation, Watch]:
    """Start a guest and its gate, give the gate its message, and end all of them.

    Raises `GateUnavailable` if one of the boxes did not prove its lock.
    """
    watch = Watch(guest.memory_mib * MIB)
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


def _kernel(place: Place, guest: Guest, ends: Ends) -> OpenEngine:
    memory = guest.memory_mib * MIB
    # Narrower than what was signed: this guest's memory, in whole GiB, as the kernel takes it.
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


def _files(place: Place, guest: Guest, *, spec: int, files: int, mounts: int) -> OpenEngine:
    program = files_command(spec=spec, files=files, mounts=mounts)
    given = guest.runsc.files_given(guest.tree)
    return place.engine(RUNSC_FILES, given, program, keep_fds=(spec, files, mounts))
