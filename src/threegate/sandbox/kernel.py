"""Raw system calls from the standard library alone.

Imported inside every box before the lock: few and fast imports only.
"""

from __future__ import annotations

import ctypes
import os
import resource

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
