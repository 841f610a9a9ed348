"""Seccomp filters: rules as data, assembled to BPF by a pure function.

SECURITY
    The kernel applies this to every call of a gate.  A rule that is missing here is a
    call a compromised gate can make; `tests/escape` tries each, and the mutation check
    removes each rule in turn to see that some attempt notices.
"""

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.sandbox.profiles import Profile
from threegate.sandbox.syscalls import Architecture

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ABOVE: Final = 0x25
_ANY_BIT: Final = 0x45
_MASK: Final = 0x54
_RETURN: Final = 0x06
_ARCH_OFFSET: Final = 4
_X32_BIT: Final = 0x40000000

CLONE_THREAD: Final = 0x10000
CLONE_NEW: Final = 0x7E020080  # every namespace flag, time included
PROT_WRITE: Final = 2
PROT_EXEC: Final = 4
MAP_ANONYMOUS: Final = 0x20
TIOCSTI: Final = 0x5412
TIOCLINUX: Final = 0x541C
SOCK_STREAM: Final = 1
SOCK_DGRAM: Final = 2
SOCK_SEQPACKET: Final = 5
SOCK_KIND: Final = 0xF  # the rest of the argument are flags
PLAIN_PROTOCOLS: Final = (0, 6, 17)  # the default, TCP, UDP
MSG_FASTOPEN: Final = 0x20000000
RESOLVER_PORT: Final = 53
PR_SET_DUMPABLE: Final = 4
PR_SET_MM: Final = 35
PR_SET_PTRACER: Final = 0x59616D61

# Calls no gate has any use for, each a door out of a box or into the kernel.
FORBIDDEN: Final = (
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "futimesat",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "listmount",
    "lookup_dcookie",
    "memfd_secret",
    "mknod",
    "mknodat",
    "modify_ldt",
    "mount",
    "mount_setattr",
    "move_mount",
    "mq_open",
    "msgget",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "semget",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "shmget",
    "statmount",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "utime",
    "utimensat",
    "utimes",
    "vhangup",
)
FAMILIES: Final = {"unix": 1, "inet": 2, "inet6": 10}


