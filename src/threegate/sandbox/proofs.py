"""Proving the lock by trying: each forbidden act must fail, and for the right reason.

Runs inside the box after the lock and before the payload sees a byte.  An act that
succeeds, or fails for another reason than the lock, ends the gate.
"""

from __future__ import annotations

import errno
import os
import resource

from threegate.sandbox.kernel import (
    LIMITS,
    PR_GET_DUMPABLE,
    PR_GET_MDWE,
    PR_GET_NO_NEW_PRIVS,
    PR_GET_SECCOMP,
    PR_SET_DUMPABLE,
    PR_SET_MM,
    PR_SET_PTRACER,
    address,
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
    # If it did not, this process would end here, and the host would never hear it is ready.
    words = [argument, "-I", "-S", "-c", "pass"]
    _refused(f"execution of {argument}", lambda: os.execve(argument, words, {}), errno.EACCES)


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


def _kinds(_: str, numbers: dict[str, int]) -> None:
    raw, stream, mptcp = 3, 1, 262
    _refuse_kind(raw, 0, numbers)
    _refuse_kind(stream, mptcp, numbers)


def _datagram(_: str, numbers: dict[str, int]) -> None:
    datagram = 2
    _refuse_kind(datagram, 0, numbers)


def _refuse_kind(kind: int, protocol: int, numbers: dict[str, int]) -> None:
    inet = 2
    _refused(
        f"socket of kind {kind}, protocol {protocol}",
        lambda: os.close(syscall(numbers["socket"], inet, kind, protocol)),
        errno.EACCES,
    )


def _fast_open(_: str, numbers: dict[str, int]) -> None:
    flag = 0x20000000
    _refuse_sending("sendto", (-1, 0, 0, flag, 0, 0), numbers)
    _refuse_sending("sendmsg", (-1, 0, flag), numbers)
    _refuse_sending("sendmmsg", (-1, 0, 0, flag), numbers)


def _refuse_sending(name: str, arguments: tuple[int, ...], numbers: dict[str, int]) -> None:
    _refused(f"fast open by {name}", lambda: syscall(numbers[name], *arguments), errno.EPERM)


def _pair(_: str, numbers: dict[str, int]) -> None:
    unix, datagram = 1, 2
    room = buffer(bytes(8))
    _refused(
        "a pair of datagram sockets",
        lambda: syscall(numbers["socketpair"], unix, datagram, 0, room),
        errno.EACCES,
    )


def _dumpable(_: str, numbers: dict[str, int]) -> None:
    _refused("being dumpable again", lambda: prctl(PR_SET_DUMPABLE, 1), errno.EPERM)
    _refused("choosing a tracer", lambda: prctl(PR_SET_PTRACER, 0), errno.EPERM)
    _refused("changing the memory map", lambda: prctl(PR_SET_MM, 0), errno.EPERM)
    if prctl(PR_GET_DUMPABLE) != 0:
        raise LockBroken("the process is dumpable")


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
    act = lambda: syscall(numbers["pkey_mprotect"], page, 4096, 5, -1)  # noqa: E731
    _refused("making a page executable by its key", act, errno.EPERM)
    syscall(numbers["munmap"], page, 4096)


def _typing(_: str, numbers: dict[str, int]) -> None:
    byte = buffer(b"x")
    _refused("TIOCSTI", lambda: syscall(numbers["ioctl"], 0, 0x5412, byte), errno.EPERM)
    _refused("TIOCLINUX", lambda: syscall(numbers["ioctl"], 0, 0x541C, byte), errno.EPERM)


def _port(_: str, numbers: dict[str, int]) -> None:
    # Nobody listens there, and nothing is sent: without Landlock the reason would be another.
    inet, stream, loopback, unlisted = 2, 1, bytes((127, 0, 0, 1)), 1
    where = inet.to_bytes(2, "little") + unlisted.to_bytes(2, "big") + loopback + bytes(8)
    target = buffer(where)
    fd = syscall(numbers["socket"], inet, stream, 0)
    act = lambda: syscall(numbers["connect"], fd, target, 16)  # noqa: E731
    _refused("connecting to a port that is not listed", act, errno.EACCES)
    os.close(fd)


def _landlock(argument: str, numbers: dict[str, int]) -> None:
    # In view and readable for everybody: only Landlock refuses it.
    _refused(f"reading {argument}", lambda: os.close(os.open(argument, os.O_RDONLY)), errno.EACCES)


def _absent(argument: str, numbers: dict[str, int]) -> None:
    # Looked at and not opened: Landlock would refuse to open what the view shows by mistake.
    _refused(f"{argument} in view", lambda: os.stat(argument), errno.ENOENT)


def _descriptors(argument: str, numbers: dict[str, int]) -> None:
    allowed = {int(fd) for fd in argument.split(",")}
    for fd in range(1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        if fd not in allowed:
            raise LockBroken(f"descriptor {fd} is open")


def _privileges(argument: str, numbers: dict[str, int]) -> None:
    if prctl(PR_GET_NO_NEW_PRIVS) != 1 or prctl(PR_GET_SECCOMP) != 2:
        raise LockBroken("no_new_privs or seccomp is not in force")
    data = buffer(bytes(24))
    header = buffer((0x20080522).to_bytes(4, "little") + bytes(4))
    syscall(numbers["capget"], header, data)
    granted = (1 << 18).to_bytes(4, "little") if argument == "chroot" else bytes(4)
    for at in range(0, 24, 4):  # effective, permitted, inheritable; then the same for the rest
        if data.raw[at : at + 4] not in (bytes(4), granted if at < 12 else bytes(4)):
            raise LockBroken("the process has capabilities")


def _mdwe(_: str, numbers: dict[str, int]) -> None:
    if prctl(PR_GET_MDWE) & 1 != 1:
        raise LockBroken("memory-deny-write-execute is not in force")


def _alone(_: str, numbers: dict[str, int]) -> None:
    if os.getpid() > 9:  # bubblewrap's init is 1, we are the next
        raise LockBroken("the process namespace is not new")
    if os.getsid(0) == 0:  # its leader is outside: the caller's terminal and process group
        raise LockBroken("the session is the caller's")


def _ipc(_: str, numbers: dict[str, int]) -> None:
    room = buffer(bytes(64))
    syscall(numbers["shmctl"], 0, 14, room)  # SHM_INFO: it begins with the number of segments
    if any(room.raw[:4]):
        raise LockBroken("shared memory of the host is in reach")


def _network(_: str, numbers: dict[str, int]) -> None:
    # A pair of sockets needs no network, and tells which one it could not use.
    ends, room = buffer(bytes(8)), buffer(bytes(4096))
    question = buffer((4096).to_bytes(8, "little") + address(room).to_bytes(8, "little"))
    unix, stream, interfaces, entry_bytes = 1, 1, 0x8912, 40
    syscall(numbers["socketpair"], unix, stream, 0, ends)
    first, second = int.from_bytes(ends.raw[:4], "little"), int.from_bytes(ends.raw[4:8], "little")
    syscall(numbers["ioctl"], first, interfaces, question)
    os.close(first)
    os.close(second)
    used = int.from_bytes(question.raw[:4], "little")
    names = {room.raw[at : at + 16].split(b"\0")[0] for at in range(0, used, entry_bytes)}
    if names - {b"lo"}:
        raise LockBroken("the network namespace is not new")


def _host_name(argument: str, numbers: dict[str, int]) -> None:
    if os.uname().nodename != argument:
        raise LockBroken("the host's name is in view")


def _read_only(argument: str, numbers: dict[str, int]) -> None:
    # Landlock does not govern modes: only the mount refuses it.
    _refused(f"changing {argument}", lambda: os.chmod(argument, 0o700), errno.EROFS)


def _limit(argument: str, numbers: dict[str, int]) -> None:
    name, _, value = argument.partition(" ")
    if resource.getrlimit(LIMITS[name]) != (int(value), int(value)):
        raise LockBroken(f"the limit of {name} is not in force")


def _inode(argument: str, numbers: dict[str, int]) -> None:
    path, _, wanted = argument.rpartition(" ")
    found = os.stat(path)
    if f"{found.st_dev}:{found.st_ino}" != wanted:
        raise LockBroken(f"{path} is not the socket that the host gave")


_PROOFS: dict[str, Callable[[str, dict[str, int]], None]] = {
    "absent": _absent,
    "alone": _alone,
    "call": _call,
    "clone3": _clone3,
    "datagram": _datagram,
    "descriptors": _descriptors,
    "dumpable": _dumpable,
    "exec": _exec,
    "exec-other": _exec_other,
    "fast-open": _fast_open,
    "fork": _fork,
    "host-name": _host_name,
    "inode": _inode,
    "ipc": _ipc,
    "kinds": _kinds,
    "landlock": _landlock,
    "limit": _limit,
    "mdwe": _mdwe,
    "memfd": _memfd,
    "mmap-exec": _mmap_exec,
    "mprotect-exec": _mprotect_exec,
    "namespace": _namespace,
    "network": _network,
    "pair": _pair,
    "port": _port,
    "privileges": _privileges,
    "read-only": _read_only,
    "socket": _socket,
    "typing": _typing,
}
