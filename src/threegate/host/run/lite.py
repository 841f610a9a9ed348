"""Sessions with the lite lane: one sandbox, many jobs, each in a fresh worker.

A sandbox serves one policy and one level of confidentiality: if a program ever owns the process
that runs it, that process has only seen jobs of the same level.  It is replaced after a number of
jobs, and after any job with an unusual end.

SECURITY
    Reads the answers of a process that runs hostile code.  An answer that breaks the protocol ends
    the sandbox, and its run counts as crashed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, TypeVar

from threegate import __version__
from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import (
    CheckCode,
    CodeChecked,
    LiteJob,
    LiteOpening,
    LiteOutcome,
)
from threegate.host.open_box import ended, open_session
from threegate.host.run.results import Confinement, confinement_of
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import Machine, find_machine, processor_class
from threegate.sandbox.profiles import TOOL_LITE
from threegate.sandbox.session import Reply, Session
from threegate.sandbox.view import View
from threegate.sandbox.worker import WorkerFiles, find_worker

MAX_JOBS: Final = 1000
OPENING_SECONDS: Final = 20.0
CHECK_SECONDS: Final = 30.0
# The lane ends a program a quarter of a second after its limit.  This grace is for a lane that
# does not, and for a worker that starts slowly on a busy machine.
GRACE_SECONDS: Final = 2.0

A = TypeVar("A")
_DIGESTING: Final = Lock()
_ENDED: Final = {"deadline": "limit:time", "output": "limit:output"}


@dataclass(frozen=True, slots=True)
class LiteRun:
    """How one job went, with what was measured from outside."""

    outcome: LiteOutcome
    wall_ms: int
    peak_memory_bytes: int
    refused: Untrusted[bytes] | None = None  # a malformed answer
    sent: bool = True  # False: the sandbox ended before it saw a byte of the job


class SomeBox(Protocol):
    """A box of the lite lane."""

    @property
    def box(self) -> Confinement:
        """What confines it."""

    def run(self, job: LiteJob, *, wall_ms: int) -> LiteRun:
        """Run an approved request."""

    def kill(self) -> None:
        """End it from another thread than the one that waits for its answer."""


class SomeBoxes(Protocol):
    """Where one thread gets its boxes from."""

    def box(self, confidentiality: str, /) -> SomeBox:
        """Return a box that may take a job of this level, or raise `GateUnavailable`."""

    def close(self) -> None:
        """Let go of what there is."""


class LiteBox:
    """One started box; used by one thread at a time."""

    def __init__(self, session: Session, box: Confinement) -> None:
        self._session, self.box = session, box
        self._jobs = 0
        self._ordinary = True

    @property
    def usable(self) -> bool:
        """Tell whether it may be given another job."""
        return self._session.alive and self._ordinary and self._jobs < MAX_JOBS

    def run(self, job: LiteJob, *, wall_ms: int) -> LiteRun:
        """Run an approved request; every event in the sandbox is an outcome."""
        self._jobs += 1
        deadline = wall_ms / 1000 + GRACE_SECONDS
        reply = self._session.ask(job.to_bytes(), deadline_seconds=deadline)
        if reply.why != "done":
            return self._unusual(reply, _ENDED.get(reply.why, "crashed"), None)
        answer = Untrusted(reply.message)
        try:
            outcome = tool_lite.parse_outcome(answer)
        except ProtocolBroken:
            return self._unusual(reply, "crashed", answer)
        if outcome.exit == "crashed" or outcome.exit.startswith("limit:"):
            self._ordinary = False
        return LiteRun(outcome, reply.wall_ms, reply.peak_memory_bytes)

    def check(self, check: CheckCode) -> CodeChecked:
        """Ask whether Monty can express a program; nothing of it runs."""
        self._jobs += 1
        return self.answer(check.to_bytes(), tool_lite.parse_checked)

    def answer(self, asked: bytes, parse: Callable[[Untrusted[bytes]], A]) -> A:
        """Return the answer to a question other than a job, or raise `GateUnavailable`."""
        reply = self._session.ask(asked, deadline_seconds=CHECK_SECONDS)
        try:
            if reply.why == "done":
                return parse(Untrusted(reply.message))
        except ProtocolBroken:
            pass
        self._ordinary = False
        raise ended(TOOL_LITE, "protocol" if reply.why == "done" else reply.why)

    def _unusual(self, reply: Reply, state: str, answer: Untrusted[bytes] | None) -> LiteRun:
        self._ordinary = False
        outcome = LiteOutcome(state)
        return LiteRun(outcome, reply.wall_ms, reply.peak_memory_bytes, answer, reply.sent)

    @property
    def proofs(self) -> tuple[str, ...]:
        """The forbidden acts the box tried before it was ready."""
        return self._session.evidence.proofs

    def kill(self) -> None:
        """End the box from another thread than the one that waits for its answer."""
        self._session.kill()

    def close(self) -> None:
        """End the box."""
        self._session.close()


class Boxes:
    """The sandboxes of one thread: at most one at a time, for the level last asked for."""

    def __init__(self, bundle: Bundle, machine: Machine | None = None) -> None:
        self._bundle, self._machine = bundle, machine
        self._open: tuple[str, LiteBox] | None = None

    def box(self, confidentiality: str) -> LiteBox:
        """Return a box that may take a job of this level."""
        if self._open is not None:
            level, box = self._open
            if level == confidentiality and box.usable:
                return box
            self.close()
        self._machine = self._machine or find_machine()
        box = start_box(self._bundle, self._machine, signed=self._bundle)
        self._open = (confidentiality, box)
        return box

    def close(self) -> None:
        """End the box there is."""
        if self._open is not None:
            box, self._open = self._open[1], None
            box.close()


@contextmanager
def open_lite(bundle: Bundle, *, signed: Bundle | None = None) -> Iterator[LiteBox]:
    """Open a box for one purpose; `signed` is the policy in force if `bundle` is an old one."""
    box = start_box(bundle, find_machine(), signed=signed or bundle)
    try:
        yield box
    finally:
        box.close()


def start_box(bundle: Bundle, machine: Machine, *, signed: Bundle) -> LiteBox:
    """Start a box that works by the rules of `bundle`, or raise `GateUnavailable`."""
    worker = find_worker()
    digests = _checked_digests(worker, machine.arch.name)
    given = worker.given()
    programs = tuple(Path(given[slot]) for slot in TOOL_LITE.executables)
    libm = _libm(machine.views.of(TOOL_LITE, programs))
    session, ready = open_session(
        machine,
        signed,
        TOOL_LITE,
        given,
        opening=LiteOpening(bundle.bundle_bytes()).to_bytes(),
        parse=tool_lite.GREETING.parse,
        seconds=OPENING_SECONDS,
    )
    evidence = session.evidence
    versions = {
        **ready.versions,
        **digests,
        "kernel": evidence.kernel,
        "libm-sha256": libm,
        "processor": processor_class(machine.arch.name),
        "threegate": __version__,
    }
    return LiteBox(session, confinement_of(evidence.profile_sha256, evidence.proofs, versions))


def _checked_digests(worker: WorkerFiles, arch: str) -> dict[str, str]:
    with _DIGESTING:  # sandboxes that start at once: the first computes the digests for all
        return _digests(worker, arch)


def _libm(view: View) -> str:
    """Return the digest of the mathematical library that the worker is linked to."""
    sources = [mount.source for mount in view.mounts if mount.inside.endswith("/libm.so.6")]
    if not sources:
        detail = "the Monty worker is not linked to the C library's libm"
        raise GateUnavailable(detail, code="TG-BOX-030", hint="run `make setup`")
    return sha256(Path(sources[0]).read_bytes()).hexdigest()


@cache  # thirty megabytes, once a command
def _digests(worker: WorkerFiles, arch: str) -> dict[str, str]:
    found = worker.checked_digests(arch)
    return {f"{name}-sha256": digest for name, digest in found.items()}
