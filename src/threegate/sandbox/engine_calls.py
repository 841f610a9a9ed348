"""The engine's own list of system calls: what QEMU uses, everything else ends it.

The box's filter (`filters.py`) holds while the second stage proves the lock.  This narrower
one is laid over it right before the program is started, so it needs nothing that Python
does.  Found by tracing boots, snapshots, resumes and runs of QEMU 7.2 by emulation, with
what its C library uses besides.  By acceleration it was held against boots, snapshots, resumes
and runs with AMD's SVM on Linux 6.1 (`tests/escape/test_heavy_accelerated.py`): no call was
missing.  Where another processor or kernel wants one more, QEMU ends, and is refused.

SECURITY
    A guest that owns QEMU has these calls and no others.  There is no call among them that
    starts a program or a process, makes a socket or reaches into another process; `execve`
    is the start of QEMU itself, and QEMU's own filter takes it away first thing.
"""

from dataclasses import replace
from typing import Final

from threegate.sandbox import runsc_calls
from threegate.sandbox.filters import (
    ALLOW,
    CLONE_NEW,
    CLONE_THREAD,
    KILL,
    Rule,
    Test,
    assemble,
)
from threegate.sandbox.profiles import ENGINE, Profile
from threegate.sandbox.syscalls import Architecture

# name: (x86_64, aarch64), for calls that no other part of the sandbox names.
_MORE_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "arch_prctl": (158, None),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "dup": (32, 23),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22),
    "epoll_wait": (232, None),
    "eventfd2": (290, 19),
    "faccessat": (269, 48),
    "fadvise64": (221, 223),
    "fchdir": (81, 50),
    "fcntl": (72, 25),
    "fdatasync": (75, 83),
    "fstat": (5, 80),
    "fstatfs": (138, 44),
    "get_mempolicy": (239, 236),
    "getcwd": (79, 17),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpeername": (52, 205),
    "getppid": (110, 173),
    "getrusage": (98, 165),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "mbind": (237, 235),
    "membarrier": (324, 283),
    "nanosleep": (35, 101),
    "preadv": (295, 69),
    "readlinkat": (267, 78),
    "readv": (19, 65),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "restart_syscall": (219, 128),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "set_mempolicy": (238, 237),
    "set_tid_address": (218, 96),
    "setsockopt": (54, 208),
    "shutdown": (48, 210),
    "signalfd4": (289, 74),
    "statfs": (137, 43),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "writev": (20, 66),
}
ALLOWED: Final = (
    *_MORE_NUMBERS,
    *("access", "brk", "clock_gettime", "close", "execve", "exit", "exit_group", "futex"),
    *("getdents64", "getpid", "getrandom", "gettid", "ioctl", "lseek", "madvise", "mmap"),
    *("mprotect", "mremap", "munmap", "newfstatat", "openat", "poll", "ppoll", "prctl"),
    *("pread64", "prlimit64", "read", "readlink", "rseq", "rt_sigaction", "rt_sigprocmask"),
    *("rt_sigreturn", "sched_getaffinity", "sched_yield", "seccomp", "sendmsg", "sendto"),
    *("set_robust_list", "sigaltstack", "statx", "tgkill", "write"),
)
# Asked for by a QEMU that means no harm; the box's filter answers them with an error.
ANSWERED: Final = ("clone3", "io_uring_setup", "memfd_create")


def signed_calls(profile: Profile) -> list[str]:
    """Return the calls as they are signed with a policy; QEMU's `clone` makes threads only."""
    if profile.name in runsc_calls.CALLS:
        return sorted({*runsc_calls.CALLS[profile.name], "clone"})
    return sorted((*ALLOWED, *ANSWERED, "clone"))


def narrow_filter(profile: Profile, arch: Architecture) -> bytes:
    """Return the filter a program is started under, or nothing where the profile has none."""
    if profile.name in runsc_calls.CALLS:
        rules = runsc_calls.rules_of(profile.name)
    elif profile.name == ENGINE.name:
        rules = _engine_rules()
    else:
        return b""
    column = 0 if arch.name == "x86_64" else 1
    more = {name: pair[column] for name, pair in {**_MORE_NUMBERS, **runsc_calls.NUMBERS}.items()}
    numbers = {name: number for name, number in more.items() if number is not None}
    return assemble(rules, replace(arch, numbers=arch.numbers | numbers), default=KILL)


def _engine_rules() -> list[Rule]:
    rules = [Rule(call, ALLOW) for call in (*ALLOWED, *ANSWERED) if call != "prlimit64"]
    # Its own limits only, and threads only.
    rules.append(Rule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),)))
    threads = ((Test(0, bits=CLONE_NEW), KILL), (Test(0, bits=CLONE_THREAD), ALLOW))
    return [*rules, Rule("clone", KILL, threads)]
