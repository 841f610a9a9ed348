"""The agent: the one program of ours that runs inside the guest, as root, for one job.

It stands alone: the guest has this file, Python's standard library and nothing else of
ThreeGate.  It speaks frames (`protocol/guest.py` has the other side) on one virtio port, or
on the descriptor that its one argument names:

    WARM   ->  READY     once, before the snapshot: the imports that clones will find loaded
    HELLO  ->  FACTS     after each resume: clock and entropy in, what the guest looks like out
    FILE, DATA ...       an input, for a guest without disks
    JOB    ->  STDOUT, STDERR ..., FILE, DATA ..., EXIT

A guest with such a descriptor was started for this one job by a kernel in user space: it is
no clone, has the host's clock and randomness already, and no disks.

SECURITY
    Whatever it says may be said by a job that became root here: the gate outside believes
    none of it.  What it does for the job's confinement (uid, limits, no new privileges)
    keeps honest programs from hurting themselves; the boundary is the virtual machine.
"""

import atexit
import builtins
import fcntl
import gc
import json
import os
import random
import resource
import select
import signal
import stat
import struct
import sys
import time
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from threegate.tool_exec.era.guest.places import (
        JOB_UID,
        LIBC,
        Message,
        facts,
        prepare_places,
        read_text,
        take_input,
    )
else:  # beside this file; nothing of the job's can be in the way yet
    sys.path.insert(0, os.path.dirname(__file__))
    from places import JOB_UID, LIBC, Message, facts, prepare_places, read_text, take_input

    del sys.path[0], sys.modules["places"]

WARM, HELLO = 1, 2
READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT = 11, 12, 13, 14, 15, 16, 17
JOB = 3
HEADER = struct.Struct(">BI")
PIECE_BYTES = 64 * 1024

PACKAGES = "/usr/lib/python3/dist-packages"  # where Debian keeps the scientific set
PORT_NAME = "threegate.agent"
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
ENDED, _TELL = os.pipe()  # has a byte whenever a child may have ended; not every kernel has pidfds


class Port:
    """The channel to the gate."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def say(self, kind: int, body: bytes | memoryview = b"") -> None:
        """Write one frame."""
        self._write(HEADER.pack(kind, len(body)))
        self._write(body)

    def tell(self, kind: int, message: Message) -> None:
        """Write one frame of JSON, in its one spelling."""
        text = json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.say(kind, text.encode("utf-8"))

    def hear(self) -> tuple[int, bytes]:
        """Read one frame."""
        kind, length = HEADER.unpack(self._read(HEADER.size))
        return kind, self._read(length)

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._fd, size - len(data))
            if not piece:  # nobody is connected yet
                time.sleep(0.001)
            data += piece
        return bytes(data)


def open_port() -> Port:
    """Return the port with our name; it may appear a moment after us."""
    ports = "/sys/class/virtio-ports"
    while True:
        for name in os.listdir(ports) if os.path.isdir(ports) else []:
            if read_text(f"{ports}/{name}/name").strip() == PORT_NAME:
                return Port(os.open(f"/dev/{name}", os.O_RDWR | os.O_CLOEXEC))
        time.sleep(0.005)


def prefer_killing(score: int) -> None:
    """Tell the kernel how gladly it may end this process for want of memory."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def serve(port: Port, *, clone: bool) -> NoReturn:
    """Answer frames until the machine is switched off."""
    while True:
        kind, body = port.hear()
        message = json.loads(body)
        if kind == WARM:
            port.tell(READY, {"imports": warm(message["imports"]), "nonce": message["nonce"]})
        elif kind == HELLO:
            if clone:
                awake(message)
            port.tell(FACTS, {"facts": facts(), "nonce": message["nonce"]})
        elif kind == FILE:
            take_input(port.hear, message)
        elif kind == JOB:
            if not clone:  # its kernel does not count what root began, which is the job itself
                message["processes"] -= 1
            prepare_places(message, clone=clone)
            run(port, message)


def warm(names: list[str]) -> list[str]:
    """Import what jobs may want, so that clones of the snapshot need not; return what is there."""
    found = []
    os.seteuid(JOB_UID)  # what a module leaves in /tmp at its import is the job's to use
    for name in names:
        try:
            __import__(name)
            found.append(name)
        except Exception:  # noqa: BLE001, S110  # a job that imports it will see why
            pass
    os.seteuid(0)
    os.environ.clear()  # some set variables for libraries that are loaded by now
    gc.collect()
    gc.freeze()
    return sorted(found)


def awake(message: Message) -> None:
    """Take the host's clock and entropy: the snapshot has those of its own moment."""
    time.clock_settime_ns(time.CLOCK_REALTIME, message["now_ns"])
    seed = bytes.fromhex(message["entropy"])
    with open("/dev/urandom", "r+b", buffering=0) as device:
        room = struct.pack("ii", len(seed) * 8, len(seed)) + seed
        fcntl.ioctl(device, RNDADDENTROPY, room)
        fcntl.ioctl(device, RNDRESEEDCRNG, 0)


