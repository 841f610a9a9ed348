"""A machine in which acceleration works, whatever this one offers: emulated, with SVM.

The outer guest starts from our own image and kernel.  It loads KVM, gets a disk with this
very Python, this checkout and QEMU at the places where they are here, and runs tests of the
heavy lane in it: their guests are accelerated by a processor that is itself emulated.  That
shows what works, and nothing about speed.
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.support import guests
from tests.support.boxes import repository
from threegate.host.images.choice import SHIPPED
from threegate.host.images.kernel import needs_of
from threegate.host.images.lock import parse_lock
from threegate.host.images.recipe import KERNEL
from threegate.host.images.store import Image
from threegate.host.run.heavy.engine import ACCELERATOR, BINARY, FIRMWARE

PROCESSOR: Final = "EPYC-v2,+svm,+npt"
MEMORY_MIB: Final = 5120
SECONDS: Final = 3 * 3600  # only a guest that hangs takes this long
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
    kept = guests.packages()
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
) -> guests.Ended:
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
    return guests.run(
        outer, job, place / "outer", files=given, memory=MEMORY_MIB, extra=extra, seconds=SECONDS
    )
