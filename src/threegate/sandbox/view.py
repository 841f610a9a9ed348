"""The files a gate sees: interpreter, its standard library, the libraries both need, our own code.

Every file has a fixed place inside, independent of its place on the host:

    /rt/bin/python3   /rt/lib/python3.N     interpreter and standard library, without what
                                            installs packages
    /gate/threegate/...                     the gate's own package and what it imports
    /usr/lib/...                            exactly the shared libraries these need

There is no shell, no `/proc`, no home, no package installer.

Making a view asks the dynamic loader about every native module: 5 to 30 ms, as long as a whole
start.  So `Views` keeps a view while each file in it, the loader's cache and the searched
directories are unchanged: same device, inode, size and times.
"""

import os
import re
import struct
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import threegate
from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.sandbox.profiles import Profile

RUNTIME: Final = "/rt"
LIBRARIES: Final = "/rt/lib"  # for libraries that lie where only this host has a directory
GATE: Final = "/gate"
LOWEST_ADDRESS: Final = "/proc/sys/vm/mmap_min_addr"  # the only file of /proc that a box may read
CANARY: Final = "/canary"  # a readable file that Landlock does not allow: the proof that it works
# `__pycache__`: compiling these modules at every start would cost as much as locking.
BASE: Final = (*("__init__.py", "__pycache__", "base", "gates/__init__.py", "sandbox"),)

