"""The system calls of a user-space kernel and of what shows it files; any other ends them.

Laid over the boxes' own filters right before the program is started, like QEMU's
(`engine_calls.py`).  Both programs lay a filter of their own over this one when they have
started, which is narrower still; ours holds if theirs is wrong or was never reached.
Found by running the contract suite on runsc 0.0~20221219.0 with `ptrace`.

SECURITY
    A guest that owns its kernel has these calls and no others.  It can fork and trace what it
    forked, which is how it runs its guest; it makes no socket, starts no program but itself
    and reaches no process outside of its box.
"""

from typing import Final

from threegate.sandbox.filters import ALLOW, CLONE_NEW, KILL, Rule, Test
from threegate.sandbox.profiles import RUNSC_FILES, RUNSC_KERNEL

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


def rules_of(profile: str) -> list[Rule]:
    """Return the rules of one of the two programs."""
    rules = [Rule(call, ALLOW) for call in sorted({*CALLS[profile]} - {"prlimit64"})]
    # Its own limits only, and no namespaces; whether it may fork, its box has said.
    rules.append(Rule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),)))
    return [*rules, Rule("clone", ALLOW, ((Test(0, bits=CLONE_NEW), KILL),))]
