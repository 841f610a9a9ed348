"""Raw system calls and Landlock, with the standard library alone.

Every box imports this module before the lock, so its imports are few and fast.

Landlock limits the files of the process, independently of the file view.  It is a second layer
under the namespaces.  Its network rules cover plain TCP only (TCP fast open, MPTCP and UDP
pass), so the empty network namespace and the socket filter carry the network.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct

TYPE_CHECKING = False  # importing typing would cost more than the rest of this module
if TYPE_CHECKING:
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

# The limits of a profile, by the names its orders use.
LIMITS = {
    "address_space": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "file_size": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}

PR_SET_PDEATHSIG = 1
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_GET_SECCOMP = 21
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_SET_MM = 35
PR_SET_PTRACER = 0x59616D61
PR_SET_MDWE = 65
PR_GET_MDWE = 66


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call; raise `OSError` if it fails."""
    plain = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *plain)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, *arguments: int) -> int:
    """Call prctl with its unused arguments zero, as some options demand."""
    result: int = _LIBC.prctl(option, *[ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]])
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Mount, for the root supervisor's private view."""
    name = kind.encode() if kind else None
    if _LIBC.mount(source.encode(), target.encode(), name, ctypes.c_ulong(flags), None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def buffer(data: bytes) -> Any:
    """Return memory the kernel can read or write."""
    return ctypes.create_string_buffer(data, len(data))


def filter_program(program: bytes) -> tuple[Any, Any]:
    """Return a struct sock_fprog for BPF bytes, and the memory it points to."""

    class SockFprog(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    memory = buffer(program)
    return SockFprog(len(program) // 8, ctypes.addressof(memory)), memory


def address(memory: Any) -> int:
    """Return where memory lies, for a structure that points to it."""
    return ctypes.addressof(memory)


def pointer(value: Any) -> Any:
    """Return a pointer argument."""
    return ctypes.byref(value)


# Landlock

_CREATE = 444
_ADD_RULE = 445
_RESTRICT = 446
_ABI_QUESTION = 1
_RULE_PATH = 1
_RULE_PORT = 2

EXECUTE = 1
WRITE_FILE = 2
READ_FILE = 4
READ_DIR = 8
ALL_V1 = (1 << 13) - 1
REFER = 1 << 13  # from ABI 2
TRUNCATE = 1 << 14  # from ABI 3
IOCTL_DEVICE = 1 << 15  # from ABI 5
_MAKE = 0x1FF0 & ~(1 << 6) & ~(1 << 11)  # make and remove files, no device nodes
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE

CONNECT_TCP = 2
BIND_TCP = 1
SCOPE_ALL = 3  # abstract Unix sockets and signals, from ABI 6

RIGHTS = {
    "r": READ_FILE | READ_DIR,
    "d": READ_DIR,
    "w": WRITE_FILE | TRUNCATE | _MAKE,
    "x": EXECUTE,
    "i": IOCTL_DEVICE,
}


def abi() -> int:
    """Return the ABI the kernel offers, 0 for none."""
    try:
        return syscall(_CREATE, 0, 0, _ABI_QUESTION)
    except OSError:
        return 0


def handled(version: int) -> tuple[int, int, int]:
    """Return what a ruleset can govern: file rights, network rights, scopes."""
    files = ALL_V1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        if version >= since:
            files |= right
    return files, (BIND_TCP | CONNECT_TCP) if version >= 4 else 0, SCOPE_ALL if version >= 6 else 0


def restrict(paths: list[tuple[str, str]], ports: list[int], version: int) -> None:
    """Allow only these paths (with rights out of `rdwxi`) and TCP ports; raise `OSError`."""
    files, network, scopes = handled(version)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("<QQQ", files, network, scopes)[:size]
    ruleset = syscall(_CREATE, attributes, len(attributes), 0)
    try:
        for path, letters in paths:
            _allow_path(ruleset, path, letters, files)
        if network:
            for port in ports:
                rule = struct.pack("<QQ", CONNECT_TCP, port)
                syscall(_ADD_RULE, ruleset, _RULE_PORT, rule, 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, letters: str, files: int) -> None:
    rights = 0
    for letter in letters:
        rights |= RIGHTS[letter]
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= ON_FILES
        syscall(_ADD_RULE, ruleset, _RULE_PATH, struct.pack("<Qi", rights & files, fd), 0)
    finally:
        os.close(fd)
