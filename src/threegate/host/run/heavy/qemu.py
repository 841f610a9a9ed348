"""QEMU as an engine: its files, the exact command of a machine, and snapshots of booted guests.

A machine has a processor, memory, read-only disks and one serial channel, and a second channel if
its run has a gateway.  It has no network device, display, clock chip, shared folder or foreign
monitor.

SECURITY
    QEMU is handed read-only descriptors only, and a pipe where it writes a snapshot.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.gates.run_gateway import messages as gateway
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.guest_messages import IN_SERIAL, PORT_NAME
from threegate.gates.tool_exec.era.messages import (
    SNAPSHOT_NAME,
    Channels,
    Prepare,
    Probe,
)
from threegate.host.images.store import Image
from threegate.host.run.heavy import channels as wiring
from threegate.host.run.heavy.backend import (
    EMULATION,
    KVM,
    MIB,
    NO_ENGINE,
    NOT_USABLE,
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
    no_inputs,
    outlet,
    ran_of,
    talk,
)
from threegate.host.run.heavy.snapshots import Snapshot, Snapshots
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import processor_digest, tsc_khz
from threegate.sandbox.profiles import ENGINE

BINARY: Final = Path("/usr/bin/qemu-system-x86_64")
ACCELERATOR: Final = Path("/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so")
FIRMWARE: Final = Path("/usr/share/qemu")
CODE_CACHE_MIB: Final = 256  # of an emulator; its usual one is a gigabyte
OVERHEAD_BYTES: Final = 1536 * MIB  # address space of the engine beyond its guest's memory
_USED: Final = ("qboot.rom", "bios-microvm.bin", "linuxboot_dma.bin", "pvh.bin", "kvmvapic.bin")
BOOT_SECONDS: Final = {KVM: 60, EMULATION: 600}
WAKE_SECONDS: Final = {KVM: 20, EMULATION: 180}
SNAPSHOT_SPARE_BYTES: Final = 64 * 1024 * 1024  # a stream is little more than the memory


@dataclass(frozen=True, slots=True)
class MachineShape:
    """How large a machine is, and what runs its processor."""

    engine: str
    cpus: int
    memory_mib: int

    @property
    def memory_bytes(self) -> int:
        """The guest's memory."""
        return self.memory_mib * MIB


@dataclass(frozen=True, slots=True)
class Handed:
    """The descriptors an engine starts with."""

    agent: int
    monitor: int
    layers: tuple[int, ...]  # the lowest first
    inputs: int
    snapshot: int | None = None  # to resume from; None: boot
    gateway: int | None = None  # for a guest whose ring has one


@dataclass(frozen=True, slots=True)
class Qemu:
    """The engine's files."""

    binary: Path = BINARY
    accelerator: Path = ACCELERATOR
    firmware: Path = FIRMWARE

    def given(self, *, kernel: Path, initramfs: Path) -> dict[str, str]:
        """Return the slots of the engine's profile."""
        return {
            "engine": str(self.binary),
            "accelerator": str(self.accelerator),
            "firmware": str(self.firmware),
            "kernel": str(kernel),
            "initramfs": str(initramfs),
        }

    def digest(self) -> str:
        """Return the digest over everything of the engine that takes part."""
        parts = [self.binary, self.accelerator, *(self.firmware / name for name in _USED)]
        return _digest(tuple(str(path.resolve()) for path in parts))


