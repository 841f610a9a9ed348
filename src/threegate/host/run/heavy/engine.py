"""QEMU as this machine has it, and the exact command that makes a machine of it.

The machine has a processor, memory, read-only disks and one serial channel, and a second
one if its run has a gateway.  There is no network device, no display, no clock chip, no shared
folder and no monitor but ours.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.gates.run_gateway import messages as gateway
from threegate.gates.tool_exec.era.guest_messages import IN_SERIAL, PORT_NAME

KVM: Final = "qemu-kvm"
EMULATION: Final = "qemu-emulation"
NO_ENGINE: Final = "TG-ERA-001"
BINARY: Final = Path("/usr/bin/qemu-system-x86_64")
ACCELERATOR: Final = Path("/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so")
FIRMWARE: Final = Path("/usr/share/qemu")
MIB: Final = 1024 * 1024
IN_DISK_BYTES: Final = 4 * 1024 * MIB + 64 * MIB  # the same for all: a snapshot knows its size
CODE_CACHE_MIB: Final = 256  # of an emulator; its usual one is a gigabyte
OVERHEAD_BYTES: Final = 1536 * MIB  # address space of the engine beyond its guest's memory
_USED: Final = ("qboot.rom", "bios-microvm.bin", "linuxboot_dma.bin", "pvh.bin", "kvmvapic.bin")


@dataclass(frozen=True, slots=True)
class Shape:
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


def command(shape: Shape, handed: Handed, *, tsc_khz: int) -> tuple[str, ...]:
    """Return the program and its arguments, as they stand inside the engine's box."""
    return (
        str(BINARY),
        *("-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"),
        *("-L", str(FIRMWARE)),
        *("-M", "microvm,acpi=on,rtc=off,isa-serial=off,auto-kernel-cmdline=off"),
        *_processor(shape),
        *("-m", f"{shape.memory_mib}M", "-smp", str(shape.cpus)),
        *(_boot(shape, tsc_khz) if handed.snapshot is None else _resume(handed.snapshot)),
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


def _processor(shape: Shape) -> Sequence[str]:
    if shape.engine == KVM:
        return ("-accel", "kvm", "-cpu", "host")
    accel = f"tcg,thread=multi,tb-size={CODE_CACHE_MIB}"
    return ("-accel", accel, "-cpu", "max,la57=off")


def _boot(shape: Shape, tsc_khz: int) -> Sequence[str]:
    words = ["panic=-1", "reboot=t", "quiet", "console=null"]
    if shape.engine == EMULATION:  # see `sandbox/machine.py`
        words += [f"tsc_early_khz={tsc_khz}", "tsc=reliable", "no_timer_check"]
    kernel = ("-kernel", "/in/kernel", "-initrd", "/in/initramfs")
    return (*kernel, "-append", " ".join(words))


def _resume(snapshot: int) -> Sequence[str]:
    return ("-incoming", f"fd:{snapshot}")


def _disks(handed: Handed) -> Sequence[str]:
    named = {f"layer{number}": fd for number, fd in enumerate(handed.layers)}
    words: list[str] = []
    for number, (name, fd) in enumerate({**named, IN_SERIAL: handed.inputs}.items(), 1):
        disk = f"id={name},file=/dev/fdset/{number},format=raw,if=none,readonly=on"
        words += ["-add-fd", f"fd={fd},set={number}"]
        words += ["-drive", f"{disk},file.locking=off"]
        words += ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    return words
