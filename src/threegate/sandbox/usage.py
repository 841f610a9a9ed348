"""Resources that a gate used, measured from outside.

CPU time: bubblewrap leaves the first process of the box behind when it ends.  The host is
its new parent and waits for it, so the kernel's own sum over that process and everything
it waited for comes with the exit.  The sum leaves out processes that were killed together
with the box; those count as last looked at: twice a second, and right before the host
kills a box.  A box that is allowed to start processes can hide the rest of their time
from both; nothing here reports more than was used.

Memory: the largest resident size of any one process, from the kernel, or the largest sum
over the whole tree seen when looking, whichever is more.  Pages shared between processes
count in each.  A cgroup would be exact in both; an ordinary user often has none.

Memory of one job in a session: the gate itself is not the job's, so only the programs it
started count (a process that was forked and has executed nothing still shows the gate's own
memory): the largest size any of them ever had (the kernel's VmHWM), as of the last look.
Looks: after 20 ms, then at pauses that double up to half a second, and at the end of a job
that was looked at.  Looking earlier would cost more than a short job does: the kernel drops
what was looked at below /proc when the process ends.  A program that was seen in a job before
counts if it has grown since: what has not is still dying, or was made ready and never used.
0 means that the job was over before the first look, or that nothing had grown.  Of a job that
was not looked at no program is known: one that still dies counts in the next.
"""

import os
import re
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

LOOK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 5.0  # bubblewrap tells within milliseconds, unless the machine is choked
JOB_LOOK_SECONDS: Final = 0.02  # until the first look at a job; each pause is twice as long
MAX_PROCESSES: Final = 256  # more than any profile allows
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_FIRST: Final = re.compile(rb'"child-pid": ([0-9]+)')
_FORKED_ONLY: Final = 0x40  # PF_FORKNOEXEC among the flags of a process
_LARGEST: Final = re.compile(rb"^VmHWM:\s+([0-9]+) kB$", re.MULTILINE)

Process: TypeAlias = tuple[int, int]  # number and start: a number is given again


@dataclass(frozen=True, slots=True)
class Reaped:
    """How a child of ours ended, with the kernel's account of its resources."""

    status: int
    cpu_seconds: float
    largest_bytes: int


class Meter:
    """Looks at one box from outside; `info` is where bubblewrap tells its first process."""

    def __init__(self, info: int) -> None:
        os.set_blocking(info, False)
        self._info = info
        self._first: int | None = None
        self._due = 0.0
        self._used: dict[Process, float] = {}  # seconds, of its own
        self._largest = 0
        self._gate: int | None = None
        self._job: Job | None = None
        self._known: dict[Process, int] = {}  # programs of the last job looked at, and their sizes

    def look_if_due(self) -> float:
        """Look again if it is due; return the seconds until the next time."""
        now = time.monotonic()
        if now >= self._due:
            self.look()
        due = self._due
        if self._job is not None:
            due = min(due, self._job.look_if_due(now))
        return max(0.0, due - now)

    def begin_job(self) -> None:
        """Measure programs that the gate starts, until `end_job`."""
        first = self.first_process()
        if self._gate is None and first is not None:
            # Its oldest child; what is left of a job when its parent ends comes behind it.
            self._gate = next(iter(_children(first)), None)
        self._job = Job(first, self._gate, self._known)

    def end_job(self) -> int:
        """Return the largest memory of programs that the gate started since `begin_job`."""
        assert self._job is not None
        job, self._job = self._job, None
        if job.sizes:
            job.look()
            self._known = job.sizes
        return job.largest_bytes

    def look(self) -> None:
        """Record the resources that every process in the sandbox has used so far."""
        self._due = time.monotonic() + LOOK_SECONDS
        total = 0
        for pid in self.processes():
            sample = _sample(pid)
            if sample is not None:
                start, seconds, resident = sample
                self._used[pid, start] = seconds
                total += resident
        self._largest = max(self._largest, total)

    def processes(self) -> list[int]:
        """Return the processes in the box as the host sees them."""
        first = self.first_process()
        return [] if first is None else _tree(first)

    def first_process(self) -> int | None:
        """Return the first process of the box as the host sees it, once it is known."""
        if self._first is None and self._info >= 0:
            try:
                found = _FIRST.search(os.read(self._info, 4096))
            except BlockingIOError:
                return None
            self._first = int(found[1]) if found else None
        return self._first

    def look_before_kill(self) -> None:
        """Look once more; where possible, a box is not killed before its first process is known.

        That process is not yet bound to die with bubblewrap while it is being set up.
        """
        if self._first is None and self._info >= 0:
            _readable(self._info, TELL_SECONDS)
        self.look()

    def finish(self, outer: Reaped, seconds: float) -> tuple[float, int]:
        """Empty the box and wait until it is; return CPU seconds and bytes of memory."""
        first = self.first_process()
        self.close()
        inner = _reap_adopted(first, seconds) if first is not None else None
        if inner is None:  # bubblewrap waited for it itself, so it is in bubblewrap's own sum
            exact, largest = outer.cpu_seconds, outer.largest_bytes
        else:
            exact, largest = outer.cpu_seconds + inner.cpu_seconds, inner.largest_bytes
        return max(exact, sum(self._used.values())), max(largest, self._largest)

    def close(self) -> None:
        """Close the descriptor."""
        if self._info >= 0:
            os.close(self._info)
            self._info = -1


