"""Messages between the host and a tool-heavy sandbox; each sandbox gets one and gives one answer.

SECURITY
    Either side may be compromised: the sandbox listens to a hostile guest, and does not trust the
    host.  Text here stays foreign text; streams and files are the guest's.
"""

from typing import Final, Literal

from threegate.base.forms import CODE, DESCRIPTOR, EXIT_STATE, FILE_NAME, IDENTIFIER
from threegate.base.limits import (
    MAX_APPROVAL_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_INPUTS,
    MAX_REQUEST_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_STREAM_BYTES,
    MIB,
)
from threegate.base.message_parts import JoinedParts, RawPart
from threegate.base.message_shapes import RecordRow, SortedRecord, TextLine
from threegate.base.messages import CheckedRecord, Message, head, message, parser_of, part, record
from threegate.base.schema import (
    Boolean,
    Choice,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Sorted,
)
from threegate.base.wire import need
from threegate.gates.tool_exec.monty.messages import REFUSED_APPROVAL
from threegate.policy.ring.executor_profile import MAX_VIOLATIONS, ExecutorProfile, RingViolation

PROTOCOL: Final = "tool-heavy/1"
MAX_SECONDS: Final = 90_000
MAX_MODULES: Final = 512
MAX_FILES: Final = 256
MAX_FILES_BYTES: Final = 256 * MIB  # of all files together; the sandbox holds them in memory
SNAPSHOT_NAME: Final = "state"  # of the descriptor the engine was given for a snapshot
GUEST_NAME: Final = "guest"  # what a user-space kernel calls its one guest
NOT_AS_PROMISED: Final = "refused:guest-not-as-promised"
DID_NOT_WAKE: Final = "refused:guest-did-not-wake"  # or stopped before it was given its job
STOPPED: Final = ("crashed", DID_NOT_WAKE, NOT_AS_PROMISED)
# What a gate may say of a guest.  The names become evidence beside what the host has proved
# itself: a compromised gate must not write "landlock" there.
PROBES: Final = (
    "guest-cpus",
    "guest-empty-environment",
    "guest-memory",
    "guest-no-network",
    "guest-no-resolver",
    "guest-no-route",
    "guest-no-shared-folder",
    "guest-only-its-image",
    "guest-ring-applied",
    "guest-ring-commands",
    "guest-ring-exec",
    "guest-ring-imports",
    "guest-ring-offline",
    "guest-ring-programs",
    "guest-ring-socket",
    "guest-ring-view",
    "guest-root-read-only",
)
GuestKind = Literal["machine", "process"]
MODULES: Final = ListOf(
    Pattern(
        r"[A-Za-z_][A-Za-z0-9_]{0,63}(?:\.[A-Za-z_][A-Za-z0-9_]{0,63})?",
        "a module, or one in a package",
    ),
    MAX_MODULES,
)
_PROBES: Final = Sorted(Choice(*PROBES), len(PROBES))
_RING: Final = SortedRecord(ExecutorProfile)
_SECONDS: Final = Integer(1, MAX_SECONDS)
_NOTE: Final = Pattern(r"[a-zA-Z0-9 :,.'()/_-]{1,200}", "words of ours, with the engine's")


@record
class Channels(CheckedRecord):
    """The descriptors a sandbox was handed: the guest's agent, the engine's own channel.

    Where the host has left a greeting for the guest in its channel, to be found by a clone the
    moment it goes on, `greeted` is the nonce that the first answer must hold.  A guest without
    one is not a clone: it was started for what it is asked, and has no ring yet.
    """

    agent: int = head(DESCRIPTOR, "to the guest's agent")
    monitor: int = head(DESCRIPTOR, "to the engine")
    greeted: str = head(
        Pattern("(?:[0-9a-f]{32})?", "a nonce, or nothing"), "see above", default=""
    )

    def check(self) -> None:
        need(self.agent != self.monitor, "two channels on one descriptor")


@record
class GuestShape(CheckedRecord):
    """The guest as it was started, which it must agree with, and what it was started as.

    A `machine` has a kernel of its own and is resumed from a snapshot.  A `process` has a
    user-space kernel, was started for this one job, and gets its inputs over its channel.
    """

    cpus: int = head(Integer(1, 256), "processors")
    memory_bytes: int = head(Integer(1, 2**40), "memory")
    kind: GuestKind = head(Choice("machine", "process"), "what it is", default="machine")


_CHANNELS: Final = RecordRow(Channels)
_SHAPE: Final = RecordRow(GuestShape)


@message(
    PROTOCOL,
    "prepare",
    sender="host, to a guest that boots",
    answer="`GuestPrepared`, `GuestFailed`",
)
class Prepare(Message):
    """Wait for a guest to boot, have it load modules, and have the engine write a snapshot."""

    channels: Channels = head(_CHANNELS, "where guest and engine are")
    imports: tuple[str, ...] = head(MODULES, "what to load")
    ring: ExecutorProfile = head(_RING, "the ring it loads them under")
    seconds: int = head(_SECONDS, "until it must be done")


