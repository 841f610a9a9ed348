"""Using up what the machine has: processes, memory, disk, descriptors, time, output."""

from __future__ import annotations

import os
import signal
import threading
import time

from threegate.sandbox.attacks.base import (
    FORKING,
    SCRATCH,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
)
from threegate.sandbox.channel import CHUNK, HEADER, NOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_FD = 3
SPARE = 8  # tried beyond a limit
DEADLINE_SECONDS = 3.0  # enough for a box to start on a busy machine
_EVERY_KIND = ("fetch-normalize", "tool-lite", "engine")
_ONE_KIND = ("fetch-normalize",)  # the host's side is the same for all, and this takes seconds


@attempt("EPERM", but={FORKING: "EAGAIN"})
def processes(facts: Facts) -> str:
    reader, writer = os.pipe()
    pids: list[int] = []
    try:
        for _ in range(facts.limits["processes"] + SPARE):
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            pids.append(pid)
    finally:
        os.close(writer)
        for pid in pids:
            os.waitpid(pid, 0)
        os.close(reader)
    return f"{len(pids)} processes"


@attempt("RuntimeError")
def threads(facts: Facts) -> str:
    """Count what is alive at once; the limit is per user namespace, so per box."""
    done = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(facts.limits["processes"] + SPARE):
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        done.set()
        for thread in started:
            thread.join()
    return f"{len(started)} threads"


@attempt("ENOMEM")
def memory_at_once(facts: Facts) -> str:
    size = facts.limits["memory_bytes"] + (1 << 20)
    at = call("mmap", 0, size, 3, 0x4022, -1, 0)  # not reserved: the machine is not harmed
    call("munmap", at, size)
    return f"{size} bytes"


@attempt("ENOMEM")
def memory_bit_by_bit(facts: Facts) -> str:
    piece = max(1 << 20, facts.limits["memory_bytes"] // 64)
    pages: list[int] = []
    try:
        while len(pages) * piece <= facts.limits["memory_bytes"]:
            pages.append(call("mmap", 0, piece, 3, 0x4022, -1, 0))
    finally:
        for at in pages:
            call("munmap", at, piece)
    return f"{len(pages) * piece} bytes"


@attempt("ENOMEM")
def memory_by_growing(facts: Facts) -> str:
    size = facts.limits["memory_bytes"] + (1 << 20)
    at = call("mmap", 0, 4096, 3, 0x4022, -1, 0)
    at = call("mremap", at, 4096, size, 1)
    call("munmap", at, size)
    return f"{size} bytes"


@attempt("MemoryError")
def memory_by_python(facts: Facts) -> str:
    """Zeroed memory is promised, not used: only the limit says no."""
    block = bytes(facts.limits["memory_bytes"])
    return f"{len(block)} bytes"


@attempt("EMFILE")
def descriptors(facts: Facts) -> str:
    made: list[int] = []
    try:
        while len(made) <= facts.limits["open_files"]:
            made.append(os.dup(0))
    finally:
        for fd in made:
            os.close(fd)
    return f"{len(made)} descriptors"


@attempt("EBADF")
def descriptors_by_number(facts: Facts) -> str:
    os.close(os.dup2(0, facts.limits["open_files"] + 64))
    return "a high number"


@attempt("EMFILE")
def pipes(facts: Facts) -> str:
    made: list[int] = []
    try:
        while len(made) <= facts.limits["open_files"]:
            made += os.pipe()
    finally:
        for fd in made:
            os.close(fd)
    return f"{len(made)} ends of pipes"


def _files(facts: Facts) -> Iterator[str]:
    for number in range(1 << 16):
        yield f"{facts.scratch}/bomb-{number}"


@attempt("ENOSPC", only=SCRATCH)
def disk(facts: Facts) -> str:
    """Many files, each within its limit: the size of the private /tmp holds."""
    goal, made = facts.limits["scratch_bytes"] + (1 << 20), 0
    block = bytes(1 << 20)
    used: list[str] = []
    try:
        for path in _files(facts):
            used.append(path)
            with open(path, "wb", buffering=0) as file:
                for _ in range(16):
                    made += file.write(block)
            if made > goal:
                return f"{made} bytes"
    finally:
        for path in used:
            os.unlink(path)
    raise Blocked("no files")


@attempt("EFBIG", only=SCRATCH)
def one_large_file(facts: Facts) -> str:
    path = f"{facts.scratch}/large"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.ftruncate(fd, facts.limits["file_bytes"] + 1)
    finally:
        os.close(fd)
        os.unlink(path)
    return "larger than allowed"


@attempt("output", alone=True, only=_EVERY_KIND, narrow={"output_bytes": 1 << 20})
def output_flood(facts: Facts) -> str:
    return _flood(facts, FRAME_FD, HEADER.pack(CHUNK, 65536) + bytes(65536), 64)


@attempt("output", alone=True, only=_EVERY_KIND, narrow={"output_bytes": 1 << 20})
def flood_of_notes(facts: Facts) -> str:
    return _flood(facts, FRAME_FD, HEADER.pack(NOTE, 512) + bytes(512), 8192)


@attempt("output", alone=True, only=_EVERY_KIND, narrow={"output_bytes": 1 << 18})
def flood_of_empty_frames(facts: Facts) -> str:
    return _flood(facts, FRAME_FD, HEADER.pack(CHUNK, 0) * 4096, 64)


@attempt("output", alone=True, only=_EVERY_KIND)
def error_flood(facts: Facts) -> str:
    return _flood(facts, 2, bytes(65536), 64)


@attempt("output", alone=True, only=_EVERY_KIND)
def printed_flood(facts: Facts) -> str:
    """What native code prints goes to the same bound."""
    return _flood(facts, 1, b"x" * 65536, 64)


def _flood(facts: Facts, fd: int, piece: bytes, count: int) -> str:
    target = os.open(os.devnull, os.O_WRONLY) if facts.control else fd
    for _ in range(count):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]
    return f"{count * len(piece)} bytes taken"


def _long(facts: Facts) -> float:
    """Outside nobody stops it, and a second of that shows it."""
    return 1.0 if facts.control else 2 * DEADLINE_SECONDS


@attempt("deadline", alone=True, only=_ONE_KIND, deadline_seconds=DEADLINE_SECONDS)
def slow_drip(facts: Facts) -> str:
    """One byte now and then must not keep a gate alive."""
    end = time.monotonic() + _long(facts)
    while time.monotonic() < end:
        if not facts.control:
            os.write(FRAME_FD, HEADER.pack(NOTE, 0))
        time.sleep(0.05)
    return "still there"


@attempt("deadline", alone=True, only=_ONE_KIND, deadline_seconds=DEADLINE_SECONDS)
def silence(facts: Facts) -> str:
    time.sleep(_long(facts))
    return "still there"


@attempt("deadline", alone=True, only=_ONE_KIND, deadline_seconds=DEADLINE_SECONDS)
def deaf_to_signals(facts: Facts) -> str:
    for number in range(1, 32):
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
    time.sleep(_long(facts))
    return "still there"


@attempt("SIGKILL", "SIGXCPU", alone=True, only=_EVERY_KIND, narrow={"cpu_seconds": 1})
def processor_time(facts: Facts) -> str:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    begun = time.process_time()
    while time.process_time() - begun < 2:
        pass
    return "two seconds of processor time"


ATTEMPTS = collected(globals())
