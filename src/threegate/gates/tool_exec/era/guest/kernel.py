"""The guest's kernel, asked directly: mounts, namespaces, and what a job may execute or open.

SECURITY
    Runs as root inside the guest, before a job.  What is locked here holds for every process
    of the job, whatever language it is written in; the virtual machine is the boundary to
    everything else.
"""

import ctypes
import errno
import os
import struct

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_SLAVE, MS_SHARED = 4096, 16384, 1 << 19, 1 << 20
CLONE_NEWNS = 0x20000
MNT_DETACH = 2
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_EXECUTE, LANDLOCK_PATH_BENEATH = 1, 1
LOADER = "/lib64/ld-linux-x86-64.so.2"
# A library that is also a program: it says its version.  Only Landlock keeps it from being run.
LIBRARY = "/usr/lib/x86_64-linux-gnu/libc.so.6"
LIBC = ctypes.CDLL(None, use_errno=True)

AUDIT_ARCH_X86_64, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last: EPERM
SOCKET, SOCKETPAIR, UNIX = 41, 53, 1
INTERNET, STREAM = 2, 1
# Files without a place, other kernels' doors, and what makes new rules for oneself.
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
    """Have what is mounted from here on arrive in the views of others."""
    mount("", "/", "", MS_REC | MS_SHARED)


def own_mounts() -> None:
    """Have mounts of our own from here on; what the agent mounts still arrives."""
    _checked(LIBC.unshare(CLONE_NEWNS), "mounts")
    mount("", "/", "", MS_REC | MS_SLAVE)


def enter_mounts(pid: int) -> None:
    """See the files as another process does."""
    fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _checked(LIBC.setns(fd, CLONE_NEWNS), "mounts")
    os.close(fd)


def no_user_namespaces() -> None:
    """Let nobody be root of a namespace of their own, who could mount what executes again."""
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def let_go(place: str) -> None:
    """Unmount; what was bound from there stays."""
    _checked(LIBC.umount2(place.encode(), MNT_DETACH), place)


def no_new_privileges() -> None:
    """Gain nothing by executing, ever again."""
    _checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def only_execute(paths: tuple[str, ...]) -> None:
    """Let this process and its children execute these files, their loader, and nothing else.

    The loader runs whatever it is given: `view.seal` keeps that from being more than this.
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
