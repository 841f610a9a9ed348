"""Bringing new machine code into this process, and calling the kernel by a foreign ABI."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

from threegate.sandbox.attacks.base import (
    ARCH,
    CHANGING_ROOT,
    EXECUTING,
    JUST_IN_TIME,
    LIBC,
    SCRATCH,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    library_of,
)

PAGE = 4096
READ, WRITE, EXEC = 1, 2, 4
PRIVATE, SHARED, ANONYMOUS = 2, 1, 0x20
READ_IMPLIES_EXEC = 0x0400000
X32_BIT = 0x40000000
# return 42;
RETURN_42 = {"x86_64": b"\xb8\x2a\0\0\0\xc3", "aarch64": b"\x40\x05\x80\x52\xc0\x03\x5f\xd6"}


def _map(protection: int, flags: int = PRIVATE | ANONYMOUS, fd: int = -1) -> int:
    return call("mmap", 0, PAGE, protection, flags, fd, 0)


def _page() -> int:
    """Return the address of a writable page that holds code."""
    at = _map(READ | WRITE)
    ctypes.memmove(at, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    return at


def _execute(at: int) -> str:
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    return f"own code ran and said {answer}"


@attempt("EPERM", granted=JUST_IN_TIME)
def page_writable_and_executable(facts: Facts) -> str:
    at = _map(READ | WRITE | EXEC)
    ctypes.memmove(at, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    return _execute(at)


@attempt("EPERM", granted=JUST_IN_TIME)
def page_executable(facts: Facts) -> str:
    return f"mapped at {_map(READ | EXEC):#x}"


@attempt("EPERM", granted=JUST_IN_TIME)
def page_made_executable(facts: Facts) -> str:
    at = _page()
    call("mprotect", at, PAGE, READ | EXEC)
    return _execute(at)


@attempt("EPERM", granted=JUST_IN_TIME)
def page_made_executable_by_key_call(facts: Facts) -> str:
    at = _page()
    call("pkey_mprotect", at, PAGE, READ | EXEC, -1)
    return _execute(at)


@attempt("EPERM", granted=JUST_IN_TIME)
def heap_made_executable(facts: Facts) -> str:
    buffer = ctypes.create_string_buffer(4 * PAGE)
    start = (ctypes.addressof(buffer) + PAGE - 1) & -PAGE
    call("mprotect", start, PAGE, READ | WRITE | EXEC)
    return "the heap is code"


@attempt("EPERM", granted=JUST_IN_TIME)
def code_made_writable(facts: Facts) -> str:
    """Change the C library in memory: executable first, writable in addition."""
    at = (ctypes.cast(LIBC.getpid, ctypes.c_void_p).value or 0) & -PAGE
    call("mprotect", at, PAGE, READ | WRITE | EXEC)
    return "the C library can be written"


@attempt("EPERM", granted=EXECUTING)
def file_mapped_executable(facts: Facts) -> str:
    fd = os.open(library_of("getpid")[0], os.O_RDONLY)
    return f"mapped at {_map(READ | EXEC, PRIVATE, fd):#x}"


@attempt("EPERM", granted=JUST_IN_TIME)
def file_mapped_writable_and_executable(facts: Facts) -> str:
    fd = os.open(library_of("getpid")[0], os.O_RDONLY)
    return f"mapped at {_map(READ | WRITE | EXEC, PRIVATE, fd):#x}"


@attempt("EPERM", granted=JUST_IN_TIME)
def file_made_executable(facts: Facts) -> str:
    """Map a file as private data, change it, make the copy code."""
    fd = os.open(library_of("getpid")[0], os.O_RDONLY)
    at = _map(READ | WRITE, PRIVATE, fd)
    ctypes.memmove(at, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    call("mprotect", at, PAGE, READ | EXEC)
    return _execute(at)


@attempt("EPERM", granted=JUST_IN_TIME)
def one_file_two_mappings(facts: Facts) -> str:
    """Write through one mapping of a memory file, execute through another."""
    fd = os.memfd_create("x")
    os.ftruncate(fd, PAGE)
    writable = _map(READ | WRITE, SHARED, fd)
    ctypes.memmove(writable, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    return _execute(_map(READ | EXEC, SHARED, fd))


@attempt("EROFS", "EACCES", granted=SCRATCH)
def dropped_file_two_mappings(facts: Facts) -> str:
    place = facts.scratch or facts.places[0]
    fd = os.open(f"{place}/code", os.O_RDWR | os.O_CREAT, 0o700)
    os.ftruncate(fd, PAGE)
    writable = _map(READ | WRITE, SHARED, fd)
    ctypes.memmove(writable, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    return _execute(_map(READ | EXEC, SHARED, fd))


@attempt("EPERM")
def shared_segment_executable(facts: Facts) -> str:
    segment = call("shmget", 0, PAGE, 0o1700)
    try:
        at = call("shmat", segment, 0, 0o100000)  # SHM_EXEC
    finally:
        call("shmctl", segment, 0, 0)
    ctypes.memmove(at, RETURN_42[ARCH.name], len(RETURN_42[ARCH.name]))
    return _execute(at)


@attempt("EPERM")
def personality_readable_is_executable(facts: Facts) -> str:
    call("personality", READ_IMPLIES_EXEC)
    return _execute(_page())


@attempt("EPERM", granted=JUST_IN_TIME)
def moved_page_made_executable(facts: Facts) -> str:
    """A page that was moved is still not code."""
    at = call("mremap", _page(), PAGE, 2 * PAGE, 1)
    call("mprotect", at, PAGE, READ | EXEC)
    return _execute(at)


@attempt("EPERM", granted=JUST_IN_TIME)
def growing_stack_executable(facts: Facts) -> str:
    at = (ctypes.c_void_p.in_dll(LIBC, "__libc_stack_end").value or 0) & -PAGE
    call("mprotect", at, PAGE, READ | WRITE | EXEC | 0x01000000)  # PROT_GROWSDOWN
    return "the stack is code"


@attempt("ENOENT", but={CHANGING_ROOT: "EACCES"})
def own_memory_file(facts: Facts) -> str:
    """/proc/self/mem ignores page protection."""
    at = ctypes.cast(LIBC.getpid, ctypes.c_void_p).value or 0
    with open("/proc/self/mem", "r+b", buffering=0) as file:
        file.seek(at)
        first = file.read(1)
        file.seek(at)
        file.write(first)
    return "own code written"


@attempt("EPERM")
def own_memory_by_process_vm(facts: Facts) -> str:
    buffer = ctypes.create_string_buffer(b"x")
    vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(buffer), 1))
    return f"wrote {call('process_vm_writev', os.getpid(), vector, 1, vector, 1, 0)}"


def _interrupt() -> int:
    """Return the address of the bytes of `int 0x80` in code that is already mapped."""
    path, base = library_of("getpid")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
        (offset,) = struct.unpack_from("<Q", image, 32)
        size, count = struct.unpack_from("<HH", image, 54)
        for number in range(count):
            kind, flags, at, address, _, length = struct.unpack_from(
                "<IIQQQQ", image, offset + number * size
            )
            found = image.find(b"\xcd\x80", at, at + length)
            if kind == 1 and flags & 1 and found >= 0:
                return int(base + address + found - at)
    raise Blocked("no such bytes")


# Numbers of another ABI mean other calls: a filter by number would be blind.  libffi puts the
# number of floating arguments into eax, so none means call 0 (restart_syscall).
@attempt("SIGSYS", alone=True, machine="x86_64")
def i386_call(facts: Facts) -> str:
    if facts.control:
        at = _map(READ | WRITE | EXEC)
        ctypes.memmove(at, b"\xcd\x80\xc3", 3)
    else:
        at = _interrupt()
    return f"the kernel answered {ctypes.CFUNCTYPE(ctypes.c_int)(at)()}"


@attempt("SIGSYS", alone=True, machine="x86_64", control="the kernel is built without x32")
def x32_call(facts: Facts) -> str:
    return f"the kernel answered {call_number(X32_BIT | ARCH.numbers['getpid'])}"


@attempt("SIGSYS", alone=True, machine="x86_64", control="there is no call with this number")
def call_with_every_bit(facts: Facts) -> str:
    return f"the kernel answered {call_number(-1)}"


@attempt("ENOSYS", control="there is no call with this number")
def call_of_the_future(facts: Facts) -> str:
    return f"the kernel answered {call_number(ARCH.last_known + 1)}"


def call_number(number: int) -> int:
    """Make a call by number alone."""
    result: int = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


ATTEMPTS = collected(globals())
