"""From a profile to the exact command that starts it: pure functions, pinned by golden tests.

The second stage (`stage2`) gets its orders as plain lines, because a JSON parser would cost as
much as the rest of the start.  They hold no secret: every user can read them in the process list.

Outside `sandbox/` only `host/open_box.py` may import this module: see `pyproject.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.sandbox.engine_calls import narrow_filter
from threegate.sandbox.filters import FAMILIES, FORBIDDEN, RESOLVER_PORT, assemble, rules_for
from threegate.sandbox.profiles import Profile
from threegate.sandbox.syscalls import Architecture
from threegate.sandbox.view import CANARY, GATE, LIBRARIES, LOWEST_ADDRESS, RUNTIME, View


@dataclass(frozen=True, slots=True)
class Path:
    """A path in the sandbox and the Landlock rights on it: r(ead), w(rite), x(execute), i(octl)."""

    path: str
    rights: str


@dataclass(frozen=True, slots=True)
class Orders:
    """Instructions for the second stage of one start."""

    profile: str
    payload: str  # module:function, or `exec` with a program
    program: tuple[str, ...]
    modules: tuple[str, ...]
    keep_fds: tuple[int, ...]
    limits: tuple[tuple[str, int], ...]
    paths: tuple[Path, ...]
    ports: tuple[int, ...]
    landlock_abi: int  # what the host's kernel offers; anything else inside is a trick
    filter: bytes
    mdwe: bool
    numbers: tuple[tuple[str, int], ...]
    proofs: tuple[str, ...]
    narrow: bytes = b""  # a second filter, for the program that is started

    def text(self) -> str:
        """Return the orders as lines."""
        lines = [
            f"profile {self.profile}",
            f"payload {self.payload}",
            *(f"program {part}" for part in self.program),
            *(f"module {name}" for name in self.modules),
            *(f"keep {fd}" for fd in self.keep_fds),
            *(f"limit {name} {value}" for name, value in self.limits),
            *(f"path {item.rights} {item.path}" for item in self.paths),
            *(f"port {port}" for port in self.ports),
            f"landlock {self.landlock_abi}",
            f"filter {self.filter.hex()}",
            f"mdwe {int(self.mdwe)}",
            *(f"number {name} {value}" for name, value in self.numbers),
            *(f"proof {name}" for name in self.proofs),
            *([f"narrow {self.narrow.hex()}"] if self.narrow else []),
        ]
        assert all("\n" not in line for line in lines)
        return "\n".join(lines)


_STAGE2: Final = (
    "import sys;sys.path[:]=sys.path[-2:]+['{gate}'];"
    "from threegate.sandbox.stage2 import main;main(sys.argv[1])"
)
_PROVED_FAMILIES: Final = (1, 2, 10, 16, 17, 38, 40)  # unix inet inet6 netlink packet alg vsock
_INNER_UID: Final = "1000"
# A user-space kernel obeys its own uid only.  Its channel belongs to the process that started the
# sandbox, which inside has the uid of everybody from outside.
_OUTSIDERS_UID: Final = "65534"
_BY_IOCTL: Final = ("kvm",)  # devices that are nothing without their own calls
PORTS_ABI: Final = 4  # the first Landlock that knows TCP ports


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a gate: its profile, its files and sockets, its payload."""

    profile: Profile
    payload: str
    given: Mapping[str, str]  # slot -> path on the host
    program: tuple[str, ...] = ()
    keep_fds: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()  # in addition to the profile's: the bridge's one port
    cpus: tuple[int, ...] = ()  # the processors it is held to; empty: all
    inodes: Mapping[str, str] = field(default_factory=dict)  # slot of a socket -> `device:inode`


def command(
    start: Start, view: View, arch: Architecture, *, bwrap: str, landlock_abi: int, mdwe: bool
) -> list[str]:
    """Return the argument list that starts the gate."""
    orders = orders_for(start, view, arch, landlock_abi=landlock_abi, mdwe=mdwe)
    return [
        *_namespaces(start.profile, bwrap),
        *_files(start, view),
        view.interpreter,
        "-I",
        "-S",
        "-B",
        "-c",
        _STAGE2.format(gate=GATE),
        orders.text(),
    ]


def _namespaces(profile: Profile, bwrap: str) -> list[str]:
    network = [] if profile.host_network else ["--unshare-net"]
    uid = _OUTSIDERS_UID if "ptrace" in profile.grants else _INNER_UID
    return [
        bwrap,
        "--unshare-user",
        "--unshare-pid",
        *network,
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--disable-userns",
        "--uid",
        uid,
        "--gid",
        uid,
        "--cap-drop",
        "ALL",
        *(["--cap-add", "CAP_SYS_CHROOT"] if "chroot" in profile.grants else []),
        "--die-with-parent",
        "--new-session",
        "--hostname",
        profile.name,
        "--clearenv",
        "--setenv",
        "LANG",
        "C.UTF-8",
        "--setenv",
        "LD_LIBRARY_PATH",
        LIBRARIES,
    ]


