"""Real guests under QEMU's emulation: an image, a job in `/in`, and what it said.

The engine of the heavy lane has its own way to start guests.  This one has no box and no
limits: it shows what is in an image, whoever starts it.
"""

import compileall
import ctypes
import io
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support import heavy
from tests.support.boxes import repository
from threegate.base import erofs
from threegate.host.images.build import build
from threegate.host.images.choice import Sources
from threegate.host.images.kernel import needs_of
from threegate.host.images.lock import SHIPPED, parse_lock
from threegate.host.images.packages import Apt, Packages
from threegate.host.images.recipe import KERNEL
from threegate.host.images.store import Image, Images
from threegate.host.run.heavy.qemu import ACCELERATOR, BINARY, FIRMWARE
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


# -- A machine in which acceleration works, whatever this one offers: emulated, with SVM.
# The outer guest starts from our own image and kernel. It loads KVM, gets a disk with this very
# Python, this checkout and QEMU at the places where they are here, and runs tests of the heavy
# lane in it: their guests are accelerated by a processor that is itself emulated. That shows what
# works, and nothing about speed.

PROCESSOR: Final = "EPYC-v2,+svm,+npt"
MEMORY_MIB: Final = 5120
NESTED_SECONDS: Final = 3 * 3600  # only a guest that hangs takes this long
ACCELERATORS: Final = ("irqbypass", "kvm", "kvm-amd")
GROUP: Final = 993
IMAGES: Final = "/images"
_PROGRAMS: Final = ("/usr/bin/bwrap", "/usr/bin/ssh-keygen", "/usr/bin/strace")
_ETC: Final = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "os-release")
# Of this Python and its libraries: what is large and no part of the lane.
_LEFT_OUT: Final = re.compile(
    r"(?:test|tests|idlelib|tkinter|ensurepip|config-.*|lib2to3|turtledemo|atheris.*|xllamacpp.*"
    r"|mypy.*|.*__mypyc.*|babel|ruff.*|.*fuzzer.*|pip|setuptools|numpy.*|playwright.*|lxml"
    r"|trafilatura.*|pypdfium2.*|.*\.a)"
)
_ENVIRONMENT: Final = {
    "HOME": "/tmp/home",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",
    "PATH": "/usr/bin:/bin",
    "PYTHONUNBUFFERED": "1",
}
_MOUNTS: Final = ("dev", "proc", "sys", "tmp", "run")

# Run by the outer guest's own Python, as root: from here on everything is as on this machine.
INSIDE: Final = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)

def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def mount(source, place, kind, flags=0):
    must(libc.mount(source.encode(), place.encode(), kind.encode(), ctypes.c_ulong(flags), None))

for name in {modules!r}:
    fd = os.open(f"/in/{{name}}", os.O_RDONLY)
    must(libc.syscall(313, fd, b"", 0))  # finit_module
(disk,) = [n for n in os.listdir("/sys/block")
           if n.startswith("vd") and open(f"/sys/block/{{n}}/serial").read().strip() == "world"]
os.mkdir("/run/world")
mount(f"/dev/{{disk}}", "/run/world", "erofs", 1)
for kind, place in (("devtmpfs", "dev"), ("proc", "proc"), ("sysfs", "sys"),
                    ("tmpfs", "tmp"), ("tmpfs", "run"), ("tmpfs", "dev/shm")):
    mount(kind, f"/run/world/{{place}}", kind)
os.chdir("/run/world")
must(libc.mount(b".", b"/", None, ctypes.c_ulong(8192), None))  # MS_MOVE
os.chroot(".")
os.chdir("/")
os.chown("/dev/kvm", 0, {group})  # as udev does it for a group of users
os.chmod("/dev/kvm", 0o660)
os.chmod("/tmp", 0o1777)
os.mkdir("/tmp/home")
os.chdir({place!r})
os.execve({words[0]!r}, {words!r}, {environment!r})
"""


def python_files() -> Iterator[Path]:
    """Yield every file of this Python, of its libraries and of this checkout that is needed."""
    base = Path(sys.base_prefix)
    stdlib = Path(sysconfig.get_path("stdlib"))
    yield from (base / "bin").glob("python3*")
    yield from base.glob("lib/libpython3*")
    yield from _below(stdlib, skip=("site-packages",))
    venv = Path(sys.prefix)
    if venv != base:
        yield venv / "pyvenv.cfg"
        yield from (venv / "bin").glob("python*")
    yield from _below(Path(sysconfig.get_path("purelib")))
    root = repository()
    yield root / "pyproject.toml"
    yield from (path for name in ("src", "tests") for path in _below(root / name, all_of=True))


def _below(place: Path, *, skip: tuple[str, ...] = (), all_of: bool = False) -> Iterator[Path]:
    for top, directories, names in os.walk(place):
        if not all_of:
            directories[:] = [n for n in directories if n not in skip and not _left_out(n)]
        yield from (Path(top, name) for name in names if all_of or not _left_out(name))


def _left_out(name: str) -> bool:
    return _LEFT_OUT.fullmatch(name) is not None


def _libraries(files: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that these files are linked to."""
    found: set[Path] = set()
    listed = [str(path) for path in files]
    for start in range(0, len(listed), 100):
        told = subprocess.run(
            ["ldd", *listed[start : start + 100]], capture_output=True, text=True, check=False
        ).stdout
        found |= {Path(name) for name in re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.MULTILINE)}
    return found


