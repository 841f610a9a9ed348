"""The engines of the heavy lane: what each has to do, and one machine from its start to its end.

Every engine passes the same contract suite (`tests/escape/test_heavy_contract.py`): prepare what
later runs share, probe it, run one job in a fresh machine, and leave nothing behind.

SECURITY
    Starts the sandboxes of a run and ends all of them, in every case.  Takes answers of gates that
    listened to hostile guests; a malformed answer is kept as bytes and never parsed further.
"""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from threegate.base.erofs import ErofsFile, lay_out, write
from threegate.base.errors import GateUnavailable, ProtocolBroken, disk_errors
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.messages import (
    Channels,
    GivenInput,
    GuestFailed,
    HeavyAsk,
    HeavyJob,
    HeavyOutcome,
    parse_outcome,
)
from threegate.host.images.store import Image
from threegate.host.open_box import open_box
from threegate.host.run.heavy import channels as wiring
from threegate.policy.bundle import Bundle
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import OFF
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import TOOL_HEAVY, Profile
from threegate.sandbox.service import Companion
from threegate.sandbox.session import WaitingGate
from threegate.sandbox.supervise import Ended

KVM: Final = "qemu-kvm"
EMULATION: Final = "qemu-emulation"
NO_ENGINE: Final = "TG-ERA-001"
MIB: Final = 1024 * 1024
IN_DISK_BYTES: Final = 4 * 1024 * MIB + 64 * MIB  # the same for all: a snapshot records its size
GRACE_SECONDS: Final = 30.0
OpenEngine = Callable[[], Companion]
NOT_USABLE: Final = "TG-ERA-002"
NO_ROOM: Final = "TG-ERA-003"
NO_ACCELERATOR: Final = "TG-ERA-007"  # lasting: a second try cannot succeed
PATIENCE_SECONDS: Final = 0.3
_KVM_REFUSED: Final = "failed to initialize kvm"  # QEMU's own words
A = TypeVar("A")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """Where machines run: what confines them, and the policy that signed their sandboxes."""

    machine: Machine
    bundle: Bundle

    def engine(
        self,
        profile: Profile,
        given: Mapping[str, str],
        program: tuple[str, ...],
        *,
        keep_fds: tuple[int, ...],
        cpus: tuple[int, ...] = (),
    ) -> OpenEngine:
        """Return what starts one box of an engine."""
        return partial(
            open_box,
            Companion,
            self.machine,
            self.bundle,
            profile,
            given,
            program=program,
            keep_fds=keep_fds,
            cpus=cpus,
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """The final answer of the gate, and how all sandboxes ended."""

    message: bytes
    gate: Ended
    engine: Ended
    evidence: tuple[Evidence, ...]  # of the gate, of the boxes of its engine


@dataclass(frozen=True, slots=True)
class Use:
    """What one machine is for: where it begins, and what it is handed."""

    ask: Callable[[Channels, int], HeavyAsk]  # given the gate's channels and its disk of inputs
    seconds: float
    snapshot: int | None = None  # to resume from; None: boot
    inputs: int | None = None  # a disk of inputs, read-only
    snapshot_to: int | None = None  # where the engine writes one
    patience_seconds: float = 0.0  # so that a failing engine can print its reason
    begun: Callable[[Companion], None] = lambda _: None  # called with the engine, which it may kill
    has_gateway: bool = False  # the guest has a second channel
    gateway: int | None = None  # the engine's end of it; None: it leads nowhere


def talk(
    place: EnginePlace,
    engines: Sequence[OpenEngine],
    channels: Channels,
    use: Use,
    *,
    ends: ExitStack,
    watched: Callable[[Companion], AbstractContextManager[object]] = nullcontext,
) -> Conversation:
    """Start the boxes of an engine and a gate that listens to it; end them all.

    `ends` holds the descriptors that the boxes were handed; they are closed on the way.  The
    first box is the engine itself, which `watched` may watch while the gate works.
    """
    with ExitStack() as boxes:
        started = [boxes.enter_context(start()) for start in engines]
        use.begun(started[0])
        kept = [channels.agent, channels.monitor, *([] if use.inputs is None else [use.inputs])]
        gate = open_box(WaitingGate, place.machine, place.bundle, TOOL_HEAVY, keep_fds=(*kept,))
        try:
            ends.close()  # when one sandbox ends, the others must see it
            for engine in started:
                engine.ready()
            asked = use.ask(channels, use.inputs or 0).to_bytes()
        except BaseException:
            gate.discard()
            raise
        seconds = use.seconds + GRACE_SECONDS
        with watched(started[0]):
            answer = gate.serve(asked, deadline_seconds=seconds)
        with answer.message as message:
            said = message.read()
        ended = [engine.end(patience_seconds=use.patience_seconds) for engine in started]
    return Conversation(
        said, answer.ended, ended[0], (gate.evidence, *(engine.evidence for engine in started))
    )


def outlet(use: Use, idle: ExitStack) -> int | None:
    """Return the engine's end of the channel to a gateway, if its guest has one."""
    if not use.has_gateway or use.gateway is not None:
        return use.gateway
    return wiring.pair(idle, idle)[1]


@dataclass(frozen=True, slots=True)
class Want:
    """The machine a job is to have."""

    cpus: int
    memory_mib: int
    layers: tuple[str, ...]
    imports: tuple[str, ...]  # loaded before the job begins
    ring: ExecutorProfile  # in force from before the snapshot

    @property
    def has_gateway(self) -> bool:
        """Tell whether the guest has a channel to a gateway."""
        return self.ring.network != OFF


@dataclass(frozen=True, slots=True)
class Asked:
    """An approved request with everything its gate checks again."""

    bundle: bytes
    request: bytes
    approval: bytes
    signature: bytes
    inputs: tuple[tuple[str, bytes], ...]
    wall_ms: int
    begun: Callable[[Companion], None] = lambda _: (
        None
    )  # called with the machine, so that it can be ended early
    gateway: int | None = None  # the engine's end of the channel to its gateway


@dataclass(frozen=True, slots=True)
class HeavyRun:
    """How one job went, with what was measured from outside."""

    outcome: HeavyOutcome
    wall_ms: int
    cpu_ms: int
    peak_memory_bytes: int
    evidence: tuple[Evidence, ...]  # of the gate, of the boxes of its engine
    template: str
    refused: Untrusted[bytes] | None = None  # a malformed answer


class Backend(Protocol):
    """One engine, with the image its guests start from."""

    name: str
    image: Image

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Make ready what later runs of this kind share, or raise `GateUnavailable`.

        `say` is called before a step that takes long.
        """

    def probe(self, want: Want) -> tuple[str, ...]:
        """Start a machine and have it answer; return what was promised and held."""

    def run(self, want: Want, asked: Asked) -> HeavyRun:
        """Run one job in a machine of its own; every event in it is an outcome."""

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""

    def close(self) -> None:
        """Let go of everything."""

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""


def answered(
    talk: Conversation, parse: Callable[[Untrusted[bytes]], A | GuestFailed], *, engine: str
) -> A:
    """Return what a gate answered, or raise `GateUnavailable` with the reason."""
    if talk.gate.why != "done":
        reason = f"its gate ended ({talk.gate.why}), the engine {_ending(talk)}"
        raise _refused(reason, engine=engine)
    try:
        answer = parse(Untrusted(talk.message))
    except ProtocolBroken as exc:
        raise _refused("its gate does not answer", engine=engine) from exc
    if isinstance(answer, GuestFailed):
        raise _refused(f"{answer.message}{_said(talk)}", engine=engine)
    return answer


def input_disk(stack: ExitStack, inputs: tuple[tuple[str, bytes], ...], scratch: Path) -> int:
    """Return a read-only disk that holds the inputs; no descriptor can write to it."""
    documents = dict(inputs)
    layout = lay_out({name: ErofsFile(len(data)) for name, data in inputs})
    if layout.size > IN_DISK_BYTES:
        raise GateUnavailable("the inputs do not fit on one disk", code=NO_ROOM)
    with disk_errors("write the inputs"), ExitStack() as writing:
        scratch.mkdir(parents=True, exist_ok=True)
        fd = wiring.nameless(writing, scratch)
        with open(fd, "wb", closefd=False) as file:
            write(layout, file, lambda name: io.BytesIO(documents[name]))
        os.ftruncate(fd, IN_DISK_BYTES)
        return wiring.reopened(stack, fd)


def no_inputs(ends: ExitStack, scratch: Path) -> int:
    """Return a disk with nothing on it."""
    with disk_errors("make a disk without a name in the cache"), ExitStack() as stack:
        fd = wiring.nameless(stack, scratch)
        os.ftruncate(fd, IN_DISK_BYTES)
        return wiring.reopened(ends, fd)


def job_for(
    asked: Asked, shape: tool_heavy.GuestShape, seconds: int
) -> Callable[[Channels, int], HeavyAsk]:
    """Return what makes the gate's message, once its descriptors are known."""
    given = tuple(GivenInput(name, len(data)) for name, data in asked.inputs)
    parts = (asked.bundle, asked.request, asked.approval, asked.signature)
    return lambda ends, disk: HeavyJob(ends, shape, seconds, given, disk, *parts)


def ran_of(talk: Conversation, template: str) -> HeavyRun:
    """Return how a job went."""
    answer = Untrusted(talk.message)
    outcome, refused = HeavyOutcome("crashed"), None
    if talk.gate.why == "deadline":
        outcome = HeavyOutcome("limit:time")
    elif talk.gate.why == "done":
        try:
            outcome = parse_outcome(answer)
        except ProtocolBroken:
            refused = answer
    return HeavyRun(
        outcome=outcome,
        wall_ms=talk.gate.wall_ms,
        cpu_ms=talk.engine.cpu_ms,
        peak_memory_bytes=talk.engine.peak_memory_bytes,
        evidence=talk.evidence,
        template=template,
        refused=refused,
    )


def _ending(talk: Conversation) -> str:
    return f"{talk.engine.why}{_said(talk)}"


def _said(talk: Conversation) -> str:
    """Return the last line that an engine printed, escaped: it is foreign text."""
    shown = talk.engine.stderr.open_for_display().decode("utf-8", "replace").strip()
    last = shown.rpartition("\n")[2]
    return f" ({quote(last, 160)})" if last else ""


def _refused(reason: str, *, engine: str) -> GateUnavailable:
    hint = "`threegate doctor` tries each engine; policy names those that may be used"
    detail = f"{engine} does not work here: {reason}"
    if engine == KVM and _KVM_REFUSED in reason:
        hint = (
            f"list `{EMULATION}` in lanes.era.engines of policy/tool-exec.policy.md and run "
            "`threegate policy apply`; `threegate doctor` says what /dev/kvm lacks"
        )
        return GateUnavailable(detail, code=NO_ACCELERATOR, hint=hint)
    return GateUnavailable(detail, code=NOT_USABLE, hint=hint)
