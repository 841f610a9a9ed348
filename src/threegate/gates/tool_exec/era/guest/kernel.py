"""The guest's kernel: mounts, namespaces, execution rules and the trace of refused programs.

A running command, or code, may try to execute any file.  The kernel refuses files that the profile
does not name, and `ExecTrace` records their names from two events: a file is opened to be executed,
and the call returns an error.  The kernel filters out names of the profile, so that an allowed
program costs no record.

SECURITY
    Runs as root inside the guest, before a job.  The rules set here hold for every process of the
    job, in any language; the virtual machine is the boundary to everything else.  The trace
    holds names that a hostile program chose: only printable ones are passed on, and a program may
    add false ones.  The trace refuses nothing itself.  A user-space kernel has no trace.
"""

import ctypes
import errno
import os
import re
import struct

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_SLAVE, MS_SHARED = 4096, 16384, 1 << 19, 1 << 20
CLONE_NEWNS = 0x20000
MNT_DETACH = 2
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_EXECUTE, LANDLOCK_PATH_BENEATH = 1, 1
LOADER = "/lib64/ld-linux-x86-64.so.2"
# A library that is also a program (it prints its version); only Landlock prevents running it.
LIBRARY = "/usr/lib/x86_64-linux-gnu/libc.so.6"
LIBC = ctypes.CDLL(None, use_errno=True)

AUDIT_ARCH_X86_64, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last: EPERM
SOCKET, SOCKETPAIR, UNIX = 41, 53, 1
INTERNET, STREAM = 2, 1
# Files without a path, other doors into the kernel, and calls that change the confinement.
REFUSED_CALLS = {
    "memfd_create": 319,
    "memfd_secret": 447,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "io_uring_setup": 425,
    "bpf": 321,
    "userfaultfd": 323,
    "perf_event_open": 298,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def mount(source: str, place: str, kind: str, flags: int, options: str = "") -> None:
    """Mount, or raise `OSError`."""
    words = [word.encode() or None for word in (source, place, kind)]
    _checked(
        LIBC.mount(*words, ctypes.c_ulong(flags), options.encode() or None),
        place,
    )


def remount(place: str, flags: int) -> None:
    """Change what may be done through one mount."""
    mount("", place, "", MS_REMOUNT | MS_BIND | flags)


def share_mounts() -> None:
    """Propagate later mounts to the mount namespaces of other processes."""
    mount("", "/", "", MS_REC | MS_SHARED)


def own_mounts() -> None:
    """Get a mount namespace of our own; mounts of the agent still arrive."""
    _checked(LIBC.unshare(CLONE_NEWNS), "mounts")
    mount("", "/", "", MS_REC | MS_SLAVE)


def enter_mounts(pid: int) -> None:
    """Join the mount namespace of another process."""
    fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _checked(LIBC.setns(fd, CLONE_NEWNS), "mounts")
    os.close(fd)


def no_user_namespaces() -> None:
    """Forbid user namespaces: root of one could mount files that execute again."""
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def let_go(place: str) -> None:
    """Unmount; what was bound from there stays."""
    _checked(LIBC.umount2(place.encode(), MNT_DETACH), place)


def no_new_privileges() -> None:
    """Set no_new_privs."""
    _checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def only_execute(paths: tuple[str, ...]) -> None:
    """Let this process and its children execute these files, their loader, and nothing else.

    The loader runs any file it is given: `view.seal` leaves it only these.
    """
    handled = struct.pack("Q", LANDLOCK_EXECUTE)
    ruleset = _checked(LIBC.syscall(LANDLOCK_CREATE, handled, len(handled), 0), "landlock")
    for path in (*paths, LOADER):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", LANDLOCK_EXECUTE, fd)
        _checked(LIBC.syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH_BENEATH, rule, 0), path)
        os.close(fd)
    _checked(LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def refuse_calls() -> None:
    """Refuse the calls of `REFUSED_CALLS`, and sockets of every family but Unix."""
    program = _filter()
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    _checked(
        LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0),
        "seccomp",
    )


def refuses_sockets() -> bool:
    """Try to open an internet socket; tell whether the filter refused it."""
    return LIBC.socket(INTERNET, STREAM, 0) < 0 and ctypes.get_errno() == errno.EPERM


