"""One job in one guest: sent, received within its limits, and judged from outside.

SECURITY
    Takes streams and files of a hostile guest.  Every byte counts against a limit before it
    is kept, and the clock is ours.  A breach of the protocol is `crashed`, with what came before
    it.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.channels import Late
from threegate.gates.tool_exec.era.guest_messages import GuestExit, GuestTask
from threegate.gates.tool_exec.era.machine import GuestMachine, MachineEnded
from threegate.gates.tool_exec.era.messages import MAX_FILES_BYTES, HeavyCut, HeavyOutcome
from threegate.policy.ring.executor_profile import MAX_VIOLATIONS, RingViolation

_SIGKILL: Final = 9


@dataclass(frozen=True, slots=True)
class JobBounds:
    """Limits of a job's time, output and files."""

    wall_ms: int
    output_bytes: int
    disk_bytes: int
    files: dict[str, int]  # name -> the most it may hold


class Over(Exception):
    """The job went over a limit; the text names it."""


@dataclass(slots=True)
class Taken:
    """Output, files and refusals of a job so far."""

    bounds: JobBounds
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    cut: set[int] = field(default_factory=set)
    files: dict[str, bytearray] = field(default_factory=dict)
    due: int = 0  # bytes of the last file that are still to come
    exit: GuestExit | None = None
    violations: dict[RingViolation, None] = field(default_factory=dict)

    def take(self, kind: int, body: Untrusted[bytes]) -> None:
        """Take one frame; raise `ProtocolBroken` or `Over`."""
        # A file is whole or missing: nothing may come between its frames.
        if self.due and kind != guest.DATA:
            raise ProtocolBroken("a file ended early")
        if kind in (guest.STDOUT, guest.STDERR):
            if self.files:
                raise ProtocolBroken("output after the job's end")
            self._print(kind, body.open_for_validation())
        elif kind == guest.FILE:
            ahead = guest.parse_file(body)
            self._begin(ahead.name, ahead.bytes)
        elif kind == guest.DATA:
            self._fill(body.open_for_validation())
        elif kind == guest.VIOLATION:
            self._note(guest.parse_violation(body))
        elif kind == guest.EXIT:
            self.exit = guest.parse_exit(body)
        else:
            raise ProtocolBroken("a frame that is not due")

    def _print(self, kind: int, data: bytes) -> None:
        room = self.bounds.output_bytes - len(self.stdout) - len(self.stderr)
        stream = self.stdout if kind == guest.STDOUT else self.stderr
        stream += data[:room]
        if len(data) > room:
            self.cut.add(kind)
            raise Over("limit:output")

    def _note(self, violation: RingViolation) -> None:
        """Keep a bounded number of refusals; a job that tries many times is not ended for it."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations[violation] = None

    def _begin(self, name: str, size: int) -> None:
        if name not in self.bounds.files or name in self.files:
            raise ProtocolBroken("a file that was not asked for")
        held = sum(map(len, self.files.values()))
        most = min(self.bounds.disk_bytes, MAX_FILES_BYTES) - held
        # The size is the guest's claim, so it is refused before a byte is kept.
        if size > min(most, self.bounds.files[name]):
            raise Over("limit:disk")
        self.files[name], self.due = bytearray(), size

    def _fill(self, data: bytes) -> None:
        # A guest could send empty frames without end.
        if not data or len(data) > self.due:
            raise ProtocolBroken("more of a file than it said")
        name = next(reversed(self.files))
        self.files[name] += data
        self.due -= len(data)

    def outcome(
        self, state: str, exit_code: int | None = None, note: str | None = None
    ) -> HeavyOutcome:
        """Return the outcome; files are included only if the job came to its end."""
        ended = state in ("ok", "error")
        files = sorted(self.files.items()) if ended else []
        return HeavyOutcome(
            exit=state,
            exit_code=exit_code,
            stdout=bytes(self.stdout),
            stderr=bytes(self.stderr),
            cut=HeavyCut(stdout=guest.STDOUT in self.cut, stderr=guest.STDERR in self.cut),
            files=tuple((name, bytes(data)) for name, data in files),
            note=note,
            violations=tuple(self.violations),
        )


def run(machine: GuestMachine, task: GuestTask, code: bytes, bounds: JobBounds) -> HeavyOutcome:
    """Run one task in a guest that is awake; every end is an outcome."""
    taken = Taken(bounds)
    deadline = time.monotonic() + bounds.wall_ms / 1000
    try:
        machine.send(task.frames(code, now_ns=time.time_ns()), deadline)
        while taken.exit is None:
            taken.take(*machine.hear(deadline))
    except Late:
        return taken.outcome("limit:time")
    except Over as exc:
        return taken.outcome(str(exc))
    except ProtocolBroken as exc:
        return taken.outcome(
            "crashed", note=f"the guest does not keep to the protocol: {exc.message}"
        )
    except MachineEnded as exc:
        return taken.outcome("crashed", note=str(exc))
    return _ended(taken, taken.exit)


def _ended(taken: Taken, said: GuestExit) -> HeavyOutcome:
    if said.signal == _SIGKILL and said.oom:
        return taken.outcome("limit:memory")  # the guest's kernel says so; the machine has no more
    if said.signal:
        return taken.outcome("error", -said.signal)
    return taken.outcome("error" if said.code else "ok", said.code)