@cache  # twenty megabytes, once a command
def _digest(names: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for name in names:
        if os.path.exists(name):
            data = Path(name).read_bytes()
            found.update(hashlib.sha256(data).digest())
    return found.hexdigest()


def find_qemu() -> Qemu:
    """Return the engine, or raise `GateUnavailable`."""
    found = Qemu()
    for path in (found.binary, found.accelerator, found.firmware / "pvh.bin"):
        if not path.exists():
            hint = "install it: sudo apt install --no-install-recommends qemu-system-x86"
            raise GateUnavailable(f"{path} is not here", code=NO_ENGINE, hint=hint)
    return found


def command(shape: MachineShape, handed: Handed, *, tsc_khz: int) -> tuple[str, ...]:
    """Return the program and its arguments, as they stand inside the engine's box."""
    return (
        str(BINARY),
        *("-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"),
        *("-L", str(FIRMWARE)),
        *("-M", "microvm,acpi=on,rtc=off,isa-serial=off,auto-kernel-cmdline=off"),
        *_processor(shape),
        *("-m", f"{shape.memory_mib}M", "-smp", str(shape.cpus)),
        *(
            _boot(shape, tsc_khz)
            if handed.snapshot is None
            else ("-incoming", f"fd:{handed.snapshot}")
        ),
        *_disks(handed),
        *("-chardev", f"socket,id=agent,fd={handed.agent}", "-device", "virtio-serial-device"),
        *("-device", f"virtserialport,chardev=agent,name={PORT_NAME}"),
        *_gateway(handed.gateway),
        *("-chardev", f"socket,id=qmp,fd={handed.monitor}", "-mon", "chardev=qmp,mode=control"),
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    )


def _gateway(fd: int | None) -> Sequence[str]:
    """Return a second port, for a run that may ask some hosts; others have none."""
    if fd is None:
        return ()
    return (
        *("-chardev", f"socket,id=gateway,fd={fd}"),
        *("-device", f"virtserialport,chardev=gateway,name={gateway.PORT_NAME}"),
    )


def _processor(shape: MachineShape) -> Sequence[str]:
    if shape.engine == KVM:
        return ("-accel", "kvm", "-cpu", "host")
    accel = f"tcg,thread=multi,tb-size={CODE_CACHE_MIB}"
    return ("-accel", accel, "-cpu", "max,la57=off")


def _boot(shape: MachineShape, tsc_khz: int) -> Sequence[str]:
    words = ["panic=-1", "reboot=t", "quiet", "console=null"]
    if shape.engine == EMULATION:  # see `sandbox/machine.py`
        words += [f"tsc_early_khz={tsc_khz}", "tsc=reliable", "no_timer_check"]
    kernel = ("-kernel", "/in/kernel", "-initrd", "/in/initramfs")
    return (*kernel, "-append", " ".join(words))


def _disks(handed: Handed) -> Sequence[str]:
    named = {f"layer{number}": fd for number, fd in enumerate(handed.layers)}
    words: list[str] = []
    for number, (name, fd) in enumerate({**named, IN_SERIAL: handed.inputs}.items(), 1):
        disk = f"id={name},file=/dev/fdset/{number},format=raw,if=none,readonly=on"
        words += ["-add-fd", f"fd={fd},set={number}"]
        words += ["-drive", f"{disk},file.locking=off"]
        words += ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    return words


@dataclass(frozen=True, slots=True)
class Parts:
    """What a machine is made of, apart from what differs between runs."""

    qemu: Qemu
    kernel: Path
    initramfs: Path
    layers: tuple[Path, ...]
    scratch: Path  # a directory of ours; nothing in it has a name


def converse(
    place: EnginePlace, parts: Parts, shape: MachineShape, use: Use, *, tsc_khz: int
) -> Conversation:
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
        # A clone reads this as soon as it resumes, while the gate is still being confined.
        greeted = "" if use.snapshot is None else wiring.greet_guest(agent)
        return talk(place, (engine,), Channels(agent, monitor, greeted), use, ends=ends)


def _engine(
    place: EnginePlace, parts: Parts, shape: MachineShape, handed: Handed, *, tsc_khz: int
) -> OpenEngine:
    # Narrower than the signed profile: this guest's memory, and no accelerator it does not use.
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


class QemuBackend:
    """QEMU's microvm machine, with one of its accelerators."""

    def __init__(
        self, name: str, *, place: EnginePlace, qemu: Qemu, image: Image, cache: Path
    ) -> None:
        self.name = name
        self.place, self._qemu, self.image = place, qemu, image
        self._templates = Snapshots(cache / "templates")
        self._found: dict[Want, Snapshot] = {}
        self._khz: int | None = None
        self._compared = False

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Boot a guest once and keep a snapshot; one that does not answer is rebuilt."""
        if (known := self._found.get(want)) is not None and known.is_probed:
            return None  # compared before, by this command
        made_from = self._made_from(want)
        template = self._templates.find(made_from)
        if template is None or not template.is_probed:
            self._compare()
        if template is not None:
            try:
                return self._prove(want, template)
            except GateUnavailable as exc:
                if exc.code != NOT_USABLE:
                    raise
                say(f"the kept snapshot does not answer ({self.name})")
                self._templates.drop(template)
        say(f"booting a guest of {want.memory_mib} MiB for a snapshot, once ({self.name})")
        most = self._shape(want).memory_bytes + SNAPSHOT_SPARE_BYTES
        template = self._templates.make(made_from, lambda to: self._boot(want, to), most_bytes=most)
        return self._prove(want, template)

    def _compare(self) -> None:
        """Compare the image with its digest: for a new snapshot, and once since the last boot."""
        if not self._compared:
            self.image.compare()
            self._compared = True

    def _prove(self, want: Want, template: Snapshot) -> None:
        self._found[want] = template
        if not template.is_probed:
            self.probe(want)
            template.note_probed()

    def probe(self, want: Want) -> tuple[str, ...]:
        """Resume a clone and have it answer a nonce that it cannot know."""
        shape, seconds = self._said_shape(want), WAKE_SECONDS[self.name]
        with ExitStack() as stack:
            snapshot = self._template(want).open(stack)
            use = Use(
                lambda ends, _: Probe(ends, want.ring, seconds, shape),
                seconds,
                snapshot,
                patience_seconds=PATIENCE_SECONDS,
            )
            talk = self._converse(want, use)
        answer = answered(talk, tool_heavy.parse_probed, engine=self.name)
        return answer.probes

    def run(self, want: Want, asked: Asked) -> HeavyRun:
        """Resume a clone for one job, and end it with the job."""
        template = self._template(want)
        seconds = WAKE_SECONDS[self.name]
        job = job_for(asked, self._said_shape(want), seconds)
        with ExitStack() as stack:
            snapshot = template.open(stack)
            disk = input_disk(stack, asked.inputs, self._templates.root) if asked.inputs else None
            whole = seconds + asked.wall_ms / 1000
            use = Use(job, whole, snapshot, disk, begun=asked.begun, gateway=asked.gateway)
            talk = self._converse(want, use)
        return ran_of(talk, template.sha256)

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""
        other = copy(self)
        other.place = EnginePlace(self.place.machine, bundle)
        return other

    def close(self) -> None:
        """Nothing is open between two runs."""
        self._found.clear()

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""
        return {
            "engine": self.name,
            "engine-sha256": self._qemu.digest(),
            "guest-kernel": self.image.manifest.kernel_version,
            "guest-kernel-sha256": self.image.manifest.files["kernel"].sha256,
            "image-sha256": self.image.digest,
        }

    def _boot(self, want: Want, to: int) -> tuple[str, ...]:
        seconds = BOOT_SECONDS[self.name]
        use = Use(
            lambda ends, _: Prepare(ends, want.imports, want.ring, seconds),
            seconds,
            snapshot_to=to,
            patience_seconds=PATIENCE_SECONDS,
        )
        talk = self._converse(want, use)
        return answered(talk, tool_heavy.parse_prepared, engine=self.name).imports

    def _converse(self, want: Want, use: Use) -> Conversation:
        layers = tuple(self.image.layers[name] for name in want.layers)
        scratch = self._templates.root
        with disk_errors("make a disk for a machine"):
            scratch.mkdir(parents=True, exist_ok=True)
        parts = Parts(self._qemu, self.image.kernel, self.image.initramfs, layers, scratch)
        use = replace(use, has_gateway=want.has_gateway)
        return converse(self.place, parts, self._shape(want), use, tsc_khz=self._rate())

    def _rate(self) -> int:
        if self._khz is None:
            self._khz = tsc_khz()
        return self._khz

    def _template(self, want: Want) -> Snapshot:
        if want not in self._found:
            self.prepare(want)
        return self._found[want]

    def _shape(self, want: Want) -> MachineShape:
        return MachineShape(self.name, want.cpus, want.memory_mib)

    def _said_shape(self, want: Want) -> tool_heavy.GuestShape:
        return tool_heavy.GuestShape(want.cpus, self._shape(want).memory_bytes)

    def _made_from(self, want: Want) -> dict[str, Any]:
        layers = tuple(range(len(want.layers)))
        words = command(self._shape(want), Handed(0, 0, layers, 0), tsc_khz=0)
        return {
            "command_sha256": hashlib.sha256("\0".join(words).encode()).hexdigest(),
            "cpus": want.cpus,
            "engine": self.name,
            "engine_sha256": self._qemu.digest(),
            "image": self.image.digest,
            "imports": list(want.imports),
            "layers": list(want.layers),
            "memory_mib": want.memory_mib,
            # A guest keeps the processor it was booted on, and the clock rate it was given.
            "processor": processor_digest(),
            "tsc_100mhz": round(self._rate() / 100_000),
            "ring": want.ring.digest,
        }
