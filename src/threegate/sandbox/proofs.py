"""Proving the lock by trying: each forbidden act must fail, and for the right reason.

Runs inside the box after the lock and before the payload sees a byte.  An act that
succeeds, or fails for another reason than the lock, ends the gate.
"""

from __future__ import annotations

import errno
import os

from threegate.sandbox.kernel import (
    PR_GET_MDWE,
    PR_GET_NO_NEW_PRIVS,
    PR_GET_SECCOMP,
    buffer,
    prctl,
    syscall,
)

TYPE_CHECKING = False  # importing collections would cost more than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable


class LockBroken(Exception):
    """A forbidden act was possible."""


def prove(name: str, numbers: dict[str, int]) -> None:
    """Try one act; raise `LockBroken` unless it fails as it must."""
    kind, _, argument = name.partition(":")
    _PROOFS[kind](argument, numbers)


def _refused(what: str, act: Callable[[], object], *codes: int) -> None:
    try:
        act()
    except OSError as exc:
        if exc.errno in codes:
            return
        reason = errno.errorcode.get(exc.errno or 0, "?")
        raise LockBroken(f"{what} failed with {reason}, not by the lock") from exc
    raise LockBroken(f"{what} was possible")


def _call(argument: str, numbers: dict[str, int]) -> None:
    # Arguments no kernel would accept: without the filter the reason would be another.
    _refused(argument, lambda: syscall(numbers[argument], -1, -1, -1, -1, -1), errno.EPERM)


def _exec(_: str, numbers: dict[str, int]) -> None:
    _refused("execve", lambda: os.execve("/nowhere", ["x"], {}), errno.EPERM)


def _exec_other(argument: str, numbers: dict[str, int]) -> None:
    # The gate may start its worker; Landlock must refuse everything else that is in view.
    def run() -> None:
        pid = os.posix_spawn(argument, [argument, "-I", "-S", "-c", "pass"], {})
        os.waitpid(pid, 0)

    _refused(f"execution of {argument}", run, errno.EACCES)


def _fork(_: str, numbers: dict[str, int]) -> None:
    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    _refused("fork", fork, errno.EPERM)


def _clone3(_: str, numbers: dict[str, int]) -> None:
    _refused("clone3", lambda: syscall(numbers["clone3"], 0, 0), errno.ENOSYS)


def _namespace(_: str, numbers: dict[str, int]) -> None:
    new_user = 0x10000000 | 17  # SIGCHLD
    _refused(
        "clone into a namespace",
        lambda: syscall(numbers["clone"], new_user, 0, 0, 0, 0),
        errno.EPERM,
    )


def _socket(argument: str, numbers: dict[str, int]) -> None:
    stream = 1
    _refused(
        f"socket of family {argument}",
        lambda: os.close(syscall(numbers["socket"], int(argument), stream, 0)),
        errno.EACCES,
    )


def _memfd(_: str, numbers: dict[str, int]) -> None:
    name = buffer(b"x\0")
    _refused(
        "memfd_create", lambda: os.close(syscall(numbers["memfd_create"], name, 0)), errno.EPERM
    )


def _mmap_exec(_: str, numbers: dict[str, int]) -> None:
    private_anonymous = 0x22
    _refused(
        "an executable page",
        lambda: syscall(numbers["mmap"], 0, 4096, 5, private_anonymous, -1, 0),
        errno.EPERM,
    )


def _mprotect_exec(_: str, numbers: dict[str, int]) -> None:
    private_anonymous = 0x22
    page = syscall(numbers["mmap"], 0, 4096, 3, private_anonymous, -1, 0)
    act = lambda: syscall(numbers["mprotect"], page, 4096, 5)  # noqa: E731
    _refused("making a page executable", act, errno.EPERM)
    syscall(numbers["munmap"], page, 4096)


def _tiocsti(_: str, numbers: dict[str, int]) -> None:
    byte = buffer(b"x")
    _refused("TIOCSTI", lambda: syscall(numbers["ioctl"], 0, 0x5412, byte), errno.EPERM)


def _landlock(argument: str, numbers: dict[str, int]) -> None:
    # In view and readable for everybody: only Landlock stands in the way.
    _refused(f"reading {argument}", lambda: os.close(os.open(argument, os.O_RDONLY)), errno.EACCES)


def _absent(argument: str, numbers: dict[str, int]) -> None:
    _refused(
        f"{argument} in view",
        lambda: os.close(os.open(argument, os.O_RDONLY)),
        errno.ENOENT,
        errno.EACCES,
    )


def _descriptors(argument: str, numbers: dict[str, int]) -> None:
    allowed = {int(fd) for fd in argument.split(",")}
    for fd in range(1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        if fd not in allowed:
            raise LockBroken(f"descriptor {fd} is open")


def _privileges(_: str, numbers: dict[str, int]) -> None:
    if prctl(PR_GET_NO_NEW_PRIVS) != 1 or prctl(PR_GET_SECCOMP) != 2:
        raise LockBroken("no_new_privs or seccomp is not in force")
    data = buffer(bytes(24))
    header = buffer((0x20080522).to_bytes(4, "little") + bytes(4))
    syscall(numbers["capget"], header, data)
    if any(data.raw):
        raise LockBroken("the process has capabilities")


def _mdwe(_: str, numbers: dict[str, int]) -> None:
    if prctl(PR_GET_MDWE) & 1 != 1:
        raise LockBroken("memory-deny-write-execute is not in force")


def _alone(_: str, numbers: dict[str, int]) -> None:
    if os.getpid() > 9:  # bubblewrap's init is 1, we are the next
        raise LockBroken("the process namespace is not new")


_PROOFS: dict[str, Callable[[str, dict[str, int]], None]] = {
    "absent": _absent,
    "alone": _alone,
    "call": _call,
    "clone3": _clone3,
    "descriptors": _descriptors,
    "exec": _exec,
    "exec-other": _exec_other,
    "fork": _fork,
    "landlock": _landlock,
    "mdwe": _mdwe,
    "memfd": _memfd,
    "mmap-exec": _mmap_exec,
    "mprotect-exec": _mprotect_exec,
    "namespace": _namespace,
    "privileges": _privileges,
    "socket": _socket,
    "tiocsti": _tiocsti,
}
