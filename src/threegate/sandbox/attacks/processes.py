"""Reaching other processes: memory, descriptors, signals, keys, queues, terminals."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct

from threegate.sandbox.attacks.base import (
    LIBC,
    TRACING,
    WORKER,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    on_any,
)

SESSION_KEYRING = -3
KEYCTL_UNLINK, KEYCTL_SEARCH, KEYCTL_READ, KEYCTL_DESCRIBE = 9, 10, 11, 6
TIOCSTI, TIOCLINUX, TIOCSCTTY = 0x5412, 0x541C, 0x540E
IPC_STAT = 2


def _vectors(facts: Facts) -> tuple[ctypes.Array[ctypes.c_char], ...]:
    size = len(facts.secret_text)
    room = ctypes.create_string_buffer(size)
    here = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(room), size))
    there = ctypes.create_string_buffer(struct.pack("PN", facts.victim_address, size))
    return room, here, there


@attempt("EPERM", but={TRACING: "ESRCH"})
def trace_by_seize(facts: Facts) -> str:
    call("ptrace", 0x4206, facts.victim, 0, 0)
    return "seized"


@attempt("EPERM", but={TRACING: "ESRCH"})
def trace_by_attach(facts: Facts) -> str:
    call("ptrace", 16, facts.victim, 0, 0)
    call("ptrace", 17, facts.victim, 0, 0) if _stopped(facts.victim) else None
    return "attached"


def _stopped(pid: int) -> bool:
    return bool(os.waitpid(pid, 0x40000000)[0])  # __WALL


@attempt("EPERM")
def trace_own_parent(facts: Facts) -> str:
    """Inside a box the parent is bubblewrap; outside it is the test."""
    pid = facts.victim if facts.control else os.getppid()
    call("ptrace", 0x4206, pid, 0, 0)
    return "seized"


@attempt("EPERM")
def read_memory(facts: Facts) -> str:
    room, here, there = _vectors(facts)
    call("process_vm_readv", facts.victim, here, 1, there, 1, 0)
    return f"read {room.raw.decode('latin-1')}"


@attempt("EPERM")
def write_memory(facts: Facts) -> str:
    room, here, there = _vectors(facts)
    room.raw = facts.secret_text.encode()
    return f"wrote {call('process_vm_writev', facts.victim, here, 1, there, 1, 0)} bytes"


@attempt("ESRCH")
def handle_of_a_process(facts: Facts) -> str:
    return f"descriptor {call('pidfd_open', facts.victim, 0)}"


@attempt("EPERM")
def steal_a_descriptor(facts: Facts) -> str:
    process = call("pidfd_open", facts.victim if facts.control else os.getpid(), 0)
    fd = call("pidfd_getfd", process, facts.victim_fd if facts.control else 0, 0)
    return f"stole {os.pread(fd, 8, 0)!r}"


@attempt("ESRCH")
def signal_by_pid(facts: Facts) -> str:
    os.kill(facts.victim, signal.SIGWINCH)
    return "signalled"


@attempt("ESRCH", but={(WORKER,): "ESRCH"})
def signal_by_thread(facts: Facts) -> str:
    call("tgkill", facts.victim, facts.victim, signal.SIGWINCH)
    return "signalled"


@attempt("ESRCH")
def signal_by_handle(facts: Facts) -> str:
    process = call("pidfd_open", facts.victim, 0)
    call("pidfd_send_signal", process, signal.SIGWINCH, 0, 0)
    return "signalled"


@attempt("own group")
def signal_the_callers_group(facts: Facts) -> str:
    """A process group crosses process namespaces; a new session makes a new group.

    The kernel counts a signal to oneself as success, so the victim is asked what it got.
    """
    if not facts.control and os.getpgrp() != 0:
        os.killpg(0, signal.SIGWINCH)
        raise Blocked("own group")
    os.killpg(0, signal.SIGWINCH)
    return "the caller's group got a signal"


@attempt("ESRCH")
def slow_a_process(facts: Facts) -> str:
    os.setpriority(os.PRIO_PROCESS, facts.victim, 5)
    return "slowed"


@attempt("ESRCH")
def limit_a_process(facts: Facts) -> str:
    resource.prlimit(facts.victim, resource.RLIMIT_CORE, (0, 0))
    return "limited"


@attempt("ESRCH")
def move_a_process(facts: Facts) -> str:
    os.sched_setaffinity(facts.victim, os.sched_getaffinity(0))
    return "moved"


@attempt("EPERM")
def compare_processes(facts: Facts) -> str:
    mine = os.getpid()
    return f"order {call('kcmp', mine, facts.victim if facts.control else mine, 1, 0, 0)}"


@attempt("EPERM")
def advise_a_process(facts: Facts) -> str:
    process = call("pidfd_open", os.getpid(), 0)
    page = call("mmap", 0, 4096, 3, 0x22, -1, 0)
    vector = ctypes.create_string_buffer(struct.pack("PN", page, 4096))
    return f"advised {call('process_madvise', process, vector, 1, 20, 0)}"


@attempt("ESRCH")
def pages_of_a_process(facts: Facts) -> str:
    page = ctypes.c_void_p(facts.victim_address & -4096)
    status = ctypes.c_int()
    call("move_pages", facts.victim, 1, ctypes.byref(page), 0, ctypes.byref(status), 0)
    return f"status {status.value}"


OWN_PROCESSES = 16  # more than a box under attack has, fewer than any machine


@attempt("few")
def count_processes(facts: Facts) -> str:
    """Find process numbers by asking for each one's session."""
    found = 0
    for pid in range(1, 65536):  # a machine that has been up for long counts from higher up
        try:
            os.getsid(pid)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        found += 1
    if found <= OWN_PROCESSES:
        raise Blocked("few")
    return f"{found} processes"