class Job:
    """What a gate (`gate`, below `first`) starts for one job of a session.

    `known` are the programs of a job before, with the sizes they had when it ended.
    """

    def __init__(self, first: int | None, gate: int | None, known: Mapping[Process, int]) -> None:
        self._first, self._gate, self._known = first, gate, known
        self._pause = JOB_LOOK_SECONDS
        self._due = time.monotonic() + self._pause
        self.sizes: dict[Process, int] = {}  # each as last seen
        self.largest_bytes = 0

    def look_if_due(self, now: float) -> float:
        """Look again if it is time to; return when it will be."""
        if now >= self._due:
            self.look()
            self._pause = min(self._pause * 2, LOOK_SECONDS)
            self._due = now + self._pause
        return self._due

    def look(self) -> None:
        """Note the largest size any program below the gate has had."""
        pids = _tree(self._first) if self._first is not None else []
        for pid in pids:
            program = None if pid in {self._first, self._gate} else _program(pid)
            if program is not None:
                process, size = program
                self.sizes[process] = size
                if size > self._known.get(process, 0):
                    self.largest_bytes = max(self.largest_bytes, size)


def has_ended(pid: int) -> bool:
    """Tell whether a child of ours is gone; it is left to be reaped, so its number stays ours."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap_group(pid: int, seconds: float) -> Reaped:
    """Reap the leader of a process group; kill and reap what else is in it."""
    _await_end(pid, seconds)
    os.killpg(pid, signal.SIGKILL)
    leader = reap(pid, seconds)
    try:
        while True:
            os.wait4(-pid, 0)  # adopted, killed: it was waiting and had used nothing
    except ChildProcessError:
        return leader


def reap(pid: int, seconds: float) -> Reaped:
    """Wait for a child of ours; kill it if it does not end in time."""
    _await_end(pid, seconds)
    _, status, usage = os.wait4(pid, 0)
    return Reaped(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _await_end(pid: int, seconds: float) -> None:
    if has_ended(pid):
        return
    fd = os.pidfd_open(pid)
    try:
        while not _readable(fd, seconds):
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(fd)


def _readable(fd: int, seconds: float) -> bool:
    waiting = select.poll()  # unlike select, it takes any descriptor number
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _reap_adopted(pid: int, seconds: float) -> Reaped | None:
    """End what bubblewrap left behind; a pid that is not our child is never signalled."""
    try:
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)
        return reap(pid, seconds)
    except ChildProcessError:
        return None


def _tree(first: int) -> list[int]:
    """Return a process and everything below it."""
    found: list[int] = []
    waiting = [first]
    while waiting and len(found) < MAX_PROCESSES:
        pid = waiting.pop()
        found.append(pid)
        waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """Return the children of a process, per thread the oldest first."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    except OSError:
        pass  # it ended meanwhile
    return found


def _program(pid: int) -> tuple[Process, int] | None:
    """Return a program and the largest size it had; None if it is gone, or a mere fork."""
    try:
        status, stat = _read(f"/proc/{pid}/status"), _after_name(_read(f"/proc/{pid}/stat"))
    except OSError:
        return None
    found = _LARGEST.search(status)
    if found is None or int(stat[6]) & _FORKED_ONLY:
        return None
    return (pid, int(stat[19])), int(found[1]) * 1024


def _read(path: str) -> bytes:
    """Return a small file of /proc; twice as fast as through a file object."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 65536)
    finally:
        os.close(fd)


def _sample(pid: int) -> tuple[int, float, int] | None:
    """Return start time, CPU seconds and resident bytes of one process."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = _after_name(stat)
    user, system, start, resident = (int(fields[at]) for at in (11, 12, 19, 21))
    return start, (user + system) / _TICKS, resident * _PAGE_BYTES


def _after_name(stat: bytes) -> list[bytes]:
    """Return the fields behind the name, which may hold spaces and brackets."""
    return stat[stat.rindex(b")") + 2 :].split()
