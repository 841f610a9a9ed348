"""Gaining rights, and undoing the lock from inside."""

from __future__ import annotations

import ctypes
import os
import resource
import struct

from threegate.sandbox.attacks.base import (
    CHANGING_ROOT,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    JUST_IN_TIME,
    WORKER,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    namespace_root,
)
from threegate.sandbox.kernel import filter_program, pointer, prctl

PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4
PR_SET_MM, PR_SET_PTRACER, PR_CAP_AMBIENT, PR_SET_SECUREBITS = 35, 0x59616D61, 47, 28
PR_CAPBSET_DROP = 24
ALLOW_ALL = struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)


@attempt("EPERM")
def user_namespace(facts: Facts) -> str:
    call("unshare", CLONE_NEWUSER)
    return "a user namespace, and all capabilities in it"


@attempt("EPERM")
def mount_namespace(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    call("unshare", CLONE_NEWNS)
    return "a mount namespace"


@attempt("EPERM")
def network_namespace(facts: Facts) -> str:
    namespace_root()
    call("unshare", CLONE_NEWNET)
    return "a network namespace"


@attempt("EPERM")
def harmless_unshare(facts: Facts) -> str:
    """CLONE_FILES needs no right at all: only the filter says no."""
    call("unshare", 0x400)
    return "unshared"


@attempt("EPERM")
def namespace_of_a_process(facts: Facts) -> str:
    process = call("pidfd_open", facts.victim if facts.control else os.getpid(), 0)
    namespace_root(CLONE_NEWIPC)
    if facts.control:
        process = call("pidfd_open", os.getpid(), 0)
    call("setns", process, CLONE_NEWIPC)
    return "joined"


@attempt("ENOENT")
def namespace_by_path(facts: Facts) -> str:
    return f"descriptor {os.open(f'/proc/{facts.victim}/ns/net', os.O_RDONLY)}"


@attempt("EINVAL")
def become_root(facts: Facts) -> str:
    namespace_root()
    os.setuid(0)
    return "uid 0"


@attempt("EINVAL")
def become_root_group(facts: Facts) -> str:
    namespace_root()
    os.setresgid(0, 0, 0)
    return "gid 0"


@attempt("EPERM", control="dropping groups needs a right that a new user namespace has lost")
def drop_groups(facts: Facts) -> str:
    """Leaving a group can open files that deny it."""
    os.setgroups([])
    return "no groups"


@attempt("EPERM")
def raise_capabilities(facts: Facts) -> str:
    namespace_root()
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
    every = (1 << 32) - 1 if not facts.control else 1 << 21
    data = ctypes.create_string_buffer(struct.pack("<6I", every, every, 0, 0, 0, 0))
    call("capset", header, data)
    return "capabilities set"


@attempt("none")
def hold_capabilities(facts: Facts) -> str:
    """No capability may be left, in the bounding set either."""
    namespace_root()
    changes_root = facts.profile in CHANGING_ROOT and not facts.control
    left, most = ((1 << 18).to_bytes(4, "little"), [18]) if changes_root else (bytes(4), [])
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
    data = ctypes.create_string_buffer(24)
    call("capget", header, data)
    bounding = [n for n in range(41) if prctl(23, n) == 1]  # PR_CAPBSET_READ
    sets = [data.raw[at : at + 4] for at in range(0, 24, 4)]
    if any(part not in (bytes(4), left) for part in sets[:3]) or any(map(any, sets[3:])):
        return f"{data.raw.hex()}"
    if bounding != most:
        return f"{data.raw.hex()}, bounding set of {len(bounding)}"
    raise Blocked("none")


@attempt("EPERM")
def ambient_capability(facts: Facts) -> str:
    """Ambient capabilities outlive an exec."""
    namespace_root()
    if facts.control:
        bit = 1 << 21
        header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
        call("capset", header, ctypes.create_string_buffer(struct.pack("<6I", *[bit] * 3, 0, 0, 0)))
    prctl(PR_CAP_AMBIENT, 2, 21)
    return "raised"


@attempt("EPERM")
def change_bits_of_root(facts: Facts) -> str:
    namespace_root()
    prctl(PR_SET_SECUREBITS, 1)
    return "changed"


@attempt("EPERM")
def dumpable_again(facts: Facts) -> str:
    """Dumpable means: a crash hands memory to the host's crash handler."""
    prctl(PR_SET_DUMPABLE, 1)
    return f"dumpable {prctl(PR_GET_DUMPABLE)}"


@attempt("EPERM", control="the kernel is built without Yama")
def tracer_chosen(facts: Facts) -> str:
    prctl(PR_SET_PTRACER, 2**64 - 1)
    return "anybody may trace"


@attempt("EPERM", control="needs a right in the first user namespace")
def memory_layout_changed(facts: Facts) -> str:
    """PR_SET_MM rewrites where the kernel looks for arguments and code."""
    prctl(PR_SET_MM, 14, ctypes.addressof(ctypes.create_string_buffer(8)), 0)
    return "changed"


@attempt("EPERM", granted=JUST_IN_TIME, control="nothing was set that could be undone")
def write_execute_again(facts: Facts) -> str:
    if facts.control:
        raise Blocked("not set")
    prctl(65, 0)  # PR_SET_MDWE
    return "undone"


@attempt("EINVAL", control="nothing was set that could be undone")
def new_privileges_again(facts: Facts) -> str:
    prctl(38, 0)  # PR_SET_NO_NEW_PRIVS
    return "undone"


@attempt("in force", control="nothing is in force outside")
def privileges_can_still_grow(facts: Facts) -> str:
    if prctl(39) == 1:  # PR_GET_NO_NEW_PRIVS
        raise Blocked("in force")
    if facts.control:
        raise Blocked("not in force")
    return "no_new_privs is not set"


@attempt("EPERM")
def filter_replaced(facts: Facts) -> str:
    """A second filter that allows everything must not weaken the first."""
    prctl(38, 1)
    program, memory = filter_program(ALLOW_ALL)
    call("seccomp", 1, 0, pointer(program))
    del memory
    call("unshare", 0x400)
    return "the filter is gone"


@attempt("EINVAL", control="there is no filter to switch off")
def filter_switched_off(facts: Facts) -> str:
    prctl(22, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_DISABLED
    return "off"


@attempt("EACCES")
def landlock_widened(facts: Facts) -> str:
    """A second domain that allows everything must not weaken the first."""
    handled = struct.pack("<Q", 4)
    ruleset = call("landlock_create_ruleset", handled, 8, 0)
    prctl(38, 1)
    top = os.open("/", 0o10000000)
    call("landlock_add_rule", ruleset, 1, struct.pack("<Qi", 4, top), 0)
    call("landlock_restrict_self", ruleset, 0)
    os.close(os.open(facts.secret if facts.control else "/canary", os.O_RDONLY))
    return "read"


@attempt(
    "ValueError",
    but={(WORKER,): "ValueError"},
    control="an ordinary user cannot raise a hard limit either",
)
def raise_any_limit(facts: Facts) -> str:
    for what in (
        resource.RLIMIT_NPROC,
        resource.RLIMIT_AS,
        resource.RLIMIT_NOFILE,
        resource.RLIMIT_CPU,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_MEMLOCK,
        resource.RLIMIT_MSGQUEUE,
    ):
        hard = resource.getrlimit(what)[1]
        if hard == resource.RLIM_INFINITY:
            raise Blocked("unlimited")
        try:
            resource.setrlimit(what, (hard + 1, hard + 1))
        except ValueError as exc:
            refused = exc
            continue
        return f"limit {what} became {hard + 1}"
    raise refused


@attempt("EPERM", "ENOMEM")
def lock_memory(facts: Facts) -> str:
    page = ctypes.create_string_buffer(8192)
    call("mlock", ctypes.addressof(page), 4096)
    return "locked: memory the host cannot take back"


@attempt("EPERM", control="real-time scheduling needs a right")
def real_time(facts: Facts) -> str:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return "before everybody else"


@attempt("EACCES", "EPERM", control="a higher priority needs a right")
def higher_priority(facts: Facts) -> str:
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return "before others"


ATTEMPTS = collected(globals())