@attempt("empty")
def environment_of_the_caller(facts: Facts) -> str:
    """Tokens and names of places live in environments: nothing of it may come along."""
    names = os.environ.keys() - {"LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "PWD"}
    if names:
        return f"sees {sorted(names)}"
    raise Blocked("empty")


@attempt("another name")
def name_of_the_host(facts: Facts) -> str:
    if socket.gethostname() != facts.host_name:
        raise Blocked("another name")
    return facts.host_name


@attempt("EPERM")
def key_of_the_session(facts: Facts) -> str:
    """The caller's session keyring comes along into the box: only the filter refuses it."""
    key = call("keyctl", KEYCTL_SEARCH, SESSION_KEYRING, b"user", facts.key_name.encode(), 0)
    room = ctypes.create_string_buffer(128)
    size = call("keyctl", KEYCTL_READ, key, room, len(room))
    return f"read {room.raw[:size].decode('latin-1')}"


@attempt("EPERM")
def key_added(facts: Facts) -> str:
    # A name of its own: every attack of one login has the same keyring.
    name = b"tg-added-" + os.urandom(8).hex().encode()
    key = call("add_key", b"user", name, b"x", 1, SESSION_KEYRING)
    with contextlib.suppress(OSError):  # a box may be able to add one and not to remove it
        call("keyctl", KEYCTL_UNLINK, key, SESSION_KEYRING)
    return "added"


@attempt("EPERM")
def key_requested(facts: Facts) -> str:
    return f"key {call('request_key', b'user', facts.key_name.encode(), 0, 0)}"


@attempt("EPERM")
def keyring_joined(facts: Facts) -> str:
    return f"keyring {call('keyctl', 1, 0)}"


@attempt("EPERM")
def segment_by_key(facts: Facts) -> str:
    return f"segment {call('shmget', facts.shm_key, 0, 0)}"


# Numbers of objects need no call the filter knows: the namespace carries these alone.
@attempt("EINVAL", "EIDRM")
def segment_by_number(facts: Facts) -> str:
    at = call("shmat", facts.shm_id, 0, 0o10000)  # SHM_RDONLY
    return f"read {ctypes.string_at(at, len(facts.secret_text)).decode('latin-1')}"


@attempt("EINVAL", "EIDRM")
def segment_looked_at(facts: Facts) -> str:
    call("shmctl", facts.shm_id, IPC_STAT, ctypes.create_string_buffer(256))
    return "seen"


@attempt("EINVAL", "EIDRM")
def semaphore_by_number(facts: Facts) -> str:
    return f"value {call('semctl', facts.sem_id, 0, 12, 0)}"  # GETVAL


@attempt("EINVAL", "EIDRM")
def messages_by_number(facts: Facts) -> str:
    call("msgctl", facts.msg_id, IPC_STAT, ctypes.create_string_buffer(256))
    return "seen"


@attempt("EPERM")
def semaphore_made(facts: Facts) -> str:
    number = call("semget", 0, 1, 0o1600)
    call("semctl", number, 0, 0, 0)
    return "made"


@attempt("EPERM")
def messages_made(facts: Facts) -> str:
    number = call("msgget", 0, 0o1600)
    call("msgctl", number, 0, 0)
    return "made"


@attempt("EPERM")
def queue_of_the_host(facts: Facts) -> str:
    return f"descriptor {call('mq_open', facts.queue.encode(), os.O_RDONLY, 0, 0)}"


@attempt("EPERM")
def type_into_the_terminal(facts: Facts) -> str:
    """Push characters into the caller's terminal: they run when the gate has ended."""
    fds = [_own_terminal()] if facts.control else [0, 1, 2]
    return on_any(map(str, fds), lambda fd: fcntl.ioctl(int(fd), TIOCSTI, b"x"))


@attempt("EPERM", control="only the text console has it")
def paste_into_the_console(facts: Facts) -> str:
    return on_any("012", lambda fd: fcntl.ioctl(int(fd), TIOCLINUX, b"\x03"))


@attempt("EPERM")
def type_with_high_bits_set(facts: Facts) -> str:
    """The kernel looks at 32 bits of the request: a filter on 64 would be blind."""
    fd = _own_terminal() if facts.control else 0
    call("ioctl", fd, 0xFFFFFFFF00000000 | TIOCSTI, ctypes.create_string_buffer(b"x"))
    return "typed"


def _own_terminal() -> int:
    os.setsid()
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, TIOCSCTTY, 0)
    return terminal


@attempt("ENOENT")
def open_the_terminal(facts: Facts) -> str:
    if facts.control:
        _own_terminal()
    return f"descriptor {os.open('/dev/tty', os.O_RDWR)}"


@attempt("ENXIO", "ENOENT")
def take_a_terminal(facts: Facts) -> str:
    return f"descriptor {os.openpty()[0]}"


@attempt("own session")
def session_of_the_caller(facts: Facts) -> str:
    if not facts.control and os.getsid(0) != 0:
        raise Blocked("own session")
    return f"session {os.getsid(0)}"


@attempt("none")
def core_dump(facts: Facts) -> str:
    """A core dump hands memory to a program of the host, which runs as root.

    A limit of 0 stops files; only 1 stops the pipe to such a program.
    """
    soft = resource.getrlimit(resource.RLIMIT_CORE)[0]
    if LIBC.prctl(3, 0, 0, 0, 0) == 0 and soft == 1:  # PR_GET_DUMPABLE
        raise Blocked("none")
    return f"dumpable {LIBC.prctl(3, 0, 0, 0, 0)}, limit {soft}"


ATTEMPTS = collected(globals())