def error(number: int) -> int:
    """Return the action that makes a call fail with this errno."""
    return 0x00050000 | number


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one argument: `equal` to a value, any of its `bits` set, or `outside` a list."""

    argument: int
    equal: int | None = None
    bits: int | None = None
    outside: tuple[int, ...] = ()
    mask: int | None = None  # applied before `equal` and `outside`


@dataclass(frozen=True, slots=True)
class CallRule:
    """The action for a call: that of the first test that holds, else `otherwise`."""

    call: str
    otherwise: int
    tests: tuple[tuple[Test, int], ...] = ()


def rules_for(profile: Profile) -> list[CallRule]:
    """Return the rules of a profile; a call without a rule is allowed."""
    denied = error(errno.EPERM)
    rules = [CallRule(call, denied) for call in FORBIDDEN if call not in profile.grants]
    # Its arguments lie in memory where a filter cannot look: glibc falls back to clone.
    rules.append(CallRule("clone3", error(errno.ENOSYS)))
    if not profile.executables:
        rules.append(CallRule("execve", denied))
    rules.append(CallRule("execveat", denied))  # Landlock judges paths; this one takes a descriptor
    if "memfd" not in profile.grants:
        rules.append(CallRule("memfd_create", denied))  # Landlock does not see what is run from one
    if not profile.processes_may_fork:
        rules += [CallRule("fork", denied), CallRule("vfork", denied)]
    rules.append(_clone_rule(profile, denied))
    rules += _socket_rules(profile, denied)
    typing = tuple((Test(1, equal=request), denied) for request in (TIOCSTI, TIOCLINUX))
    rules.append(CallRule("ioctl", ALLOW, typing))
    rules.append(_prctl_rule(denied))
    rules += _code_rules(profile, denied)
    return rules


def _clone_rule(profile: Profile, denied: int) -> CallRule:
    namespaces = (Test(0, bits=CLONE_NEW), denied)
    thread = (Test(0, bits=CLONE_THREAD), ALLOW)
    return CallRule("clone", ALLOW if profile.processes_may_fork else denied, (namespaces, thread))


def _socket_rules(profile: Profile, denied: int) -> list[CallRule]:
    refused = error(errno.EACCES)
    allowed = tuple(FAMILIES[name] for name in profile.families)
    # A pair of datagram sockets can be pointed anywhere; a pair of streams is connected for
    # good, and so is one of packets in sequence.
    pairs = (SOCK_STREAM, SOCK_SEQPACKET) if "seqpacket" in profile.grants else (SOCK_STREAM,)
    stream = (Test(1, mask=SOCK_KIND, outside=pairs), refused)
    rules = [
        CallRule("socketpair", ALLOW, ((Test(0, outside=(FAMILIES["unix"],)), refused), stream))
    ]
    if not profile.host_network:
        return [
            CallRule("socket", refused, tuple((Test(0, equal=f), ALLOW) for f in allowed)),
            *rules,
        ]
    # Landlock judges plain TCP alone: MPTCP, raw, ping and the rest would pass unseen.
    datagrams = RESOLVER_PORT in profile.connect_ports
    kinds = (SOCK_STREAM, SOCK_DGRAM) if datagrams else (SOCK_STREAM,)
    tests = (
        (Test(0, outside=allowed), refused),
        (Test(1, mask=SOCK_KIND, outside=kinds), refused),
        (Test(2, outside=PLAIN_PROTOCOLS), refused),
    )
    rules.append(CallRule("socket", ALLOW, tests))
    # So would data in the first packet (landlock-lsm/linux issue 41), and a socket that
    # listens without bind.
    rules += [
        CallRule(call, ALLOW, ((Test(argument, bits=MSG_FASTOPEN), denied),))
        for call, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
    ]
    return [*rules, CallRule("bind", denied), CallRule("listen", denied)]


def _prctl_rule(denied: int) -> CallRule:
    """Keep the process from becoming dumpable again: crash handlers and tracers read memory."""
    watched = (PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER)
    tests = (
        (Test(0, outside=watched), ALLOW),
        (Test(0, outside=(PR_SET_DUMPABLE,)), denied),
        (Test(1, equal=0), ALLOW),  # less dumpable is fine: the Monty worker's lock does it
    )
    return CallRule("prctl", denied, tests)


def _code_rules(profile: Profile, denied: int) -> list[CallRule]:
    if profile.new_code == "any":
        return []
    executable = (Test(2, bits=PROT_EXEC), denied)
    changing = [
        CallRule("mprotect", ALLOW, (executable,)),
        CallRule("pkey_mprotect", ALLOW, (executable,)),
    ]
    if profile.new_code == "none":
        return [CallRule("mmap", ALLOW, (executable,)), *changing]
    # "linked": a program it starts may map its libraries, and no more.  Linux before 6.3
    # has no memory-deny-write-execute for that, so the filter does it.
    data = (Test(2, mask=PROT_EXEC, equal=0), ALLOW)
    writable = (Test(2, bits=PROT_WRITE), denied)
    anonymous = (Test(3, bits=MAP_ANONYMOUS), denied)
    return [CallRule("mmap", ALLOW, (data, writable, anonymous)), *changing]


def assemble(rules: Iterable[CallRule], arch: Architecture, *, default: int = ALLOW) -> bytes:
    """Return the BPF program of the rules, for one architecture."""
    program = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_EQUAL, 1, 0, arch.audit),
        (_RETURN, 0, 0, KILL),  # i386 calls on x86_64 have other numbers: a filter bypass
        (_LOAD, 0, 0, 0),
    ]
    if arch.has_x32:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL)]
    # A call newer than this table cannot have been judged.
    program += [(_ABOVE, 0, 1, arch.last_known), (_RETURN, 0, 0, error(errno.ENOSYS))]
    for rule in rules:
        number = arch.numbers.get(rule.call)
        if number is not None:
            program += _rule(rule, number)
    program.append((_RETURN, 0, 0, default))
    return b"".join(struct.pack("<HBBI", code, yes, no, value) for code, yes, no, value in program)


def _rule(rule: CallRule, number: int) -> list[tuple[int, int, int, int]]:
    body: list[tuple[int, int, int, int]] = []
    for test, action in rule.tests:
        body += [*_looked_at(test), (_RETURN, 0, 0, action)]
    body.append((_RETURN, 0, 0, rule.otherwise))
    assert len(body) <= 255, "a BPF jump reaches 255 instructions"
    return [(_EQUAL, 0, len(body), number), *body]


def _looked_at(test: Test) -> list[tuple[int, int, int, int]]:
    """Return the instructions after which the next one is reached only if the test holds."""
    load = [(_LOAD, 0, 0, 16 + 8 * test.argument)]
    if test.mask is not None:
        load.append((_MASK, 0, 0, test.mask))
    if test.outside:
        last = len(test.outside)
        return [*load, *((_EQUAL, last - at, 0, v) for at, v in enumerate(test.outside))]
    if test.equal is not None:
        return [*load, (_EQUAL, 0, 1, test.equal)]
    return [*load, (_ANY_BIT, 0, 1, test.bits or 0)]
