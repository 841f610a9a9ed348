"""The system calls of the engines QEMU and runsc; any other call ends them.

The box's filter (`filters.py`) holds while the second stage proves the lock.  This narrower one
is added right before the program starts, so it allows nothing that only Python needs.

QEMU's list comes from traces of boots, snapshots, resumes and runs of QEMU 7.2 by emulation, and
from what its C library uses.  With AMD's SVM on Linux 6.1 no call was missing
(`tests/escape/test_heavy_accelerated.py`).  If another processor or kernel needs one more, QEMU
ends and is refused.

runsc's lists come from the contract suite on runsc 0.0~20221219.0 with `ptrace`.  Both of its
programs add a narrower filter of their own after the start; ours holds if theirs is wrong.

SECURITY
    A guest that owns QEMU has these calls and no others: none starts a program or a process,
    makes a socket or reaches into another process.  `execve` is the start of QEMU itself, and
    QEMU's own filter removes it first.
    A guest that owns runsc's kernel can fork and trace its children, which is how runsc runs its
    guest.  It makes no socket, starts no program but itself and reaches no process outside.
"""

from dataclasses import replace
from typing import Final

from threegate.sandbox.filters import (
    ALLOW,
    CLONE_NEW,
    CLONE_THREAD,
    KILL,
    CallRule,
    Test,
    assemble,
)
from threegate.sandbox.profiles import ENGINE, RUNSC_FILES, RUNSC_KERNEL, Profile
from threegate.sandbox.syscalls import Architecture

# name: (x86_64, aarch64), for calls that no other part of the sandbox names.
NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "accept4": (288, 242),
    "chdir": (80, 49),
    "dup3": (292, 24),
    "fallocate": (285, 47),
    "fsync": (74, 82),
    "ftruncate": (77, 46),
    "getcpu": (309, 168),
    "getxattr": (191, 8),
    "kill": (62, 129),
    "mincore": (27, 232),
    "pipe2": (293, 59),
    "preadv2": (327, 286),
    "pwrite64": (18, 68),
    "pwritev": (296, 70),
    "pwritev2": (328, 287),
    "recvmmsg": (299, 243),
    "setitimer": (38, 103),
    "setrlimit": (160, 164),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "sync_file_range": (277, 84),
    "tee": (276, 77),
    "timer_create": (222, 107),
    "timer_delete": (226, 111),
    "timer_settime": (223, 110),
    "tkill": (200, 130),
    "umask": (95, 166),
    "fgetxattr": (193, 10),
    "flistxattr": (196, 13),
    "splice": (275, 76),
    "wait4": (61, 260),
    "getrlimit": (97, 163),
}
# What any program in Go needs, and what a program needs to be started.
_GO: Final = (
    *("arch_prctl", "clock_gettime", "close", "epoll_create1", "epoll_ctl", "epoll_pwait"),
    *("eventfd2", "execve", "exit", "exit_group", "fcntl", "fstat", "futex", "getpid"),
    *("getrandom", "gettid", "gettimeofday", "madvise", "mincore", "mmap", "mprotect"),
    *("munmap", "nanosleep", "newfstatat", "openat", "pipe2", "ppoll", "prctl", "pread64"),
    *("prlimit64", "read", "readlinkat", "recvmsg", "restart_syscall", "rt_sigaction"),
    *("rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "seccomp"),
    *("sendmsg", "set_robust_list", "setitimer", "sigaltstack", "tgkill", "timer_create"),
    *("timer_delete", "timer_settime", "uname", "write", "getuid", "geteuid", "getgid", "getegid"),
    *("capget", "membarrier", "setrlimit"),
    *("getppid", "lseek", "dup", "dup3", "fallocate", "ftruncate", "memfd_create", "getrlimit"),
)
KERNEL: Final = (
    *_GO,
    *("accept4", "fsync", "getcpu", "getsockopt", "kill", "listen", "preadv", "preadv2"),
    *("ptrace", "pwrite64", "pwritev", "pwritev2", "readv", "recvfrom", "sendto", "setsid"),
    *("shutdown", "statx", "tkill", "wait4", "writev"),
)
FILES: Final = (
    *_GO,
    *("chdir", "chroot", "fgetxattr", "fstatfs", "fsync", "getdents64", "shutdown", "socketpair"),
    "umask",
)
CALLS: Final = {RUNSC_KERNEL.name: KERNEL, RUNSC_FILES.name: FILES}


def rules_of(profile: str) -> list[CallRule]:
    """Return the rules of one of the two programs."""
    rules = [CallRule(call, ALLOW) for call in sorted({*CALLS[profile]} - {"prlimit64"})]
    # Its own limits only, and no namespaces; whether it may fork, its box has said.
    rules.append(CallRule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),)))
    return [*rules, CallRule("clone", ALLOW, ((Test(0, bits=CLONE_NEW), KILL),))]


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
    if profile.name in CALLS:
        return sorted({*CALLS[profile.name], "clone"})
    return sorted((*ALLOWED, *ANSWERED, "clone"))


def narrow_filter(profile: Profile, arch: Architecture) -> bytes:
    """Return the filter of the program that the profile starts; empty if it has none."""
    if profile.name in CALLS:
        rules = rules_of(profile.name)
    elif profile.name == ENGINE.name:
        rules = _engine_rules()
    else:
        return b""
    column = 0 if arch.name == "x86_64" else 1
    more = {name: pair[column] for name, pair in {**_MORE_NUMBERS, **NUMBERS}.items()}
    numbers = {name: number for name, number in more.items() if number is not None}
    return assemble(rules, replace(arch, numbers=arch.numbers | numbers), default=KILL)


def _engine_rules() -> list[CallRule]:
    rules = [CallRule(call, ALLOW) for call in (*ALLOWED, *ANSWERED) if call != "prlimit64"]
    # Its own limits only, and threads only.
    rules.append(CallRule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),)))
    threads = ((Test(0, bits=CLONE_NEW), KILL), (Test(0, bits=CLONE_THREAD), ALLOW))
    return [*rules, CallRule("clone", KILL, threads)]