@message(
    PROTOCOL, "probe", sender="host, to a guest that was resumed", answer="`Probed`, `GuestFailed`"
)
class Probe(Message):
    """See whether a resumed guest answers a fresh nonce, and is what was promised."""

    channels: Channels = head(_CHANNELS, "where guest and engine are")
    ring: ExecutorProfile = head(_RING, "the ring it must have")
    seconds: int = head(_SECONDS, "until it must be done")
    shape: GuestShape = head(_SHAPE, "what it must be")


@record
class GivenInput(CheckedRecord):
    """An input on the disk of inputs, as the host says it lies there."""

    name: str = head(IDENTIFIER, "its name")
    bytes: int = head(Integer(0, 2**40), "its size")


@message(PROTOCOL, "job", sender="host, to a guest that was resumed", answer="`HeavyOutcome`")
class HeavyJob(Message):
    """One approved request, for a guest that was resumed for it.

    There is no time in it: nothing here is ever run again (docs/decisions/0019), so an
    approval counts by the gate's own clock or not at all.
    """

    channels: Channels = head(_CHANNELS, "where guest and engine are")
    shape: GuestShape = head(_SHAPE, "what the guest must be")
    seconds: int = head(_SECONDS, "until the guest must have answered")
    inputs: tuple[GivenInput, ...] = head(
        Named(RecordRow(GivenInput), MAX_INPUTS), "what is on the disk of inputs"
    )
    disk: int = head(Integer(0, 1_023), "the descriptor of the disk of inputs; 0 for none")
    bundle: bytes = part(RawPart(MAX_BUNDLE_BYTES), "the compiled policy")
    request: bytes = part(RawPart(MAX_REQUEST_BYTES), "the tool request")
    approval: bytes = part(RawPart(MAX_APPROVAL_BYTES), "its approval")
    signature: bytes = part(RawPart(MAX_SIGNATURE_BYTES), "the signature of the approval")

    def check(self) -> None:
        need(bool(self.inputs) == bool(self.disk), "a disk goes with inputs")


@message(PROTOCOL, "prepared", sender="sandbox")
class GuestPrepared(Message):
    """The snapshot is written; these modules are loaded in it."""

    imports: tuple[str, ...] = head(MODULES, "what is loaded")


@message(PROTOCOL, "probed", sender="sandbox")
class Probed(Message):
    """The guest answered, and said of itself what was promised."""

    probes: tuple[str, ...] = head(_PROBES, "promises that it keeps")


@message(PROTOCOL, "failed", sender="sandbox")
class GuestFailed(Message):
    """There is no guest to work with."""

    message: str = head(TextLine(), "why")


@record
class HeavyCut(CheckedRecord):
    """Which streams of a run are cut off."""

    stdout: bool = head(Boolean(), "standard output", default=False)
    stderr: bool = head(Boolean(), "standard error", default=False)


@message(PROTOCOL, "outcome", sender="sandbox")
class HeavyOutcome(Message):
    """How a job ended.  `code` and `message` say why nothing ran; then there is no output.

    `note` is the gate's own word about a machine that stopped; streams are the guest's alone.
    """

    exit: str = head(EXIT_STATE, "how it ended")
    exit_code: int | None = head(
        Nullable(Integer(-64, 255)), "of the program; minus its number for a signal", default=None
    )
    stdout: bytes = part(RawPart(MAX_STREAM_BYTES), "standard output", default=b"")
    stderr: bytes = part(RawPart(MAX_STREAM_BYTES), "standard error", default=b"")
    cut: HeavyCut = head(RecordRow(HeavyCut), "which streams are cut off", default=HeavyCut())
    files: tuple[tuple[str, bytes], ...] = part(
        JoinedParts(FILE_NAME, MAX_FILES, MAX_FILES_BYTES), "files it left", default=()
    )
    probes: tuple[str, ...] = head(_PROBES, "promises that the guest keeps", default=())
    violations: tuple[RingViolation, ...] = head(
        ListOf(RecordRow(RingViolation), MAX_VIOLATIONS),
        "rules of the ring that it tried",
        default=(),
    )
    code: str | None = head(Nullable(CODE), "of a refused approval", default=None)
    message: str | None = head(Nullable(TextLine()), "of a refused approval", default=None)
    note: str | None = head(Nullable(_NOTE), "about a machine that stopped", default=None)

    def check(self) -> None:
        number, denied = self.exit_code, self.exit == REFUSED_APPROVAL
        need((self.exit == "ok") == (number == 0), "ok goes with the exit code 0")
        need(number is None or self.exit in ("ok", "error"), "an exit code of what was ended")
        need((self.code is not None) == denied, "a code goes with a refused approval")
        need((self.message is not None) == denied, "a message goes with a refused approval")
        need(self.note is None or self.exit in STOPPED, "a note about what did not crash")
        if self.exit.startswith("refused:"):
            ran = self.stdout or self.stderr or self.files or self.violations
            need(not ran, "output of what did not run")


HeavyAsk = Prepare | Probe | HeavyJob
parse_ask: Final = parser_of(Prepare, Probe, HeavyJob)
parse_prepared: Final = parser_of(GuestPrepared, GuestFailed)
parse_probed: Final = parser_of(Probed, GuestFailed)
parse_outcome: Final = parser_of(HeavyOutcome)
