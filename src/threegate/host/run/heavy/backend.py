"""What the heavy lane asks of an engine, and QEMU as one.

Every engine passes the same contract suite (`tests/escape/test_heavy_contract.py`): prepare
what can be prepared, probe it, run one job in a fresh machine, and leave nothing behind.

SECURITY
    Takes answers of gates that listened to hostile guests.  What is not an answer is kept
    as it is and never parsed further.
"""

import hashlib
import io
import os
from collections.abc import Callable
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

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
    Prepare,
    Probe,
    parse_outcome,
)
from threegate.host.images.store import Image
from threegate.host.run.heavy import channels
from threegate.host.run.heavy.engine import (
    EMULATION,
    IN_DISK_BYTES,
    KVM,
    Handed,
    Qemu,
    Shape,
    command,
)
from threegate.host.run.heavy.machines import Conversation, Parts, Place, Use, converse
from threegate.host.run.heavy.processor import processor
from threegate.host.run.heavy.templates import Template, Templates
from threegate.policy.bundle import Bundle
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import OFF
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import tsc_khz
from threegate.sandbox.service import Companion

NOT_USABLE: Final = "TG-ERA-002"
NO_ROOM: Final = "TG-ERA-003"
NO_ACCELERATOR: Final = "TG-ERA-007"  # lasting: nothing a second try could change
BOOT_SECONDS: Final = {KVM: 60, EMULATION: 600}
WAKE_SECONDS: Final = {KVM: 20, EMULATION: 180}
PATIENCE_SECONDS: Final = 0.3
_KVM_REFUSED: Final = "failed to initialize kvm"  # QEMU's own words
SNAPSHOT_SPARE_BYTES: Final = 64 * 1024 * 1024  # a stream is little more than the memory


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
    begun: Callable[[Companion], None] = lambda _: None  # is told the machine, to end it early
    gateway: int | None = None  # the engine's end of the channel to its gateway


@dataclass(frozen=True, slots=True)
class Ran:
    """How one job went, with what was measured from outside."""

    outcome: HeavyOutcome
    wall_ms: int
    cpu_ms: int
    peak_memory_bytes: int
    evidence: tuple[Evidence, ...]  # of the gate, of the boxes of its engine
    template: str
    refused: Untrusted[bytes] | None = None  # an answer that was not one


A = TypeVar("A")
Say = Callable[[str], None]