def _filter() -> bytes:
    """Return the filter: architecture, foreign numbers, the list, families of sockets."""
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    number, architecture, first_argument = 0, 4, 16
    calls = sorted(REFUSED_CALLS.values())
    steps = [
        (load, 0, 0, architecture),
        (equal, 1, 0, AUDIT_ARCH_X86_64),
        (answer, 0, 0, KILL),
        (load, 0, 0, number),
        (at_least, 0, 1, X32),
        (answer, 0, 0, KILL),
    ]
    # To the refusal, which is the last step: past the other calls and the five steps about sockets.
    for at, call in enumerate(calls):
        steps.append((equal, len(calls) - at - 1 + 5, 0, call))
    steps += [
        (equal, 1, 0, SOCKET),
        (equal, 0, 2, SOCKETPAIR),
        (load, 0, 0, first_argument),
        (equal, 0, 1, UNIX),
        (answer, 0, 0, ALLOW),
        (answer, 0, 0, REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


TRACE_PLACE = "/run/trace"
BUFFER_KIB = "512"
PIECE_BYTES = 1 << 16
OPENED = "p:ring/opened do_open_execat name=+0(+0($arg2)):string"
# Process, event and its text.  The process name may contain anything, but it comes first.
_LINE = re.compile(r".*-(\d+) +\[\d+\] \S+ +[\d.]+: (opened|sys_execve(?:at)?)\b(.*)")
_NAME, _RESULT = re.compile(r' name="(.*)"$'), re.compile(r" -> 0x([0-9a-f]{1,16})$")
NAMELESS = "(a descriptor)"
REFUSALS = frozenset((errno.EACCES, errno.EPERM))


class TraceLines:
    """Parses lines of the kernel's trace as they arrive."""

    def __init__(self) -> None:
        self._opened: dict[str, str] = {}
        self._held = ""

    def take(self, text: str) -> list[str]:
        """Return the names of refused programs in these lines."""
        *lines, self._held = (self._held + text).split("\n")
        found = [self._refused_name(line) for line in lines]
        return [name for name in found if name]

    def _refused_name(self, line: str) -> str:
        matched = _LINE.fullmatch(line)
        if matched is None:
            return ""
        process, event, rest = matched.groups()
        if event == "opened":
            named = _NAME.search(rest)
            self._opened[process] = (named[1] if named else "") or NAMELESS
            return ""
        name, result = self._opened.pop(process, ""), _RESULT.search(rest)
        failed = (1 << 64) - int(result[1], 16) if result else 0
        return name if failed in REFUSALS else ""


class ExecTrace:
    """The kernel's trace of refused programs, from now on."""

    def __init__(self, known: list[str]) -> None:
        os.makedirs(TRACE_PLACE, exist_ok=True)
        mount("trace", TRACE_PLACE, "tracefs", MS_NOSUID | MS_NODEV)
        _write("buffer_size_kb", BUFFER_KIB)
        _write("kprobe_events", OPENED)
        _leave_out((*known, LOADER))
        for call in ("execve", "execveat"):
            _write(f"events/syscalls/sys_exit_{call}/filter", "ret < 0")
            _write(f"events/syscalls/sys_exit_{call}/enable", "1")
        _write("events/ring/opened/enable", "1")
        self._pipe = os.open(
            f"{TRACE_PLACE}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        let_go(TRACE_PLACE)  # the open file is enough; no job finds the mount
        self._trace = TraceLines()

    def refused(self) -> list[str]:
        """Return the names of the programs that were refused since the last call."""
        return self._trace.take(self._read())

    def _read(self) -> str:
        text = bytearray()
        try:
            while piece := os.read(self._pipe, PIECE_BYTES):
                text += piece
        except BlockingIOError:
            pass
        return text.decode("ascii", "backslashreplace")


def _leave_out(names: tuple[str, ...]) -> None:
    """Exclude these names from the trace; exclude all if they are too many for a filter."""
    try:
        _write("events/ring/opened/filter", " && ".join(f'name != "{name}"' for name in names))
    except OSError:
        _write("events/ring/opened/filter", "0")


def _write(name: str, text: str) -> None:
    with open(f"{TRACE_PLACE}/{name}", "w", encoding="ascii") as file:
        file.write(text)


def refused_by(trace: ExecTrace | None) -> list[dict[str, object]]:
    """Return the refusals since the last call, in the form that the gate reads."""
    return [refused_program(name) for name in trace.refused()] if trace else []


def refused_program(name: str) -> dict[str, object]:
    """Return a refused program in the form that the gate reads."""
    argument = "".join(c if " " <= c <= "~" else "?" for c in name)[:200].strip()
    return {"argument": argument or "?", "line": 0, "rule": "allowed_binaries"}
