"""Changing what is in view: content, names, rights, times, attributes, mounts."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from contextlib import suppress

from threegate.sandbox.attacks.base import (
    CLONE_NEWNS,
    HOST_NETWORK,
    Facts,
    attempt,
    call,
    collected,
    namespace_root,
    on_any,
)

AT_FDCWD = -100
# Everything in view lies on a read-only mount, and Landlock grants no right to write.
_REFUSED = ("EACCES", "EROFS")


def _open(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


@attempt(*_REFUSED)
def append(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: _open(path, os.O_WRONLY | os.O_APPEND))


@attempt(*_REFUSED)
def open_read_write(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: _open(path, os.O_RDWR))


@attempt(*_REFUSED)
def cut_by_open(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: _open(path, os.O_WRONLY | os.O_TRUNC))


@attempt(*_REFUSED)
def cut(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.truncate(path, 0))


@attempt("EINVAL")
def cut_by_read_descriptor(facts: Facts) -> str:
    """Outside it is refused too, unless the descriptor was opened for writing."""
    mode = os.O_RDWR if facts.control else os.O_RDONLY
    return on_any(facts.targets, lambda path: os.ftruncate(os.open(path, mode), 1))


@attempt("EACCES")
def write_by_shared_mapping(facts: Facts) -> str:
    def change(path: str) -> None:
        fd = os.open(path, os.O_RDWR if facts.control else os.O_RDONLY)
        mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close()

    return on_any(facts.targets, change)


@attempt(*_REFUSED)
def create(facts: Facts) -> str:
    flags = os.O_WRONLY | os.O_CREAT
    return on_any(facts.places, lambda place: _open(f"{place}/new", flags))


@attempt(*_REFUSED, "EOPNOTSUPP")
def create_without_a_name(facts: Facts) -> str:
    return on_any(facts.places, lambda place: _open(place, os.O_TMPFILE | os.O_RDWR))


@attempt(*_REFUSED)
def make_directory(facts: Facts) -> str:
    return on_any(facts.places, lambda place: os.mkdir(f"{place}/directory"))


@attempt(*_REFUSED)
def make_symlink(facts: Facts) -> str:
    return on_any(facts.places, lambda place: os.symlink("/", f"{place}/link"))


@attempt(*_REFUSED, "EXDEV")
def make_hard_link(facts: Facts) -> str:
    return on_any(facts.places, lambda place: os.link(facts.targets[0], f"{place}/hard"))


@attempt("EPERM")
def make_pipe(facts: Facts) -> str:
    return on_any(facts.places, lambda place: os.mkfifo(f"{place}/pipe"))


@attempt("EPERM", machine="x86_64")
def make_pipe_by_the_old_call(facts: Facts) -> str:
    def make(place: str) -> None:
        call("mknod", os.fsencode(f"{place}/old-pipe"), 0o010600, 0)

    return on_any(facts.places, make)


@attempt("EPERM", control="device nodes need root of the first user namespace")
def make_device(facts: Facts) -> str:
    device = os.makedev(1, 1)  # memory
    return on_any(facts.places, lambda place: os.mknod(f"{place}/memory", 0o020600, device))


@attempt(*_REFUSED, but={HOST_NETWORK: "EPERM"})
def make_socket(facts: Facts) -> str:
    import socket

    def bind(place: str) -> None:
        first, second = socket.socketpair()
        with first, second:
            first.bind(f"{place}/socket")

    if not facts.control:
        return on_any(facts.places, bind)
    directory = os.open(facts.places[0], os.O_RDONLY | os.O_DIRECTORY)
    try:  # by descriptor: the path of the control's place may be too long for a socket
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(f"/proc/self/fd/{directory}/socket")
    finally:
        os.close(directory)
    return "bound"


@attempt(*_REFUSED, "EXDEV", "EBUSY")
def rename(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.rename(path, path + ".away"))


@attempt(*_REFUSED, "EBUSY")
def remove(facts: Facts) -> str:
    return on_any(facts.targets, os.unlink)


@attempt(*_REFUSED, "EBUSY", "ENOTEMPTY")
def remove_directory(facts: Facts) -> str:
    if facts.control:
        os.mkdir(f"{facts.places[0]}/empty")
        return on_any([f"{facts.places[0]}/empty"], os.rmdir)
    return on_any(facts.places, os.rmdir)


# Landlock does not govern rights, times and attributes: the read-only mount carries these alone.
@attempt("EROFS")
def change_mode(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.chmod(path, 0o777))


@attempt("EROFS")
def change_mode_by_descriptor(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.chmod(os.open(path, os.O_RDONLY), 0o777))


@attempt("EROFS", control="fchmodat2 came with Linux 6.6")
def change_mode_by_the_new_call(facts: Facts) -> str:
    def change(path: str) -> None:
        call("fchmodat2", AT_FDCWD, os.fsencode(path), 0o777, 0)

    return on_any(facts.targets, change)


@attempt("EROFS")
def change_mode_of_directory(facts: Facts) -> str:
    return on_any(facts.places, lambda place: os.chmod(place, 0o777))


@attempt("EROFS")
def change_owner(facts: Facts) -> str:
    uid, gid = os.getuid(), os.getgid()
    return on_any(facts.targets, lambda path: os.chown(path, uid, gid))


@attempt("EPERM")
def change_times(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.utime(path, (1, 1)))


@attempt("EPERM")
def change_times_to_now(facts: Facts) -> str:
    return on_any(facts.targets, os.utime)


@attempt("EROFS")
def set_attribute(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: os.setxattr(path, "user.tg", b"x"))


@attempt("EROFS")
def remove_attribute(facts: Facts) -> str:
    def remove_one(path: str) -> None:
        if facts.control:
            os.setxattr(path, "user.tg", b"x")
        os.removexattr(path, "user.tg")

    return on_any(facts.targets, remove_one)


@attempt("EROFS", "EPERM", "ENOTTY", "EACCES")
def set_inode_flags(facts: Facts) -> str:
    def change(path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        held = bytes(8)
        # The flags it has stay: to drop "extents" as well asks ext4 to lay the file out
        # again, which fails for some files, and then it is not the sandbox that refused.
        with suppress(OSError):
            held = fcntl.ioctl(fd, 0x80086601, held)  # FS_IOC_GETFLAGS
        wanted = struct.unpack("l", held)[0] | 0x80
        fcntl.ioctl(fd, 0x40086602, struct.pack("l", wanted))  # FS_IOC_SETFLAGS, no atime

    return on_any(facts.targets, change)


@attempt("EBADF", "EACCES", "EROFS")
def copy_into(facts: Facts) -> str:
    def change(path: str) -> None:
        source = os.open(facts.targets[-1], os.O_RDONLY)
        target = os.open(path, os.O_RDWR if facts.control else os.O_RDONLY)
        os.copy_file_range(source, target, 1)

    return on_any(facts.targets[:-1], change)


@attempt("EBADF")
def allocate_in(facts: Facts) -> str:
    def change(path: str) -> None:
        fd = os.open(path, os.O_RDWR if facts.control else os.O_RDONLY)
        os.posix_fallocate(fd, 0, 4096)

    return on_any(facts.targets, change)


@attempt("EPERM")
def remount_writable(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    if facts.control:
        call("mount", b"none", os.fsencode(facts.places[0]), b"tmpfs", 0, 0)
    call("mount", 0, os.fsencode(facts.places[0]), 0, 0x20 | 0x1000 if facts.control else 0x20, 0)
    return "remounted"


@attempt("EPERM")
def remount_writable_by_the_new_call(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    change = ctypes.create_string_buffer(struct.pack("<QQQQ", 0, 1, 0, 0))
    if facts.control:
        call("mount", b"none", os.fsencode(facts.places[0]), b"tmpfs", 0, 0)
    call("mount_setattr", AT_FDCWD, os.fsencode(facts.places[0]), 0, change, 32)
    return "changed"


@attempt("EPERM")
def cover_with_a_mount(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    return on_any(facts.places, lambda p: call("mount", b"none", os.fsencode(p), b"tmpfs", 0, 0))


@attempt("EPERM", machine="x86_64")
def change_times_by_the_old_call(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: call("utime", os.fsencode(path), 0))


@attempt("EPERM", machine="x86_64")
def change_times_by_utimes(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: call("utimes", os.fsencode(path), 0))


@attempt("EPERM", machine="x86_64")
def change_times_by_futimesat(facts: Facts) -> str:
    return on_any(facts.targets, lambda path: call("futimesat", AT_FDCWD, os.fsencode(path), 0))


# A device must be bound writable, and everybody may touch this one: its times are the host's.
@attempt("EPERM", only=("tool-lite",))
def times_of_a_device(facts: Facts) -> str:
    os.utime("/dev/null")
    return "the host's /dev/null was touched"


ATTEMPTS = collected(globals())
