"""Commands in the guest: one profile of programs, ready before the snapshot, tried before a job.

SECURITY
    Runs as root inside the guest.  Between fork and exec the child gives up root and takes on
    the rules of the profile; if anything of that fails, it ends without starting anything.
"""

import errno
import mmap
import os
import resource
from collections.abc import Callable
from typing import Any

from threegate.gates.tool_exec.era.guest import commanding, kernel, view
from threegate.gates.tool_exec.era.guest.watching import Watch, refused_by

UNMAPPABLE = "/etc/passwd"  # on a mount that executes nothing
EXEC, SOCKET = 1, 2  # how the process ends in which both were tried
NOT_STARTED = 127  # as a shell would say it
Message = dict[str, Any]


class Commands:
    """The programs of one profile; each command gets a view of its own."""

    def __init__(self, ring: Message, become: Callable[..., None], *, own_view: bool) -> None:
        self._ring, self._become, self._own_view = ring, become, own_view
        self.held: Message = {}  # nobody else has lists of it
        self._digests = commanding.read_digests()
        self._watch: Watch | None = None
        binaries = ring["binaries"]
        if own_view:
            view.lay_fewer(binaries)
            self._watch = Watch([*binaries, *commanding.links_to(binaries)])
        else:
            view.seal_in_place(binaries, ())
        commanding.lay_path(binaries)

    def prove(self) -> list[str]:
        """Return what was tried just now and could not be done."""
        tried = self._tried()
        proved = [name for name, bit in (("exec", EXEC), ("socket", SOCKET)) if tried & bit]
        return [*proved, *commanding.prove(self._ring, self._digests)]

    def start(self, job: Message) -> tuple[int, dict[int, str]]:
        """Start a command that was judged; return its process, and its streams by descriptor."""
        self.refused()  # by our own attempts
        out, write_out = os.pipe()
        err, write_err = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._exec(job, (write_out, write_err))
            except BaseException as exc:  # noqa: BLE001  # the agent's own loop must not go on here
                os.write(2, f"the program could not be started: {exc}\n".encode())
            os._exit(NOT_STARTED)
        os.close(write_out)
        os.close(write_err)
        return pid, {out: "stdout", err: "stderr"}

    def refused(self) -> list[Message]:
        """Return what the kernel refused to execute since this was last asked."""
        return refused_by(self._watch)

    def _exec(self, job: Message, streams: tuple[int, int]) -> None:
        binaries = job["ring"]["binaries"]
        resource.setrlimit(resource.RLIMIT_NPROC, (job["processes"], job["processes"]))
        if self._own_view:
            _confine(binaries)
        self._become(streams, tuple(binaries))
        program = commanding.program(job["ring"], job["argv"][0])
        os.execve(program, job["argv"], commanding.environment())

    def _tried(self) -> int:
        """Try, with all that a command is held by, what no command may do; return what failed."""
        pid = os.fork()
        if pid == 0:
            code, binaries = 0, self._ring["binaries"]
            try:
                nothing = os.open("/dev/null", os.O_WRONLY)
                if self._own_view:
                    _confine(binaries)
                self._become((nothing, nothing), tuple(binaries))
                # Landlock alone forbids the library; the mount alone that code is mapped.
                closed = [kernel.LIBRARY] if self._own_view else view.closed_in_place(binaries)
                unmapped = not self._own_view or _cannot_map(UNMAPPABLE)
                code = SOCKET if kernel.refuses_sockets() else 0
                code |= EXEC if unmapped and all(map(_cannot_execute, closed)) else 0
            finally:
                os._exit(code)
        return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


def _confine(binaries: list[str]) -> None:
    """Make a view in which these programs, and nothing else, can be executed."""
    kernel.own_mounts()
    view.lay_programs()
    view.seal(binaries, ())


def _cannot_execute(path: str) -> bool:
    try:
        os.execve(path, [path], {})
    except OSError as exc:
        return exc.errno == errno.EACCES


def _cannot_map(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
        except OSError as exc:
            return exc.errno == errno.EPERM
    return False
