"""The agent: the program of ours that runs inside the guest, as root, for one job.

The guest has it, the parts beside it, Python's standard library and nothing else of
ThreeGate.  It speaks frames (`guest_messages.py` is the other side) on one virtio port:

    WARM   ->  READY     once, before the snapshot: the ring, and the imports that clones
                         will find loaded
    HELLO  ->  FACTS     after each resume: entropy in, what the guest looks like and what the
                         ring refuses out
    JOB    ->  STDOUT, STDERR, VIOLATION ..., FILE, DATA ..., EXIT

SECURITY
    A job that became root here can say anything that the agent says: the gate outside believes
    none of it.  The confinement made here (uid, limits, the ring) keeps approved code to its
    approval; the boundary is the virtual machine.
"""

import fcntl
import gc
import hashlib
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time
from functools import partial
from typing import NoReturn

if __name__ == "__main__":  # in the guest: the parts beside it, which -I leaves out
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from threegate.gates.tool_exec.era.guest import commands, kernel, relay
from threegate.gates.tool_exec.era.guest.commands import Commands
from threegate.gates.tool_exec.era.guest.interpreter_process import Interpreter, violation
from threegate.gates.tool_exec.era.guest.kernel import LIBC
from threegate.gates.tool_exec.era.guest.places import (
    JOB_UID,
    Message,
    facts,
    prepare_places,
    read_text,
    take_entropy,
    take_input,
    take_time,
)

WARM, HELLO, JOB = 1, 2, 3
READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT, VIOLATION = 11, 12, 13, 14, 15, 16, 17, 18
HEADER = struct.Struct(">BI")
PIECE_BYTES = 64 * 1024

PACKAGES = "/usr/lib/python3/dist-packages"  # where Debian keeps the scientific set
PORT_NAME = "threegate.agent"
PR_SET_CHILD_SUBREAPER = 36
ENDED, _TELL = os.pipe()  # has a byte if a child may have ended; not every kernel has pidfds
KINDS = {"stdout": STDOUT, "stderr": STDERR, "reports": VIOLATION}
MAX_VIOLATIONS = 64


def spelled(message: Message) -> bytes:
    """Return the canonical JSON of a message."""
    text = json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


class Port:
    """The channel to the gate."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def say(self, kind: int, body: bytes | memoryview = b"") -> None:
        """Write one frame."""
        self._write(HEADER.pack(kind, len(body)))
        self._write(body)

    def tell(self, kind: int, message: Message) -> None:
        """Write one frame of canonical JSON."""
        self.say(kind, spelled(message))

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
    """Set the kernel's preference for killing this process when memory runs out."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


class Agent:
    """Serves one ring, with the executor that waits under it."""

    def __init__(self, port: Port, *, clone: bool) -> None:
        self._port, self._clone = port, clone
        self._ring: Message = {}
        self._executor: Interpreter | Commands | None = None

    def serve(self) -> NoReturn:
        """Answer frames until the machine is switched off."""
        while True:
            kind, body = self._port.hear()
            message = json.loads(body)
            if kind == WARM:
                found = self._warm(message)
                self._port.tell(READY, {"imports": found, "nonce": message["nonce"]})
            elif kind == HELLO:
                if self._clone:
                    take_entropy(message)
                said = {**facts(), **self._ring_facts()}
                self._port.tell(FACTS, {"facts": said, "nonce": message["nonce"]})
            elif kind == FILE:
                take_input(self._port.hear, message)
            elif kind == JOB:
                if (
                    not self._clone
                ):  # its kernel does not count a process that root started: the job itself
                    message["processes"] -= 1
                prepare_places(message, clone=self._clone)
                if self._clone:
                    take_time(message)
                assert self._executor is not None
                run(self._port, message, self._executor)

    def _warm(self, message: Message) -> list[str]:
        """Put the ring in force and load modules for jobs; return those that were found."""
        self._ring = {name: rule for name, rule in message["ring"].items() if name != "rules"}
        found: list[str] = []
        become = partial(_become, landlock=self._clone)
        if self._ring["kind"] == "heavy-python":
            self._executor = Interpreter(self._ring, become, own_view=self._clone)
            found = self._executor.load(message["imports"], PACKAGES)
        else:
            self._executor = Commands(self._ring, become, own_view=self._clone)
        if self._ring["network"] != "off":
            relay.start(clone=self._clone)
        gc.collect()
        gc.freeze()
        return sorted(found)

    def _ring_facts(self) -> Message:
        """Return the digest of the ring in force, and the proofs that were tried just now."""
        proved = self._executor.prove() if self._executor is not None else []
        held = self._executor.held if self._executor is not None else {}  # read back, not echoed
        ring = {**self._ring, **held}
        digest = hashlib.sha256(spelled(ring)).hexdigest() if ring else "0" * 64
        if relay.is_offline(clone=self._clone):
            proved = [*proved, "offline"]
        return {"ring": digest, "ring_proved": sorted(proved)}


