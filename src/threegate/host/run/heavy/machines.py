"""One machine from its start to its end: the engine's box, the gate's box, and their channels.

SECURITY
    Starts the two boxes of a run and sees both to their end, whatever happens in them.  The
    engine is handed read-only descriptors only, but for a pipe where it writes a snapshot.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from threegate.base.errors import disk_errors
from threegate.gates.tool_exec.era.messages import SNAPSHOT_NAME, Channels, HeavyAsk
from threegate.host.open_box import open_box
from threegate.host.run.heavy import channels as wiring
from threegate.host.run.heavy.engine import (
    IN_DISK_BYTES,
    KVM,
    OVERHEAD_BYTES,
    Handed,
    Qemu,
    Shape,
    command,
)
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import ENGINE, TOOL_HEAVY, Profile
from threegate.sandbox.service import Companion
from threegate.sandbox.session import WaitingGate
from threegate.sandbox.supervise import Ended

GRACE_SECONDS: Final = 30.0


OpenEngine = Callable[[], Companion]


@dataclass(frozen=True, slots=True)
class Place:
    """Where machines run: what confines them here, and the policy that signed their boxes."""

    machine: Machine
    bundle: Bundle

    def engine(
        self,
        profile: Profile,
        given: Mapping[str, str],
        program: tuple[str, ...],
        *,
        keep_fds: tuple[int, ...],
        cpus: tuple[int, ...] = (),
    ) -> OpenEngine:
        """Return what starts one box of an engine."""
        return partial(
            open_box,
            Companion,
            self.machine,
            self.bundle,
            profile,
            given,
            program=program,
            keep_fds=keep_fds,
            cpus=cpus,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """What a machine is made of, apart from what differs between runs."""

    qemu: Qemu
    kernel: Path
    initramfs: Path
    layers: tuple[Path, ...]
    scratch: Path  # a directory of ours; nothing in it has a name


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the gate said in the end, and how both boxes ended."""

    message: bytes
    gate: Ended
    engine: Ended
    evidence: tuple[Evidence, ...]  # of the gate, of the boxes of its engine


@dataclass(frozen=True, slots=True)
class Use:
    """What one machine is for: where it begins, and what it is handed."""

    ask: Callable[[Channels, int], HeavyAsk]  # given the gate's channels and its disk of inputs
    seconds: float
    snapshot: int | None = None  # to resume from; None: boot
    inputs: int | None = None  # a disk of inputs, read-only
    snapshot_to: int | None = None  # where the engine writes one
    patience_seconds: float = 0.0  # for an engine that fails to say why
    begun: Callable[[Companion], None] = lambda _: None  # is told the engine, which it may kill
    has_gateway: bool = False  # the guest has a second channel
    gateway: int | None = None  # the engine's end of it; None: it leads nowhere


def converse(place: Place, parts: Parts, shape: Shape, use: Use, *, tsc_khz: int) -> Conversation:
    """Start a machine and its gate, give the gate its message, and end both.

    Raises `GateUnavailable` if one of the boxes did not prove its lock.
    """
    with ExitStack() as idle, ExitStack() as ends:
        agent, engine_agent = wiring.pair(ends, ends)
        monitor, engine_monitor = wiring.pair(ends, ends)
        with disk_errors("open the image"):  # another command may have removed it
            layers = tuple(wiring.read_only(ends, path) for path in parts.layers)
        inputs = use.inputs if use.inputs is not None else no_inputs(ends, parts.scratch)
        port = outlet(use, idle)
        handed = Handed(engine_agent, engine_monitor, layers, inputs, use.snapshot, port)
        if use.snapshot_to is None:
            wiring.greet_engine(monitor)
        else:
            wiring.give_engine(monitor, name=SNAPSHOT_NAME, fd=use.snapshot_to)
        engine = _engine(place, parts, shape, handed, tsc_khz=tsc_khz)
        # Found by a clone the moment it goes on, while the gate is still being confined.
        greeted = "" if use.snapshot is None else wiring.greet_guest(agent)
        return talk(place, (engine,), Channels(agent, monitor, greeted), use, ends=ends)


def talk(
    place: Place,
    engines: Sequence[OpenEngine],
    channels: Channels,
    use: Use,
    *,
    ends: ExitStack,
    watched: Callable[[Companion], AbstractContextManager[object]] = nullcontext,
) -> Conversation:
    """Start the boxes of an engine and a gate that listens to it; end them all.

    `ends` holds the descriptors that the boxes were handed; they are closed on the way.  The
    first box is the engine itself, which `watched` may watch while the gate works.
    """
    with ExitStack() as boxes:
        started = [boxes.enter_context(start()) for start in engines]
        use.begun(started[0])
        kept = [channels.agent, channels.monitor, *([] if use.inputs is None else [use.inputs])]
        gate = open_box(WaitingGate, place.machine, place.bundle, TOOL_HEAVY, keep_fds=(*kept,))
        try:
            ends.close()  # whoever of them ends first, the others must hear it
            for engine in started:
                engine.ready()
            asked = use.ask(channels, use.inputs or 0).to_bytes()
        except BaseException:
            gate.discard()
            raise
        seconds = use.seconds + GRACE_SECONDS
        with watched(started[0]):
            answer = gate.serve(asked, deadline_seconds=seconds)
        with answer.message as message:
            said = message.read()
        ended = [engine.end(patience_seconds=use.patience_seconds) for engine in started]
    return Conversation(
        said, answer.ended, ended[0], (gate.evidence, *(engine.evidence for engine in started))
    )


def _engine(
    place: Place, parts: Parts, shape: Shape, handed: Handed, *, tsc_khz: int
) -> OpenEngine:
    # Narrower than what was signed: this guest's memory, and no accelerator it does not use.
    profile = replace(
        ENGINE,
        memory_bytes=min(ENGINE.memory_bytes, shape.memory_bytes + OVERHEAD_BYTES),
        devices=ENGINE.devices if shape.engine == KVM else (),
    )
    fds = (handed.agent, handed.monitor, *handed.layers, handed.inputs)
    resumed = tuple(fd for fd in (handed.snapshot, handed.gateway) if fd is not None)
    given = parts.qemu.given(kernel=parts.kernel, initramfs=parts.initramfs)
    program = command(shape, handed, tsc_khz=tsc_khz)
    return place.engine(profile, given, program, keep_fds=(*fds, *resumed))


def outlet(use: Use, idle: ExitStack) -> int | None:
    """Return the engine's end of the channel to a gateway, if its guest has one."""
    if not use.has_gateway or use.gateway is not None:
        return use.gateway
    return wiring.pair(idle, idle)[1]


def no_inputs(ends: ExitStack, scratch: Path) -> int:
    """Return a disk with nothing on it."""
    with disk_errors("make a disk without a name in the cache"), ExitStack() as stack:
        fd = wiring.nameless(stack, scratch)
        os.ftruncate(fd, IN_DISK_BYTES)
        return wiring.reopened(ends, fd)