def run(port: Port, job: Message) -> None:
    """Run one job to its end, and hand over what it left."""
    _, code = port.hear()
    before = _oom_kills()
    pid, out, err = _start(job, code)
    status = _stream(port, pid, {out: STDOUT, err: STDERR})
    ended = os.waitstatus_to_exitcode(status)
    for name in job["outputs"]:
        hand_over(port, name)
    oom = _oom_kills() > before
    port.tell(EXIT, {"code": max(ended, 0), "oom": oom, "signal": max(-ended, 0)})


def _oom_kills() -> int:
    counters = dict(line.split(" ") for line in read_text("/proc/vmstat").splitlines())
    return int(counters.get("oom_kill", "0"))


def _start(job: Message, code: bytes) -> tuple[int, int, int]:
    out, write_out = os.pipe()
    err, write_err = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(job, write_out, write_err)
            _begin(job, code)
        except BaseException as exc:  # noqa: BLE001  # the agent's own loop must not go on here
            os.write(2, f"the program could not be started: {exc}\n".encode())
        os._exit(127)  # as a shell would say it
    os.close(write_out)
    os.close(write_err)
    return pid, out, err


def _become(job: Message, out: int, err: int) -> None:
    """Give up root, and everything a job has no use for."""
    prefer_killing(1000)
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    for fd, place in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(fd, place)
    os.closerange(3, 1024)
    processes = job["processes"]
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(JOB_UID, JOB_UID, JOB_UID)
    os.setresuid(JOB_UID, JOB_UID, JOB_UID)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.umask(0o022)
    os.chdir("/tmp")  # noqa: S108  # the guest's own, gone with it


def _begin(job: Message, code: bytes) -> None:
    if job["argv"]:
        os.execve(job["argv"][0], job["argv"], {})
    os._exit(_interpret(job, code))


def _interpret(job: Message, code: bytes) -> int:
    """Run code in this interpreter, which is warm already; return its exit code."""
    _fresh_randomness()
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = open(
            fd, mode, encoding="utf-8", errors="strict" if fd != 2 else "backslashreplace"
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.setrecursionlimit(job["recursion"])
    sys.argv, sys.orig_argv = ["job"], ["job"]
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    _hold_imports(frozenset(job["imports"]), job["profile"])
    try:
        exec(compile(code, "job", "exec"), main.__dict__)  # noqa: S102  # what was approved
        return _finish(0)
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return _finish((exc.code or 0) & 255)
        sys.stderr.write(f"{exc.code}\n")
        return _finish(1)
    except BaseException:  # noqa: BLE001  # as the interpreter itself would end
        kind, error, trace = sys.exc_info()
        traceback.print_exception(kind, error, trace.tb_next if trace else None)
        return _finish(1)


def _finish(code: int) -> int:
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # as the interpreter says it
    return code


def _fresh_randomness() -> None:
    """Draw anew whatever was drawn before the snapshot."""
    random.seed(os.urandom(64))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(list(os.urandom(64)))


def _hold_imports(allowed: frozenset[str], profile: str) -> None:
    """Refuse what the profile does not offer with a clear error; no boundary, a signpost."""
    real = builtins.__import__

    def held(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        asking = (globals or {}).get("__name__")
        top = name.partition(".")[0]
        if asking == "__main__" and level == 0 and top not in allowed and top != "__future__":
            raise ImportError(f"profile {profile} does not offer {top}", name=top)
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = held


def _stream(port: Port, pid: int, streams: dict[int, int]) -> int:
    """Pass on what the job prints until it has ended; then end whatever it left running."""
    watch = select.poll()
    for fd in (*streams, ENDED):
        watch.register(fd, select.POLLIN)
    status: int | None = None
    while streams or status is None:
        for fd, _ in watch.poll():
            if fd == ENDED:
                os.read(fd, PIECE_BYTES)
                status = _ended(pid) if status is None else status
                continue
            piece = os.read(fd, PIECE_BYTES)
            if piece:
                port.say(streams[fd], piece)
                continue
            watch.unregister(fd)
            del streams[fd]
    return status


def _ended(pid: int) -> int | None:
    """Return how the job ended, if it has, after ending whatever it left running."""
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    end_all()
    return status


def end_all() -> None:
    """Kill every process but this one, and the next generation of those that were forking.

    Whatever loses its parent becomes ours: when we have no child, there is nobody left.
    """
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
            os.waitpid(-1, 0)
        except (ChildProcessError, ProcessLookupError):
            return


def hand_over(port: Port, name: str) -> None:
    """Send one file the request names, if the job left it as a plain file."""
    try:
        fd = os.open(f"/out/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        port.tell(FILE, {"bytes": found.st_size, "name": name})
        while piece := os.read(fd, PIECE_BYTES):
            port.say(DATA, piece)
    os.close(fd)


def main() -> None:
    """Be the agent."""
    os.environ.clear()  # the interpreter itself puts a locale there
    sys.path.append(PACKAGES)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prefer_killing(-1000)
    os.set_blocking(_TELL, False)
    signal.set_wakeup_fd(_TELL, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if len(sys.argv) > 1:
        fd = int(sys.argv[1])
        os.set_blocking(fd, True)  # the kernel outside does not wait, we do
        serve(Port(fd), clone=False)
    serve(open_port(), clone=True)


if __name__ == "__main__":
    main()
