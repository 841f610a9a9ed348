"""What the job's processes see of the guest's files, and which of them they can execute.

A layer over Python's directories hides every file that no allowed package needs, from any program
in any language.  Only libraries and the programs of the profile are on mounts that can execute:
the kernel must allow the loader, and the loader then finds no other program.

The image records for every module the names that it imports when it is loaded, and those that its
functions import later (`host/images/bytecode.py` reads them from the compiled files).  Kept are:

  - every module of an allowed package;
  - what an allowed package imports, when it is loaded or later, and what those import when
    they are loaded, and so on; but no name that the profile denies;
  - modules in memory after the allowed packages were loaded, by any name.

SECURITY
    Runs as root inside the guest, in the mount namespace of the job, before any code of it.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping

from threegate.gates.tool_exec.era.guest import kernel
from threegate.gates.tool_exec.era.guest.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
)

STANDARD, OTHERS = "/usr/lib/python3.11", "/usr/lib/python3"
PLACES = (STANDARD, f"{STANDARD}/lib-dynload", f"{OTHERS}/dist-packages")
LAYERS, NOTHING = "/run/ring", "/run/ring/nothing"
ORIGINALS, FEWER = "/run/ring/programs", "/run/ring/fewer"
PROGRAMS, LIBRARIES = "/usr/bin", "/usr/lib"
CACHE = "__pycache__"
CLOSED = "/run/ring/closed"  # an executable file on a mount with noexec
WRITABLE = ("/dev", "/dev/shm", "/out", "/run", "/tmp")  # noqa: S108
AGENT = "/threegate"


def modules_below(place: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and dotted name of everything in a directory of modules, packages first."""
    with os.scandir(place) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = entry.name.partition(".")[0]
        if entry.name in (CACHE, "lib-dynload", "dist-packages"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield entry.path, f"{prefix}{entry.name}"
        elif entry.name.endswith((".py", ".so")):
            yield entry.path, f"{prefix}{name}".removesuffix(".__init__")
        elif not prefix and entry.name.endswith(".pth"):
            yield entry.path, entry.name  # Python runs it when a site is set up; never kept


def hidden(kept: Collection[str], allowed: Collection[str]) -> Iterator[str]:
    """Yield every path to hide; a directory that is hidden whole is named once."""
    packages = {name[:at] for name in kept for at in _dots(name)} | set(kept)
    for place in PLACES:
        if os.path.isdir(place):
            yield from _hidden(place, "", packages, kept, allowed)


def _dots(name: str) -> Iterator[int]:
    at = name.find(".")
    while at >= 0:
        yield at
        at = name.find(".", at + 1)


def _hidden(
    place: str,
    prefix: str,
    packages: Collection[str],
    kept: Collection[str],
    allowed: Collection[str],
) -> Iterator[str]:
    gone = set()
    for path, name in modules_below(place, prefix):
        if name.partition(".")[0] in allowed:
            continue
        if os.path.isdir(path):
            if name not in packages and not _is_data(path, prefix):
                yield path
            elif name in packages:
                yield from _hidden(path, f"{name}.", packages, kept, allowed)
        elif name not in kept:
            gone.add(os.path.basename(path).partition(".")[0])
            yield path
    cache = f"{place}/{CACHE}"
    for name in sorted(os.listdir(cache)) if os.path.isdir(cache) else ():
        if name.partition(".")[0] in gone:
            yield f"{cache}/{name}"


def _is_data(path: str, prefix: str) -> bool:
    """Tell whether a directory inside a kept package holds no code."""
    if not prefix:
        return path.endswith(("-info", ".egg-info"))
    return not any(name.endswith((".py", ".so")) for name in os.listdir(path))


def lay(paths: Collection[str]) -> None:
    """Hide these paths from the directories of Python."""
    for number, top in enumerate((STANDARD, OTHERS)):
        gone = [path.removeprefix(f"{top}/") for path in paths if path.startswith(f"{top}/")]
        layer = f"{LAYERS}/{number}"
        for path in gone:
            _white_out(layer, path)
        if not gone:
            continue
        flags = MS_RDONLY | MS_NOSUID | MS_NODEV
        kernel.mount("ring", top, "overlay", flags, f"lowerdir={layer}:{top}")


def _white_out(layer: str, path: str) -> None:
    above, _, name = path.rpartition("/")
    place = f"{layer}/{above}" if above else layer
    os.makedirs(place, exist_ok=True)
    os.mknod(f"{place}/{name}", stat.S_IFCHR | 0o600, os.makedev(0, 0))


def seal_in_place(binaries: Collection[str], paths: Collection[str]) -> None:
    """Do the same in a guest of a user-space kernel, which has one view for all processes.

    Such a kernel does not change an existing mount, so programs get a new one.  It maps code
    from any mount, so its loader runs any file.  Without programs the loader
    cannot be started; with some, there is nothing else in their directory for it to load.
    """
    closed = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    writable = MS_NOSUID | MS_NODEV | MS_NOEXEC
    kernel.mount("run", "/run", "tmpfs", writable, "mode=0755,size=8m")
    kernel.mount("shm", "/dev/shm", "tmpfs", writable, "mode=1777,size=64m")  # noqa: S108
    for place in (NOTHING, ORIGINALS):
        os.makedirs(place)
    os.close(os.open(CLOSED, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755))
    real = [os.path.realpath(path) for path in binaries]
    if not real:
        kernel.mount("ring", LIBRARIES, "overlay", closed, f"lowerdir={NOTHING}:{LIBRARIES}")
    lay(paths)
    kernel.mount(PROGRAMS, ORIGINALS, "", MS_BIND)
    lay_fewer(binaries)
    lay_programs()
    for path in real:
        kernel.mount(f"{ORIGINALS}/{os.path.relpath(path, PROGRAMS)}", path, "", MS_BIND)
    kernel.let_go(ORIGINALS)
    if os.path.isdir(AGENT):
        kernel.mount("none", AGENT, "tmpfs", closed, "mode=0555,size=4k")


def closed_in_place(binaries: Collection[str]) -> list[str]:
    """Return files that cannot be executed then; libraries can be if there are programs."""
    return [CLOSED] if binaries else [CLOSED, kernel.LIBRARY]


def lay_fewer(binaries: Collection[str]) -> None:
    """Write the layer that hides every program but these."""
    kept = {*binaries, *map(os.path.realpath, binaries)}
    os.makedirs(FEWER, exist_ok=True)
    for name in os.listdir(PROGRAMS):
        if f"{PROGRAMS}/{name}" not in kept:
            _white_out(FEWER, name)


def lay_programs() -> None:
    """Hide the other programs, so that they cannot be copied to another place either."""
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    kernel.mount("ring", PROGRAMS, "overlay", flags, f"lowerdir={FEWER}:{PROGRAMS}")


def seal(binaries: Collection[str], paths: Collection[str]) -> None:
    """Keep in view what the ring allows, and make nothing else executable."""
    plain = MS_NOSUID | MS_NODEV
    kernel.mount("/usr/lib", "/usr/lib", "", MS_BIND)
    kernel.remount("/usr/lib", MS_RDONLY | plain)
    lay(paths)
    for path in binaries:
        real = os.path.realpath(path)
        kernel.mount(real, real, "", MS_BIND)
        kernel.remount(real, MS_RDONLY | plain)
    if os.path.isdir(AGENT):
        kernel.mount("none", AGENT, "tmpfs", MS_RDONLY | plain | MS_NOEXEC, "mode=0555,size=4k")
    kernel.remount("/", MS_RDONLY | plain | MS_NOEXEC)
    for place in WRITABLE:
        kernel.remount(place, MS_NOSUID | MS_NOEXEC | (MS_NODEV if place != "/dev" else 0))


Record = Mapping[str, tuple[Collection[str], Collection[str]]]  # module -> at once, later
# Imports that no bytecode shows: by compiled code, or by a computed name.
LATE: Mapping[str, tuple[str, ...]] = {
    "datetime": ("_strptime",),
    "numpy": ("secrets",),
    "pandas": ("_sysconfigdata__x86_64-linux-gnu", "dateutil.easter"),
    "time": ("_strptime",),
}


def top_of(module: str) -> str:
    """Return the package a module belongs to."""
    return module.partition(".")[0]


def closure(
    record: Record,
    *,
    allowed: Collection[str],
    denied: Collection[str],
    loaded: Iterable[str],
    complete: bool = True,
) -> frozenset[str]:
    """Return every module that stays in view.

    `complete` says that the allowed packages are loaded.  If not, what they import when they are
    stays even by a name that is denied.
    """
    waiting = [name for name in record if top_of(name) in allowed or top_of(name) == "encodings"]
    waiting += [name for name in loaded if name in record]
    waiting += [name for top in allowed for name in LATE.get(top, ()) if name in record]
    kept = set(waiting)
    while waiting:
        module = waiting.pop()
        at_once, on_call = record[module]
        later = on_call if top_of(module) in allowed else ()
        for names, strict in ((at_once, complete), (later, True)):
            found = {part for name in names for part in _modules(record, name)} - kept
            found -= {name for name in found if strict and top_of(name) in denied}
            kept |= found
            waiting += found
    return frozenset(kept)


def _modules(record: Record, name: str) -> Iterator[str]:
    """Yield the modules in a dotted name: all that exist of `a`, `a.b`, `a.b.c`."""
    at = 0
    while at >= 0:
        at = name.find(".", at + 1)
        found = name if at < 0 else name[:at]
        if found not in record:
            return
        yield found
