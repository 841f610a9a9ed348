"""System call numbers, by architecture.  Facts of the kernel's ABI, nothing else."""

import platform
import sys
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import GateUnavailable

# name: (x86_64, aarch64); None where the architecture has no such call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "accept": (43, 202),
    "access": (21, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "brk": (12, 214),
    "capget": (125, 90),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_gettime": (228, 113),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close": (3, 57),
    "close_range": (436, 436),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fork": (57, None),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futex": (202, 98),
    "futimesat": (261, None),
    "getdents64": (217, 61),
    "getpid": (39, 172),
    "getrandom": (318, 278),
    "gettid": (186, 178),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "listen": (50, 201),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mmap": (9, 222),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mprotect": (10, 226),
    "mq_open": (240, 180),
    "mremap": (25, 216),
    "msgget": (68, 186),
    "munmap": (11, 215),
    "name_to_handle_at": (303, 264),
    "newfstatat": (262, 79),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "pkey_mprotect": (329, 288),
    "poll": (7, None),
    "ppoll": (271, 73),
    "prctl": (157, 167),
    "pread64": (17, 67),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "read": (0, 63),
    "readlink": (89, None),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "set_robust_list": (273, 99),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "sigaltstack": (131, 132),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "statx": (332, 291),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vfork": (58, None),
    "vhangup": (153, 58),
    "write": (1, 64),
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """The facts of an architecture that a filter needs."""

    name: str
    audit: int  # the value the kernel puts into seccomp_data.arch
    numbers: dict[str, int]
    has_x32: bool
    last_known: int  # calls with a higher number are newer than this table


_AUDIT: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LAST_KNOWN: Final = 470


def architecture(machine: str | None = None) -> Architecture:
    """Return the facts of this architecture, or raise `GateUnavailable` for an unknown one."""
    name = machine or platform.machine()
    if name not in _AUDIT or sys.maxsize < 2**32:
        detail = f"no sandbox for the architecture {name}"
        raise GateUnavailable(detail, code="TG-BOX-001", hint="use a 64-bit x86 or ARM machine")
    column = 0 if name == "x86_64" else 1
    numbers = {key: pair[column] for key, pair in _NUMBERS.items()}
    present = {key: number for key, number in numbers.items() if number is not None}
    return Architecture(name, _AUDIT[name], present, name == "x86_64", _LAST_KNOWN)
