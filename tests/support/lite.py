"""Programs in the lite lane as it is deployed: a signed approval, the real box, a real worker.

A `Lane` looks at its box from outside while a program runs, every few milliseconds, and keeps
the kernel's largest resident size of gate and worker.
"""

import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from tests.support import samples
from tests.support.policies import policy
from tests.support.sshlab import Forge, Key
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, PolicySection
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import Input, RunLimits, ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import LiteJob, LiteOutcome
from threegate.host.run.lite import LiteBox, start_box
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle, functions_sha256
from threegate.sandbox.machine import Machine, find_machine

MIB: Final = 2**20
OPERATOR: Final = Key(b"\x01" * 32)  # the signer of tests.support.policies
LIMITS: Final = RunLimits(1000, 64 * MIB, 256 * 1024, 500, 1, 1, 0)
LOOK_SECONDS: Final = 0.004
_HIGH: Final = re.compile(rb"^VmHWM:\s+([0-9]+) kB$", re.MULTILINE)
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Program:
    """What a request asks for."""

    code: str
    functions: tuple[str, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    limits: RunLimits = LIMITS


@dataclass(frozen=True, slots=True)
class Ran:
    """An outcome, and what it took; sizes are 0 where nothing was started."""

    outcome: LiteOutcome
    wall_ms: int
    worker_bytes: int
    gate_bytes: int

    @property
    def exit(self) -> str:
        return self.outcome.exit

    @property
    def value(self) -> str:
        return self.outcome.value.decode("utf-8")

    @property
    def stdout(self) -> str:
        return self.outcome.stdout.decode("utf-8")

    @property
    def stderr(self) -> str:
        return self.outcome.stderr.decode("utf-8")

    @property
    def told(self) -> str:
        """Everything that reaches a reader."""
        return f"{self.exit}\n{self.value}\n{self.stdout}\n{self.stderr}"


def request_for(program: Program, **changes: Any) -> ToolRequest:
    """Return the request for a program, or raise `ArtifactRejected` if it cannot be one."""
    inputs = tuple(
        Input(name, "blob-" + sha256_hex(data), len(data), None)
        for name, data in sorted(program.inputs.items())
    )
    base = samples.tool_request(
        profile="pure",
        code=samples.box(program.code),
        code_sha256=sha256_hex(program.code.encode("utf-8", "surrogatepass")),
        functions=tuple(sorted(program.functions)),
        inputs=inputs,
        limits=program.limits,
    )
    made = replace(base, **changes)
    try:
        data = registry.emit(made)
    except UnicodeEncodeError as exc:
        raise ArtifactRejected("not text") from exc
    registry.parse(Untrusted(data))
    return made


def job_for(program: Program, rules: Bundle, *, key: Key = OPERATOR, **changes: Any) -> LiteJob:
    """Return a job that a human approved just now; `changes` are fields of the approval."""
    request = request_for(program)
    now = int(time.time())
    approval = samples.approval(
        request=registry.id_of(request),
        limits=request.limits,
        functions_sha256=functions_sha256(rules),
        policy=tuple(
            PolicySection(name, rules.section_digest(name)) for name in BOUND_SECTIONS["monty"]
        ),
        not_before=_spelled(now - 60),
        not_after=_spelled(now + 1800),
    )
    data = registry.emit(replace(approval, **changes))
    signature = Forge(key, message=data, namespace=NAMESPACE.encode()).armored()
    inputs = tuple(sorted(program.inputs.items()))
    return LiteJob("run", now, registry.emit(request), data, signature, inputs)


def _spelled(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class Lane:
    """A lite lane for tests: boxes are replaced exactly when the host would replace them."""

    def __init__(self, **changes: tuple[str, str]) -> None:
        self.rules: Bundle = policy(**changes).bundle()
        self._machine: Machine | None = None
        self._box: LiteBox | None = None
        self.boxes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
            self._box = None

    @property
    def box(self) -> LiteBox:
        """Return a box that takes another job."""
        if self._box is None or not self._box.usable:
            self.close()
            self._machine = self._machine or find_machine()
            self._box = self.start(self._machine)
            self.boxes += 1
        return self._box

    def start(self, machine: Machine) -> LiteBox:
        """Start a box as the host does."""
        return start_box(self.rules, machine, signed=self.rules)

    def run(self, program: Program | str) -> Ran:
        """Run a program; one that cannot be a request ends as `refused:artifact`."""
        asked = Program(program) if isinstance(program, str) else program
        try:
            job = job_for(asked, self.rules)
        except ArtifactRejected:
            return Ran(LiteOutcome("refused:artifact"), 0, 0, 0)
        box = self.box
        with Watch(first_process(box)) as watch:
            ran = box.run(job, wall_ms=asked.limits.wall_ms)
        assert ran.sent, "the box was gone before it was asked"
        worker = max(watch.worker_bytes, ran.peak_memory_bytes)
        return Ran(ran.outcome, ran.wall_ms, worker, watch.gate_bytes)


def first_process(box: LiteBox) -> int:
    found = box._session._line.started.meter.first_process()
    assert found is not None, "bubblewrap told no process"
    return found


class Watch:
    """Looks at a box while a block runs."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.worker_bytes = self.gate_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()  # what lives holds the most it ever had

    def _look_on(self) -> None:
        while True:
            self._look()
            if self._done.wait(LOOK_SECONDS):
                return

    def _look(self) -> None:
        for pid in tree(self._first):
            try:
                name = (_PROC / str(pid) / "comm").read_text("ascii", "replace").strip()
                found = _HIGH.search((_PROC / str(pid) / "status").read_bytes())
            except OSError:
                continue
            size = int(found[1]) * 1024 if found else 0
            if name.startswith("python"):
                self.gate_bytes = max(self.gate_bytes, size)
            elif name == "monty":
                self.worker_bytes = max(self.worker_bytes, size)


def tree(first: int) -> list[int]:
    """Return a process and everything it started."""
    found, waiting = [], [first]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        try:
            threads = os.listdir(_PROC / str(pid) / "task")
        except OSError:
            continue
        for thread in threads:  # a child belongs to the thread that started it
            try:
                text = (_PROC / str(pid) / "task" / thread / "children").read_text("ascii")
            except OSError:
                continue
            waiting += [int(word) for word in text.split()]
    return found