def run(port: Port, job: Message, executor: Interpreter | Commands) -> None:
    """Run one job to its end, and send its files."""
    _, code = port.hear()
    if isinstance(executor, Commands) and _refused(port, job):
        return
    before = _oom_kills()
    if isinstance(executor, Interpreter):
        pid, streams = executor.pid, executor.run(job, code)
    else:
        pid, streams = executor.start(job)
    status = _stream(port, pid, {fd: KINDS[name] for fd, name in streams.items()})
    for refused in executor.refused()[:MAX_VIOLATIONS]:
        port.tell(VIOLATION, refused)
    ended = os.waitstatus_to_exitcode(status)
    for name in job["outputs"]:
        hand_over(port, name)
    oom = _oom_kills() > before
    port.tell(EXIT, {"code": max(ended, 0), "oom": oom, "signal": max(-ended, 0)})


def _refused(port: Port, job: Message) -> bool:
    """Report the rule that refuses a command, if one does; tell whether it was refused."""
    found = commands.judge(job["ring"], job["argv"])
    if found is None:
        return False
    port.tell(VIOLATION, commands.violation(found))
    port.say(STDERR, commands.sentence(found, job["ring"]["rules"]).encode())
    port.tell(EXIT, {"code": commands.REFUSED, "oom": False, "signal": 0})
    return True


def _oom_kills() -> int:
    counters = dict(line.split(" ") for line in read_text("/proc/vmstat").splitlines())
    return int(counters.get("oom_kill", "0"))


def _become(fds: tuple[int, ...], executable: tuple[str, ...], *, landlock: bool) -> None:
    """Give up root and everything that a job does not need; standard output is `fds[0]`.

    A user-space kernel has no Landlock: there only the mounts limit what can be executed.
    """
    prefer_killing(1000)
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 512) for fd in (nothing, *fds)]
    for place, fd in enumerate(moved):
        os.dup2(fd, place)
    os.closerange(len(moved), 1024)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(JOB_UID, JOB_UID, JOB_UID)
    os.setresuid(JOB_UID, JOB_UID, JOB_UID)
    kernel.no_new_privileges()
    if landlock:
        kernel.only_execute(executable)
    kernel.refuse_calls()
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.umask(0o022)
    os.chdir("/tmp")  # noqa: S108  # the guest's own, gone with it


class _Lines:
    """Forwards refusals that an interpreter reports while code runs."""

    def __init__(self, port: Port) -> None:
        self._port, self._held, self._said = port, b"", 0

    def take(self, piece: bytes) -> None:
        """Pass on refusals of the ring, and drop every other line."""
        *lines, self._held = (self._held + piece).split(b"\n")
        self._held = self._held[-PIECE_BYTES:]
        for line in lines:
            found = violation(line)
            if found is not None and self._said < MAX_VIOLATIONS:
                self._said += 1
                self._port.tell(VIOLATION, found)


def _stream(port: Port, pid: int, streams: dict[int, int]) -> int:
    """Pass on what the job prints until it has ended; then end all its processes."""
    watch = select.poll()
    for fd in (*streams, ENDED):
        watch.register(fd, select.POLLIN)
    status: int | None = None
    lines = _Lines(port)
    while streams or status is None:
        for fd, _ in watch.poll():
            if fd == ENDED:
                os.read(fd, PIECE_BYTES)
                status = _ended(pid) if status is None else status
                continue
            piece = os.read(fd, PIECE_BYTES)
            if piece and streams[fd] == VIOLATION:
                lines.take(piece)
                continue
            if piece:
                port.say(streams[fd], piece)
                continue
            watch.unregister(fd)
            del streams[fd]
    return status


def _ended(pid: int) -> int | None:
    """Return how the job ended, if it has, after ending all its processes."""
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    end_all()
    return status


def end_all() -> None:
    """Kill every process but this one, and the children of those that were forking.

    Orphans become our children: without a child, no process is left.
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
        # The job made this entry: a link is not followed, and a pipe is not waited for.
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
    """Run the agent."""
    os.environ.clear()  # the interpreter itself puts a locale there
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prefer_killing(-1000)  # the job before the agent
    os.set_blocking(_TELL, False)
    signal.set_wakeup_fd(_TELL, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if len(sys.argv) > 1:
        fd = int(sys.argv[1])
        os.set_blocking(fd, True)  # the kernel outside does not wait, we do
        Agent(Port(fd), clone=False).serve()
    kernel.no_user_namespaces()
    kernel.share_mounts()  # inputs arrive in mount namespaces that were made before
    Agent(open_port(), clone=True).serve()


if __name__ == "__main__":
    main()