class Backend(Protocol):
    """One engine, with the image its guests start from."""

    name: str
    image: Image

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Make ready what later runs of this kind share, or raise `GateUnavailable`.

        `say` hears what takes long.
        """

    def probe(self, want: Want) -> tuple[str, ...]:
        """Start a machine and have it answer; return what was promised and held."""

    def run(self, want: Want, asked: Asked) -> Ran:
        """Run one job in a machine of its own; whatever happens there is an outcome."""

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""

    def close(self) -> None:
        """Let go of everything."""

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""


class QemuBackend:
    """QEMU's microvm machine, with one of its accelerators."""

    def __init__(self, name: str, *, place: Place, qemu: Qemu, image: Image, cache: Path) -> None:
        self.name = name
        self.place, self._qemu, self.image = place, qemu, image
        self._templates = Templates(cache / "templates")
        self._found: dict[Want, Template] = {}
        self._khz: int | None = None
        self._compared = False

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Boot a guest once and keep it as a snapshot; an old one that is mute is made anew."""
        if (known := self._found.get(want)) is not None and known.is_probed:
            return None  # compared before, by this very command
        made_from = self._made_from(want)
        template = self._templates.find(made_from)
        if template is None or not template.is_probed:
            self._compare()
        if template is not None:
            try:
                return self._prove(want, template)
            except GateUnavailable as exc:
                if exc.code != NOT_USABLE:
                    raise
                say(f"the snapshot that was kept does not answer ({self.name})")
                self._templates.drop(template)
        say(f"booting a guest of {want.memory_mib} MiB for a snapshot, once ({self.name})")
        most = self._shape(want).memory_bytes + SNAPSHOT_SPARE_BYTES
        template = self._templates.make(made_from, lambda to: self._boot(want, to), most_bytes=most)
        return self._prove(want, template)

    def _compare(self) -> None:
        """Compare the image with its digest: for a new snapshot, and once since the last boot."""
        if not self._compared:
            self.image.compare()
            self._compared = True

    def _prove(self, want: Want, template: Template) -> None:
        self._found[want] = template
        if not template.is_probed:
            self.probe(want)
            template.note_probed()

    def probe(self, want: Want) -> tuple[str, ...]:
        """Resume a clone and have it answer a nonce that it cannot know."""
        shape, seconds = self._said_shape(want), WAKE_SECONDS[self.name]
        with ExitStack() as stack:
            snapshot = self._template(want).open(stack)
            use = Use(
                lambda ends, _: Probe(ends, want.ring, seconds, shape),
                seconds,
                snapshot,
                patience_seconds=PATIENCE_SECONDS,
            )
            talk = self._converse(want, use)
        answer = answered(talk, tool_heavy.parse_probed, engine=self.name)
        return answer.probes

    def run(self, want: Want, asked: Asked) -> Ran:
        """Resume a clone for one job, and end it with the job."""
        template = self._template(want)
        seconds = WAKE_SECONDS[self.name]
        job = job_for(asked, self._said_shape(want), seconds)
        with ExitStack() as stack:
            snapshot = template.open(stack)
            disk = input_disk(stack, asked.inputs, self._templates.root) if asked.inputs else None
            whole = seconds + asked.wall_ms / 1000
            use = Use(job, whole, snapshot, disk, begun=asked.begun, gateway=asked.gateway)
            talk = self._converse(want, use)
        return ran_of(talk, template.sha256)

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""
        other = copy(self)
        other.place = Place(self.place.machine, bundle)
        return other

    def close(self) -> None:
        """Nothing is open between two runs."""
        self._found.clear()

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""
        return {
            "engine": self.name,
            "engine-sha256": self._qemu.digest(),
            "guest-kernel": self.image.manifest.kernel_version,
            "guest-kernel-sha256": self.image.manifest.files["kernel"].sha256,
            "image-sha256": self.image.digest,
        }

    def _boot(self, want: Want, to: int) -> tuple[str, ...]:
        seconds = BOOT_SECONDS[self.name]
        use = Use(
            lambda ends, _: Prepare(ends, want.imports, want.ring, seconds),
            seconds,
            snapshot_to=to,
            patience_seconds=PATIENCE_SECONDS,
        )
        talk = self._converse(want, use)
        return answered(talk, tool_heavy.parse_prepared, engine=self.name).imports

    def _converse(self, want: Want, use: Use) -> Conversation:
        layers = tuple(self.image.layers[name] for name in want.layers)
        scratch = self._templates.root
        with disk_errors("make a disk for a machine"):
            scratch.mkdir(parents=True, exist_ok=True)
        parts = Parts(self._qemu, self.image.kernel, self.image.initramfs, layers, scratch)
        use = replace(use, has_gateway=want.has_gateway)
        return converse(self.place, parts, self._shape(want), use, tsc_khz=self._rate())

    def _rate(self) -> int:
        if self._khz is None:
            self._khz = tsc_khz()
        return self._khz

    def _template(self, want: Want) -> Template:
        if want not in self._found:
            self.prepare(want)
        return self._found[want]

    def _shape(self, want: Want) -> Shape:
        return Shape(self.name, want.cpus, want.memory_mib)

    def _said_shape(self, want: Want) -> tool_heavy.GuestShape:
        return tool_heavy.GuestShape(want.cpus, self._shape(want).memory_bytes)

    def _made_from(self, want: Want) -> dict[str, Any]:
        layers = tuple(range(len(want.layers)))
        words = command(self._shape(want), Handed(0, 0, layers, 0), tsc_khz=0)
        return {
            "command_sha256": hashlib.sha256("\0".join(words).encode()).hexdigest(),
            "cpus": want.cpus,
            "engine": self.name,
            "engine_sha256": self._qemu.digest(),
            "image": self.image.digest,
            "imports": list(want.imports),
            "layers": list(want.layers),
            "memory_mib": want.memory_mib,
            # A guest goes on with the processor it was booted on, and with the rate it was told.
            "processor": processor(),
            "tsc_100mhz": round(self._rate() / 100_000),
            "ring": want.ring.digest,
        }


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
    """Return a read-only disk with the inputs on it; nobody can write to it any more."""
    documents = dict(inputs)
    layout = lay_out({name: ErofsFile(len(data)) for name, data in inputs})
    if layout.size > IN_DISK_BYTES:
        raise GateUnavailable("the inputs do not fit on one disk", code=NO_ROOM)
    with disk_errors("write the inputs"), ExitStack() as writing:
        scratch.mkdir(parents=True, exist_ok=True)
        fd = channels.nameless(writing, scratch)
        with open(fd, "wb", closefd=False) as file:
            write(layout, file, lambda name: io.BytesIO(documents[name]))
        os.ftruncate(fd, IN_DISK_BYTES)
        return channels.reopened(stack, fd)


def job_for(
    asked: Asked, shape: tool_heavy.GuestShape, seconds: int
) -> Callable[[Channels, int], HeavyAsk]:
    """Return what makes the gate's message, once its descriptors are known."""
    given = tuple(GivenInput(name, len(data)) for name, data in asked.inputs)
    parts = (asked.bundle, asked.request, asked.approval, asked.signature)
    return lambda ends, disk: HeavyJob(ends, shape, seconds, given, disk, *parts)


def ran_of(talk: Conversation, template: str) -> Ran:
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
    return Ran(
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
    """Return the last words of an engine, spelled out: they are not ours."""
    told = talk.engine.stderr.open_for_display().decode("utf-8", "replace").strip()
    last = told.rpartition("\n")[2]
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