# Parts of the standard library that fetch, build or install things, or are of no use in a box.
HIDDEN: Final = (
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "dist-packages",
    "test",
    "tkinter",
    "turtledemo",
    "venv",
)
_ABSENT: Final = re.compile(rb"error while loading shared libraries: ([^:\n]+): cannot open")
_NATIVE_BASE: Final = ("_ctypes", "resource", "_struct")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host and its path inside; an empty source hides the path."""

    source: str
    inside: str


@dataclass(frozen=True, slots=True)
class View:
    """All mounts of a gate, in order, its interpreter, and its devices that exist here."""

    mounts: tuple[Mount, ...]
    interpreter: str
    loader: str
    loader_link: str
    devices: tuple[str, ...]


def view_of(profile: Profile, extra_programs: tuple[Path, ...] = ()) -> View:
    """Return the view of a profile, without the files given at start."""
    python = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    stdlib = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})).resolve()
    inner = f"{RUNTIME}/lib/{version}"
    interpreter = f"{RUNTIME}/bin/{version}"
    mounts = [Mount(str(python), interpreter), Mount(str(stdlib), inner)]
    mounts += [Mount("", f"{inner}/{name}") for name in HIDDEN if (stdlib / name).is_dir()]
    packages, natives = _packages(profile)
    mounts += packages
    loader = _interpreter_of(python)
    libraries = _libraries([python, *natives, *extra_programs], loader)
    mounts += [Mount(source, inside) for inside, source in sorted(libraries.items())]
    # One that is not here is not missed: a gate with less than its profile allows still starts.
    devices = tuple(name for name in profile.devices if Path("/dev", name).exists())
    return View(tuple(mounts), interpreter, str(Path(loader).resolve()), loader, devices)


def _packages(profile: Profile) -> tuple[list[Mount], list[Path]]:
    root = Path(threegate.__file__).resolve().parent
    names = (*BASE, *(place for name in profile.packages for place in _places(name)))
    mounts = [
        Mount(str(root / name), f"{GATE}/threegate/{name}")
        for name in names
        if (root / name).exists()
    ]
    natives: list[Path] = []
    for module in (*_NATIVE_BASE, *profile.modules):
        natives += _native_parts(module)
    for library in profile.libraries:
        place = _installed(library)
        mounts.append(Mount(str(place), f"{GATE}/{place.name}"))
        parts = sorted(place.rglob("*.so")) if place.is_dir() else [place]
        natives += [part for part in parts if part.suffix == ".so"]
    mounts.append(Mount(str(root / "__init__.py"), CANARY))
    return mounts, natives


def _places(package: str) -> list[str]:
    """Return the directory of a package, after the `__init__.py` of those it lies in."""
    above, _, _ = package.rpartition(".")
    # `gates/__init__.py` is in every view.
    parents = [f"{above.replace('.', '/')}/__init__.py"] if "." in above else []
    return [*parents, package.replace(".", "/")]


def _installed(library: str) -> Path:
    """Return the directory, or the single file, of an installed package."""
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        hint = "run `make setup`"
        raise GateUnavailable(f"{library} is not installed", code="TG-BOX-004", hint=hint)
    origin = Path(spec.origin).resolve()
    return origin.parent if spec.submodule_search_locations else origin


def _native_parts(module: str) -> list[Path]:
    """Return the shared objects that importing a standard module may load."""
    parts = {
        "asyncio": (
            "_asyncio",
            "_socket",
            "select",
            "_ssl",
            "math",
            "_contextvars",
            "_posixsubprocess",
        ),
        "encodings.idna": ("unicodedata",),
        "http.client": (
            "_socket",
            "_ssl",
            "select",
            "math",
            "zlib",
            "_datetime",
            "_bisect",
            "_random",
            "_sha512",
            "_hashlib",
            "array",
            "binascii",
            "_random",
        ),
        "json": ("_json",),
        "socket": ("_socket", "select", "math", "array"),
        "ssl": ("_ssl", "_socket", "select", "math", "binascii"),
    }.get(module, (module,))
    found = []
    for part in parts:
        spec = find_spec(part)
        if spec is not None and spec.origin and spec.origin.endswith(".so"):
            found.append(Path(spec.origin))
    return found


def _interpreter_of(program: Path) -> str:
    """Return the dynamic loader an ELF program names."""
    with program.open("rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            raise GateUnavailable(f"{program} is not a 64-bit program", code="TG-BOX-002")
        offset, size, count = (
            struct.unpack_from("<Q", head, 32)[0],
            *struct.unpack_from("<HH", head, 54),
        )
        file.seek(offset)
        table = file.read(size * count)
        for number in range(count):
            kind = struct.unpack_from("<I", table, number * size)[0]
            if kind == 3:  # PT_INTERP
                at, length = (
                    struct.unpack_from("<Q", table, number * size + 8)[0],
                    struct.unpack_from("<Q", table, number * size + 32)[0],
                )
                file.seek(at)
                return file.read(length).rstrip(b"\0").decode()
    raise GateUnavailable(f"{program} has no dynamic loader", code="TG-BOX-002")


def _libraries(objects: list[Path], loader: str) -> dict[str, str]:
    """Return the shared libraries of ELF objects: place inside -> file on the host."""
    found: dict[str, str] = {}
    for item in dict.fromkeys(objects):
        done = subprocess.run(  # the loader itself, listing and not running
            [loader, "--list", str(item)], capture_output=True, env={}, check=False, timeout=10
        )
        absent = _ABSENT.search(done.stderr)
        if absent is not None:
            detail = f"{item.name} needs {visible(absent[1].decode('utf-8', 'replace'))}"
            hint = "install the package that holds it; `make setup` does so on Debian"
            raise GateUnavailable(f"{detail}, which is not here", code="TG-BOX-005", hint=hint)
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            name, arrow, rest = line.strip().partition(" => ")
            path = rest.rpartition(" (")[0]
            if arrow and path.startswith("/"):
                found[f"{_directory(path)}/{name}"] = os.path.realpath(path)
    return found


def _directory(path: str) -> str:
    """Return the directory of a library inside; a private path would reveal names of the host."""
    directory = os.path.realpath(os.path.dirname(path))
    return directory if directory.startswith("/usr/") else LIBRARIES


_LOADER_CACHE: Final = "/etc/ld.so.cache"

Key = tuple[Profile, tuple[Path, ...]]
Identity = tuple[int, int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class _Kept:
    view: View
    files: dict[str, Identity]


@dataclass(frozen=True, slots=True)
class Views:
    """The views of one process of the host."""

    _kept: dict[Key, _Kept] = field(default_factory=dict)

    def of(self, profile: Profile, programs: tuple[Path, ...] = ()) -> View:
        """Return the view of a profile, rebuilt if anything in it changed."""
        kept = self._kept.get((profile, programs))
        if kept is not None and all(_identity(p) == i for p, i in kept.files.items()):
            return kept.view
        view = view_of(profile, programs)
        files = {path: _identity(path) for path in _named(view, programs)}
        self._kept[profile, programs] = _Kept(view, files)
        return view


def _named(view: View, programs: tuple[Path, ...]) -> set[str]:
    sources = {mount.source for mount in view.mounts if mount.source} | {view.loader}
    # A name that appears in one of these directories could change what is found.
    above = {os.path.dirname(source) for source in sources}
    return sources | above | {str(program) for program in programs} | {_LOADER_CACHE}


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)
