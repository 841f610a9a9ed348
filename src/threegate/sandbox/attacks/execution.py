"""Starting another program, or new machine code in this one; a Monty worker against its gate.

`payload` keeps a real worker alive while everything else is tried in tool-lite and under the
worker's own lock; the last attempt checks whether the worker still computes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import subprocess
import sys

from threegate.sandbox.attacks.base import (
    ARCH,
    CLONE_NEWUSER,
    EXECUTING,
    FORKING,
    JUST_IN_TIME,
    LIBC,
    SCRATCH,
    SIGCHLD,
    WORKER,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    library_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

AT_EMPTY_PATH = 0x1000
AT_FDCWD = -100

# Nothing at all may be executed: the filter.  Only its worker may: Landlock.
_LANDLOCK = {EXECUTING: "EACCES"}


def _ran(start: Callable[[], Any]) -> str:
    """Exec in a child where there can be one, else in place; a return means it was refused."""
    try:
        pid = os.fork()
    except OSError:
        start()
        raise Blocked("returned") from None
    if pid == 0:
        try:
            start()
        except OSError as exc:
            os._exit(min(exc.errno or 250, 250))
        except BaseException:  # noqa: BLE001  # a child must never return into the caller
            os._exit(251)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "refused") if 0 < code < 134 else Blocked(f"status {code}")
    return "ran"


_PASS = ["x", "-I", "-S", "-c", "raise SystemExit(0)"]


@attempt("EPERM", but={EXECUTING: "ENOENT"})
def execve_shell(facts: Facts) -> str:
    return _ran(lambda: os.execve("/bin/sh", ["sh", "-c", "exit 0"], {}))


@attempt("EPERM", but=_LANDLOCK)
def execve_interpreter(facts: Facts) -> str:
    return _ran(lambda: os.execve(sys.executable, _PASS, {}))


@attempt("EPERM", but=_LANDLOCK)
def execve_relative(facts: Facts) -> str:
    """By a path that climbs: Landlock must judge the file, not the spelling."""
    path = os.path.dirname(sys.executable) + "/../bin/" + os.path.basename(sys.executable)
    return _ran(lambda: os.execve(path, _PASS, {}))


@attempt("EPERM", but=_LANDLOCK)
def execve_shared_library(facts: Facts) -> str:
    """The C library is a program too: it prints its version."""
    return _ran(lambda: os.execve(library_of("getpid")[0], ["libc"], {}))


# Where a worker may start, its loader may; a program it starts stays under the same lock.
@attempt("EPERM", granted=EXECUTING)
def loader_runs_a_program(facts: Facts) -> str:
    return _ran(lambda: os.execve(_loader(), ["ld.so", sys.executable, *_PASS[1:]], {}))


@attempt("EPERM")
def execveat_descriptor(facts: Facts) -> str:
    fd = os.open(sys.executable, os.O_RDONLY)
    return _ran(lambda: _execveat(fd, b"", AT_EMPTY_PATH))


@attempt("EPERM")
def execveat_path(facts: Facts) -> str:
    return _ran(lambda: _execveat(AT_FDCWD, os.fsencode(sys.executable), 0))


def _execveat(fd: int, path: bytes, flags: int) -> None:
    words = [word.encode() for word in _PASS]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    call("execveat", fd, path, argv, (ctypes.c_char_p * 1)(None), flags)


@attempt("EPERM")
def fexecve(facts: Facts) -> str:
    fd = os.open(sys.executable, os.O_RDONLY)
    return _ran(lambda: os.execve(fd, _PASS, {}))


def _in_memory(content: bytes) -> str:
    fd = os.memfd_create("x", 0)
    os.write(fd, content)
    return _ran(lambda: os.execve(fd, _PASS, {}))


@attempt("EPERM")
def memory_file_script(facts: Facts) -> str:
    return _in_memory(f"#!{sys.executable} -ISc'raise SystemExit(0)'\n".encode())


@attempt("EPERM")
def memory_file_program(facts: Facts) -> str:
    with open(sys.executable, "rb") as file:
        return _in_memory(file.read())


# Landlock does not see memory files: a program that needs no loader would run.
@attempt("EPERM")
def memory_file_static_program(facts: Facts) -> str:
    return _in_memory(_tiny_program())


@attempt("EPERM", but={("engine",): "EPERM"})
def secret_memory_file(facts: Facts) -> str:
    os.close(call("memfd_secret", 0))
    return "a file no one else can see"


def _tiny_program() -> bytes:
    """Return a static program that ends with 0."""
    code = {
        "x86_64": b"\x31\xff\xb8\x3c\0\0\0\x0f\x05",
        "aarch64": b"\0\0\x80\xd2\xa8\x0b\x80\xd2\x01\0\0\xd4",
    }[ARCH.name]
    kind = {"x86_64": 62, "aarch64": 183}[ARCH.name]
    base, start = 0x400000, 64 + 56
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 2, kind, 1, base + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = start + len(code)
    return ident + head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + code


def _dropped(facts: Facts, name: str, content: bytes) -> str:
    """Put a file where this box can write; everything it sees, if there is no such place."""
    for place in [facts.scratch] if facts.scratch else facts.places:
        path = f"{place}/{name}"
        try:
            with open(path, "wb") as file:
                file.write(content)
            os.chmod(path, 0o755)
        except OSError as exc:
            refused = exc
            continue
        return path
    raise refused


_NO_PLACE = {SCRATCH: "EACCES"}  # it can be written, and Landlock refuses to execute it


@attempt("EACCES", "EROFS", but=_NO_PLACE)
def dropped_program(facts: Facts) -> str:
    path = _dropped(facts, "program", _tiny_program())
    return _ran(lambda: os.execve(path, ["x"], {}))


@attempt("EACCES", "EROFS", but=_NO_PLACE)
def dropped_script(facts: Facts) -> str:
    path = _dropped(facts, "script", f"#!{sys.executable}\nraise SystemExit(0)\n".encode())
    return _ran(lambda: os.execve(path, ["x"], {}))


@attempt("EACCES", "EROFS", granted=JUST_IN_TIME)
def dropped_library(facts: Facts) -> str:
    with open(unused_library(), "rb") as file:
        path = _dropped(facts, "library.so", file.read())
    return _loaded(path)


@attempt("not loaded", granted=EXECUTING)
def library_in_view(facts: Facts) -> str:
    """Even a library that is in view must not be mapped as code after the lock."""
    return _loaded(unused_library())


def _loaded(path: str) -> str:
    try:
        ctypes.CDLL(path)
    except OSError as exc:
        raise OSError(exc.errno, str(exc)) if exc.errno else Blocked("not loaded") from exc
    return "native code loaded"


@attempt("EPERM", but={FORKING: "EACCES"})
def posix_spawn(facts: Facts) -> str:
    pid = os.posix_spawn(sys.executable, _PASS, {})
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise Blocked(f"status {status}")
    return "spawned"


@attempt("EPERM", but={FORKING: "EACCES"})
def subprocess_run(facts: Facts) -> str:
    done = subprocess.run([sys.executable, *_PASS[1:]], check=False, env={}, timeout=10)
    if done.returncode:
        raise Blocked(f"status {done.returncode}")
    return "ran"


@attempt("no shell")
def system_shell(facts: Facts) -> str:
    if LIBC.system(b"exit 0") != 0:
        raise Blocked("no shell")
    return "ran"


@attempt("EPERM", granted=FORKING)
def fork(facts: Facts) -> str:
    return _child(os.fork)


@attempt("EPERM", granted=FORKING)
def fork_by_raw_clone(facts: Facts) -> str:
    return _child(lambda: call("clone", SIGCHLD, 0, 0, 0, 0))


@attempt("EPERM", granted=FORKING)
def fork_by_parent_clone(facts: Facts) -> str:
    """CLONE_PARENT: a sibling, which no limit of ours would reap."""
    return _child(lambda: call("clone", 0x8000 | SIGCHLD, 0, 0, 0, 0), mine=False)


@attempt("EPERM", granted=FORKING, machine="x86_64")
def fork_by_number(facts: Facts) -> str:
    return _child(lambda: call("fork"))


@attempt(
    "EPERM",
    granted=FORKING,
    machine="x86_64",
    control="parent and child share a stack: it would not survive to tell",
)
def vfork_by_number(facts: Facts) -> str:
    if facts.control:
        raise Blocked("not tried")
    return _child(lambda: call("vfork"))


@attempt("ENOSYS")
def fork_by_clone3(facts: Facts) -> str:
    arguments = ctypes.create_string_buffer(struct.pack("<11Q", 0, 0, 0, 0, SIGCHLD, *[0] * 6))
    return _child(lambda: call("clone3", arguments, 88))


def _child(make: Callable[[], int], *, mine: bool = True) -> str:
    pid = make()
    if pid == 0:
        os._exit(0)
    if mine:
        os.waitpid(pid, 0)
    return "another process"


@attempt("EPERM")
def user_namespace_by_clone(facts: Facts) -> str:
    return _child(lambda: call("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))


@attempt("ENOSYS")
def user_namespace_by_clone3(facts: Facts) -> str:
    arguments = struct.pack("<11Q", CLONE_NEWUSER, 0, 0, 0, SIGCHLD, *[0] * 6)
    return _child(lambda: call("clone3", ctypes.create_string_buffer(arguments), 88))


def unused_library() -> str:
    """Return a shared object of the standard library that nothing here has loaded."""
    directory = next(p for p in sys.path if p.endswith("lib-dynload"))
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    names = [name for name in sorted(os.listdir(directory)) if name.endswith(".so")]
    return next(path for path in (f"{directory}/{n}" for n in names) if path not in loaded)


def _loader() -> str:
    return {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}[
        ARCH.name
    ]


_BOTH = ("tool-lite", WORKER)
_WORKER: tuple[str, ...] = (WORKER,)


def _gate(facts: Facts) -> int:
    """Return the process that started the worker; outside, the canary."""
    return facts.victim if facts.control else facts.gate


@attempt("SIGSYS", only=_WORKER)
def worker_traces_its_gate(facts: Facts) -> str:
    call("ptrace", 0x4206, _gate(facts), 0, 0)
    return "seized"


@attempt("SIGSYS", only=_WORKER)
def worker_reads_its_gate(facts: Facts) -> str:
    room = ctypes.create_string_buffer(8)
    here = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(room), 8))
    where = facts.victim_address if facts.control else ctypes.addressof(room)
    there = ctypes.create_string_buffer(struct.pack("PN", where, 8))
    return f"read {call('process_vm_readv', _gate(facts), here, 1, there, 1, 0)}"


@attempt("SIGSYS", only=_WORKER)
def worker_limits_its_gate(facts: Facts) -> str:
    resource.prlimit(_gate(facts), resource.RLIMIT_CORE, (0, 0))
    return "limited"


@attempt("SIGSYS", only=_WORKER)
def worker_steals_from_its_gate(facts: Facts) -> str:
    return f"descriptor {call('pidfd_open', _gate(facts), 0)}"


@attempt("SIGSYS", only=_WORKER)
def worker_starts_another(facts: Facts) -> str:
    if facts.control:
        return execve_interpreter.act(facts)
    call("execve", b"/run/monty", 0, 0)
    return "started"


@attempt("alive", only=_BOTH, control="there is no worker outside")
def living_worker_disturbed(facts: Facts) -> str:
    """Made by the payload itself, after all others: see `payload`."""
    raise Blocked("nobody asked it")


ATTEMPTS = collected(globals())
