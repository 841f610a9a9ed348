"""Guests of the heavy lane with both boxes around them, and the same guests in a bare QEMU.

The bare one is started with the very same words, image and snapshot, and the same code
speaks to its guest.  What differs is what is measured: two boxes, their proofs, and the
approval that is checked in one of them.  A third one is not even asked what it looks like, nor
given randomness of its own: the job is the first thing it hears.
"""

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.support.heavy import Task, asked_for, backend_for, built, request_for, rules
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import job as jobs
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.gate import task_for
from threegate.gates.tool_exec.era.machine import GuestMachine
from threegate.gates.tool_exec.era.messages import (
    Channels,
    HeavyAsk,
    HeavyJob,
    HeavyOutcome,
    parse_outcome,
)
from threegate.host.run.heavy import channels
from threegate.host.run.heavy.backend import (
    EMULATION,
    Asked,
    Conversation,
    EnginePlace,
    Use,
    Want,
    no_inputs,
)
from threegate.host.run.heavy.lane import want_of
from threegate.host.run.heavy.qemu import (
    Handed,
    MachineShape,
    Parts,
    QemuBackend,
    command,
    converse,
    find_qemu,
)
from threegate.sandbox.machine import find_machine, tsc_khz

ENGINE: Final = EMULATION  # works on every machine
WAKE_SECONDS: Final = 900
INSIDE: Final = {"/in/kernel": "kernel", "/in/initramfs": "initramfs"}


@dataclass(frozen=True)
class Bench:
    """One guest, its snapshot, and a small program that is run in it."""

    backend: QemuBackend
    want: Want
    task: Task
    asked: Asked
    khz: int

    @property
    def shape(self) -> MachineShape:
        return MachineShape(ENGINE, self.want.cpus, self.want.memory_mib)

    def parts(self) -> Parts:
        image = self.backend.image
        layers = tuple(image.layers[name] for name in self.want.layers)
        scratch = self.backend._templates.root
        return Parts(find_qemu(), image.kernel, image.initramfs, layers, scratch)

    def warm(self) -> None:
        """Run the program as `threegate run` does: a clone, an approval, an outcome."""
        self._check(self.backend.run(self.want, self.asked).outcome)

    def probe(self) -> None:
        """Resume a clone that proves its ring and answers, as a push has a waiting one do."""
        self.backend.probe(self.want)

    def cold(self) -> None:
        """Run the program in a guest that is booted for it; the lane itself never does."""
        self._check(parse_outcome(Untrusted(self.conversation(self.ask, None).message)))

    def bare_warm(self) -> None:
        """Resume the same snapshot without any box."""
        with ExitStack() as stack:
            self._bare(stack, self.backend._template(self.want).open(stack))

    def bare_job(self) -> None:
        """Resume the same snapshot without any box, and ask nothing of it before the job."""
        with ExitStack() as stack:
            self._bare(stack, self.backend._template(self.want).open(stack), wake=False)

    def bare_cold(self) -> None:
        """Boot the same image without any box."""
        with ExitStack() as stack:
            self._bare(stack, None)

    def doing(self, code: str) -> "Bench":
        """Return the same guest with another program."""
        task = replace(self.task, code=code)
        return replace(self, task=task, asked=asked_for(task, rules()))

    def conversation(
        self, ask: Callable[[Channels, int], HeavyAsk], snapshot: int | None
    ) -> Conversation:
        use = Use(ask, WAKE_SECONDS + self.asked.wall_ms / 1000, snapshot)
        return converse(
            EnginePlace(find_machine(), rules()), self.parts(), self.shape, use, tsc_khz=self.khz
        )

    def ask(self, ends: Channels, disk: int) -> HeavyAsk:
        shape = tool_heavy.GuestShape(self.want.cpus, self.shape.memory_bytes)
        asked = self.asked
        parts = (asked.bundle, asked.request, asked.approval, asked.signature)
        return HeavyJob(ends, shape, WAKE_SECONDS, (), disk, *parts)

    def _bare(self, stack: ExitStack, snapshot: int | None, *, wake: bool = True) -> None:
        agent, engine_agent = channels.pair(stack, stack)
        monitor, engine_monitor = channels.pair(stack, stack)
        parts = self.parts()
        layers = tuple(channels.read_only(stack, path) for path in parts.layers)
        inputs = no_inputs(stack, parts.scratch)
        handed = Handed(engine_agent, engine_monitor, layers, inputs, snapshot)
        given = {"kernel": str(parts.kernel), "initramfs": str(parts.initramfs)}
        words = command(self.shape, handed, tsc_khz=self.khz)
        fds = (engine_agent, engine_monitor, *layers, inputs, *((snapshot,) if snapshot else ()))
        channels.greet_engine(monitor)
        argv = [given[INSIDE[word]] if word in INSIDE else word for word in words]
        with subprocess.Popen(argv, pass_fds=fds, stdin=subprocess.DEVNULL) as engine:
            try:
                self._check(
                    self._talk(
                        GuestMachine(Channels(agent, monitor)), wake=wake, ring=snapshot is None
                    )
                )
            finally:
                engine.kill()

    def _talk(self, machine: GuestMachine, *, wake: bool, ring: bool) -> HeavyOutcome:
        if ring:  # a snapshot has it
            machine.boot((), self.want.ring, time.monotonic() + WAKE_SECONDS)
        if wake:
            machine.wake(time.monotonic() + WAKE_SECONDS)
        task, code, bounds = task_for(rules(), request_for(self.task))
        return jobs.run(machine, task, code, bounds)

    @staticmethod
    def _check(outcome: HeavyOutcome) -> None:
        assert (outcome.exit, outcome.stdout) == ("ok", b"hello\n"), outcome


def bench_for(place: Path, code: str, memory_mib: int, *layers: str) -> Bench:
    """Return a guest with these layers, its snapshot made."""
    backend = backend_for(built(place, *layers), cache_home=place)
    task = Task(code).limited(memory_bytes=memory_mib * 2**20)
    want = want_of(rules(), request_for(task), backend.image.manifest)
    backend.prepare(want)
    return Bench(backend, want, task, asked_for(task, rules()), tsc_khz())
