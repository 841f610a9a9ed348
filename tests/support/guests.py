"""Real guests under QEMU's emulation: an image, a job in `/in`, and what it said.

The engine of the heavy lane has its own way to start guests.  This one has no box and no
limits: it shows what is in an image, whoever starts it.
"""

import ctypes
import io
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from threegate.base import erofs
from threegate.host.images.apt import Apt
from threegate.host.images.build import build
from threegate.host.images.choice import SHIPPED
from threegate.host.images.lock import parse_lock
from threegate.host.images.ours import Sources
from threegate.host.images.packages import Packages
from threegate.host.images.store import Image, Images
from threegate.host.settings import Settings

AGENT = Path(__file__).parent / "guest_agent"
SECONDS = 900  # emulation on a busy machine; only a guest that hangs takes this long


def packages() -> Packages:
    """Return the packages of this user: downloaded once, outside of the checkout."""
    return Packages(Settings.from_environment(os.environ).cache_home / "debs", Apt(os.environ))


def copied_packages(place: Path, *layers: str) -> None:
    """Put the locked packages of some layers into a directory, for another user."""
    kept = packages()
    lock = parse_lock(SHIPPED.read_bytes())
    needed = [item for item in lock.packages if item.layer in {"kernel", *layers}]
    kept.bring(needed)
    place.mkdir(parents=True, exist_ok=True)
    for item in needed:
        shutil.copy(kept.path(item), place)


def built(root: Path, *layers: str, agent: Path = AGENT) -> Image:
    """Return the image of the shipped lock, built by the program's own code."""
    usual = Sources.usual()
    sources = Sources(usual.init, agent)
    lock = parse_lock(SHIPPED.read_bytes())
    return build(lock, layers, Images(root), packages(), sources)


def build_here() -> None:
    """Build the base layer in a home of one's own from packages in a directory; print the digest.

    For another user, so that nothing of this one's rights is in it.
    """
    home, debs = Path(os.environ["HOME"]), Path(sys.argv[1])
    kept = Packages(home / "debs", Apt(os.environ))
    shutil.copytree(debs, kept.root)
    sources = Sources(Sources.usual().init, AGENT)
    lock = parse_lock(SHIPPED.read_bytes())
    print(build(lock, ("base",), Images(home / "images"), kept, sources).digest)


@dataclass(frozen=True)
class Ended:
    """How a guest ended: QEMU's exit code, what the job said, what was on the console."""

    code: int
    said: bytes
    console: bytes

    @property
    def json(self) -> Any:
        """The JSON document in the last line the job said; libraries may say something before."""
        try:
            return json.loads(self.said.rpartition(b"\n")[0].rpartition(b"\n")[2])
        except ValueError as exc:
            raise AssertionError(f"{self.said!r} {self.console!r}") from exc


def run(
    image: Image,
    job: str,
    place: Path,
    *,
    files: Mapping[str, bytes] | None = None,
    memory: int = 512,
    extra: tuple[str, ...] = (),
    seconds: int = SECONDS,
) -> Ended:
    """Boot an image with a job and wait for the machine to be off."""
    held = {"job.py": job.encode(), **(files or {})}
    place.mkdir(exist_ok=True)
    with (place / "in").open("wb") as out:
        layout = erofs.lay_out({name: erofs.ErofsFile(len(data)) for name, data in held.items()})
        erofs.write(layout, out, lambda name: io.BytesIO(held[name]))
    command = _command(image, place, memory) + list(extra)
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
    )
    said = (place / "said").read_bytes() if (place / "said").exists() else ended.stderr
    return Ended(ended.returncode, said, (place / "console").read_bytes())


def _command(image: Image, place: Path, memory: int) -> list[str]:
    disks = {f"layer{at}": path for at, path in enumerate(image.layers.values())}
    drives = [
        argument
        for serial, path in {**disks, "in": place / "in"}.items()
        for argument in (
            *("-drive", f"id={serial},file={path},format=raw,if=none,readonly=on"),
            *("-device", f"virtio-blk-device,drive={serial},serial={serial}"),
        )
    ]
    kernel = f"panic=-1 reboot=t quiet console=ttyS0 tsc_early_khz={_tsc_khz()} tsc=reliable"
    return [
        *("qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none"),
        *("-no-reboot", "-M", "microvm,acpi=on,isa-serial=on", "-accel", "tcg,thread=multi"),
        *("-cpu", "max,la57=off", "-m", str(memory), "-smp", "1"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
        *("-append", f"{kernel} no_timer_check", *drives),
        *("-serial", f"file:{place / 'console'}", "-device", "virtio-serial-device"),
        *("-chardev", f"file,id=said,path={place / 'said'}"),
        *("-device", "virtserialport,chardev=said,name=said"),
    ]


@cache
def _tsc_khz() -> int:
    """Return the rate of the time stamp counter, which a guest on a busy machine misjudges."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("0f3148c1e2204809d0c3"))  # rdtsc; shl rdx, 32; or rax, rdx; ret
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    first, start = int(counter()), time.perf_counter_ns()
    time.sleep(0.05)
    last, end = int(counter()), time.perf_counter_ns()
    return round((last - first) * 1_000_000 / (end - start))