def _files(start: Start, view: View) -> list[str]:
    arguments: list[str] = ["--proc", "/proc"] if "proc" in start.profile.grants else []
    for mount in view.mounts:
        if mount.source:
            arguments += ["--ro-bind", mount.source, mount.inside]
        else:
            arguments += ["--tmpfs", mount.inside, "--remount-ro", mount.inside]
    arguments += ["--ro-bind", view.loader, view.loader_link]
    for bind in start.profile.binds:
        if bind.slot not in start.given:
            raise GateUnavailable(
                f"{start.profile.name} was given no {bind.slot}", code="TG-BOX-003"
            )
        arguments += ["--ro-bind", start.given[bind.slot], bind.inside]
    for device in view.devices:
        arguments += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    if start.profile.scratch_bytes:
        arguments += ["--size", str(start.profile.scratch_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    return [*arguments, "--remount-ro", "/", "--chdir", "/"]


def orders_for(
    start: Start, view: View, arch: Architecture, *, landlock_abi: int, mdwe: bool
) -> Orders:
    """Return the instructions of the second stage: what to lock, prove and run."""
    profile = start.profile
    proofs = proofs_for(start, view, arch, landlock_abi=landlock_abi, mdwe=mdwe)
    return Orders(
        profile=profile.name,
        payload=start.payload,
        program=start.program,
        modules=profile.modules,
        keep_fds=start.keep_fds,
        limits=_limits(profile),
        paths=_paths(start, view),
        ports=(*profile.connect_ports, *start.ports),
        landlock_abi=landlock_abi,
        filter=assemble(rules_for(profile), arch),
        mdwe=mdwe and profile.new_code != "any",
        numbers=tuple(sorted(arch.numbers.items())),
        proofs=proofs,
        narrow=narrow_filter(profile, arch) if start.program else b"",
    )


def _limits(profile: Profile) -> tuple[tuple[str, int], ...]:
    return (
        ("core", 1),  # 0 would not stop a core dump into a pipe; 1 is the kernel's word for none
        ("memlock", 0),
        ("msgqueue", 0),
        ("cpu", profile.cpu_seconds),
        ("processes", profile.processes),
        ("open_files", profile.open_files),
        ("file_size", profile.file_bytes),
        ("address_space", profile.memory_bytes),
    )


def _paths(start: Start, view: View) -> tuple[Path, ...]:
    """Return the Landlock rules: read what is in view, execute what the profile names."""
    profile = start.profile
    executable = {bind.inside for bind in profile.binds if bind.slot in profile.executables}
    paths = [Path(RUNTIME, "r"), Path(GATE, "r")]
    libraries = sorted({m.inside for m in view.mounts if m.inside.startswith("/usr/") and m.source})
    paths += [Path(inside, "r") for inside in libraries]
    # A program is started through its loader, so the right to execute covers both.
    paths.append(Path(view.loader_link, "rx" if executable else "r"))
    paths += [Path(b.inside, "rx" if b.inside in executable else "r") for b in profile.binds]
    # What it opens through its own descriptors is judged where it really lies.
    own = [Path("/proc", "d"), Path(LOWEST_ADDRESS, "r")]
    paths += own if "proc" in profile.grants else []
    paths += [Path(f"/dev/{d}", "rwi" if d in _BY_IOCTL else "rw") for d in view.devices]
    if profile.scratch_bytes:
        paths.append(Path("/tmp", "rw"))  # noqa: S108
    return tuple(paths)


def proofs_for(
    start: Start, view: View, arch: Architecture, *, landlock_abi: int, mdwe: bool
) -> tuple[str, ...]:
    """Return the forbidden acts that the second stage must try."""
    profile = start.profile
    allowed = {FAMILIES[name] for name in profile.families}
    grants = profile.grants
    privileges = "privileges:chroot" if "chroot" in grants else "privileges"
    proofs = [privileges, "alone", "ipc", f"host-name:{profile.name}"]
    memory = [] if "memfd" in grants else ["memfd"]
    proofs += ["clone3", "call:execveat", "namespace", *memory, "typing", "pair", "dumpable"]
    proofs += [f"limit:{name} {value}" for name, value in _limits(profile)]
    forbidden = [name for name in FORBIDDEN if name not in grants]
    proofs += [f"call:{name}" for name in forbidden if name in arch.numbers]
    proofs += [f"socket:{family}" for family in _PROVED_FAMILIES if family not in allowed]
    if profile.host_network:
        proofs += ["call:bind", "call:listen", "kinds", "fast-open"]
        proofs += [] if RESOLVER_PORT in profile.connect_ports else ["datagram"]
        proofs += ["port"] if landlock_abi >= PORTS_ABI else []
    else:
        proofs.append("network")
    if not profile.processes_may_fork:
        proofs += ["fork", *(["call:fork"] if "fork" in arch.numbers else [])]
    proofs.append(f"exec-other:{view.interpreter}" if profile.executables else "exec")
    proofs += ["mmap-exec", "mprotect-exec"] if profile.new_code != "any" else []
    proofs += ["mdwe"] if mdwe and profile.new_code != "any" else []
    # Where there is a /proc it is the box's own, and cannot be read.
    own = ("/proc/self/status",) if "proc" in grants else ()
    proofs += [f"landlock:{path}" for path in (CANARY, *own)]
    proofs += [f"read-only:{path}" for path in ("/", f"{GATE}/threegate/sandbox")]
    proofs += [
        f"absent:{path}"
        for path in ("/bin/sh", "/usr/bin/sh", "/etc/passwd", "/proc/self/status", "/home", "/root")
        if path not in own
    ]
    # Another account may have renamed the directory of a socket after the host looked.
    inside = {bind.slot: bind.inside for bind in profile.binds}
    proofs += [f"inode:{inside[slot]} {inode}" for slot, inode in sorted(start.inodes.items())]
    kept = ",".join(map(str, (0, 1, 2, 3, *start.keep_fds)))
    return (*proofs, f"descriptors:{kept}")