def _put(path: Path, root: Path) -> None:
    """Put a file of this machine at the same place below `root`, links as links."""
    target = root / path.relative_to("/")
    if target.is_symlink() or target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        to = os.readlink(path)
        target.symlink_to(to)
        _put((path.parent / to).absolute().resolve(), root)
        return
    try:
        os.link(path, target)  # with its time: a compiled file counts only beside that
    except OSError:
        shutil.copy2(path, target)


def world(place: Path, images: Iterable[Image]) -> Path:
    """Return a disk with what the lane and its tests need, at the places they have here."""
    root = place / "world"
    for name in ("bin", "sbin", "lib", "lib64"):
        root.mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    compileall.compile_dir(repository() / "src", quiet=1)
    files = list(python_files())
    programs = [*map(Path, _PROGRAMS), BINARY, ACCELERATOR, Path("/usr/bin/dash").resolve()]
    programs = [path for path in programs if path.exists()]
    linked = [path for path in files if path.suffix == ".so" or ".so." in path.name]
    shared = _libraries([*programs, *linked, Path(sys.executable).resolve()])
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    for path in (*files, *programs, *_below(FIRMWARE, all_of=True)):
        _put(path, root)
    for path in (*shared, loader):
        _put_library(path, root)
    for name in _ETC:
        _put(Path("/etc", name), root)
    for image in images:
        shutil.copytree(image.place, root / IMAGES[1:] / image.digest)
    for name in _MOUNTS:
        (root / name).mkdir()
    (root / "usr/bin/sh").symlink_to("dash")
    disk = place / "world.erofs"
    subprocess.run(["mkfs.erofs", str(disk), str(root)], capture_output=True, check=True)
    shutil.rmtree(root)
    return disk


def _put_library(path: Path, root: Path) -> None:
    joined = Path("/usr", path.relative_to("/"))  # /lib is /usr/lib
    _put(joined if joined.exists() and not str(path).startswith("/usr") else path, root)


def modules(place: Path) -> dict[str, bytes]:
    """Return the modules of KVM, out of the very package the image's kernel is from."""
    kept = packages()
    (package,) = parse_lock(SHIPPED.read_bytes()).of_layer(KERNEL)
    kept.bring([package])
    subprocess.run(["dpkg-deb", "-x", str(kept.path(package)), str(place)], check=True)
    found = {path.stem: path.read_bytes() for path in place.rglob("*.ko")}
    for name in ACCELERATORS:
        needed = [word.replace("_", "-") for word in needs_of(found[name])]
        assert set(needed) <= set(ACCELERATORS), (name, needed)
    return {name: found[name] for name in ACCELERATORS}


def run_nested(
    place: Path, outer: Image, images: Iterable[Image], words: tuple[str, ...], **environment: str
) -> Ended:
    """Run our own Python with these words in a machine that can accelerate; return its output."""
    given = modules(place / "package")
    disk = world(place, images)
    job = INSIDE.format(
        modules=ACCELERATORS,
        place=str(repository()),
        group=GROUP,
        words=[sys.executable, *words],
        environment={**_ENVIRONMENT, **environment},
    )
    extra = (
        *("-cpu", PROCESSOR),
        *("-drive", f"id=world,file={disk},format=raw,if=none,readonly=on"),
        *("-device", "virtio-blk-device,drive=world,serial=world"),
    )
    return run(
        outer,
        job,
        place / "outer",
        files=given,
        memory=MEMORY_MIB,
        extra=extra,
        seconds=NESTED_SECONDS,
    )


# -- Guests that are owned from the start: their agent, root inside, is the attacker.
# Each is the real agent with one part changed, so that it boots, wakes up and takes its job like
# any other; what it then does is whatever root in a guest can do.

RUN = "def run(port: Port, job: Message, executor: Interpreter | Commands) -> None:"


def owned(act: str) -> str:
    """Return an agent that does this in place of the job; `port` and `job` are at hand."""
    text = heavy.AGENT.read_text("utf-8").replace(
        "import struct\n", "import socket\nimport struct\n", 1
    )
    assert RUN in text
    body = "\n".join(f"    {line}" for line in act.strip().splitlines())
    attack = f"{RUN}\n    port.hear()\n{body}\n\n\n{RUN.replace('run', 'not_used', 1)}"
    return text.replace(RUN, attack)


# What the job's code says to do: one image serves every attack that needs root in the guest.
ANY = owned("""
import traceback
kind, code = 0, job["argv"][1] if job["argv"] else ""
try:
    exec(CODE, globals() | {"port": port, "job": job})
except BaseException:
    port.say(STDERR, traceback.format_exc().encode())
    port.tell(EXIT, {"code": 1, "oom": False, "signal": 0})
""").replace("    port.hear()\n", "    CODE = port.hear()[1]\n")
