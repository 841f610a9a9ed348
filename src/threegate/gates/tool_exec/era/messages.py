"""Messages between the host and a tool-heavy box; each box gets one and gives one answer.

| message | sent by | answered by |
|---|---|---|
| `Prepare` | host, for a machine that boots | `Prepared`, or `Failed` |
| `Probe` | host, for a machine that was resumed | `Probed`, or `Failed` |
| `Job` | host, for a machine that was resumed | `Outcome`, in `tool_heavy_outcome` |

SECURITY
    Either side may be owned: the box listens to a hostile guest, and believes no host.
    Every field is checked when a message is built, by whoever builds it.  What is text here
    stays foreign text.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from threegate.base import limits, wire
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    need_sentence,
    need_word,
    parts_of,
)
from threegate.gates.tool_exec.era.guest_messages import NONCE
from threegate.policy.ring.executor_profile import ExecutorProfile, parse_profile

PROTOCOL: Final = "tool-heavy/1"
MAX_ASK_BYTES: Final = (
    limits.MAX_HEADER_BYTES
    + limits.MAX_BUNDLE_BYTES
    + limits.MAX_REQUEST_BYTES
    + limits.MAX_APPROVAL_BYTES
    + limits.MAX_SIGNATURE_BYTES
)
MAX_SECONDS: Final = 90_000
SNAPSHOT_NAME: Final = "state"  # of the descriptor the engine was given for a snapshot
GUEST_NAME: Final = "guest"  # what a user-space kernel calls its one guest
# What a gate may say of a guest.  The names become evidence beside what the host has proved
# itself: an owned gate must not write "landlock" there.
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
Kind = Literal["machine", "process"]
MAX_MODULES: Final = 512
MAX_FD: Final = 1023
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63})?")


@dataclass(frozen=True, slots=True)
class Channels:
    """The descriptors a box was handed: the guest's agent, the engine's own channel.

    Where the host has left a greeting for the guest in its channel, to be found by a clone the
    moment it goes on, `greeted` is the nonce that the first answer must hold.  A guest without
    one is no clone: it was started for what it is asked, and has no ring yet.
    """

    agent: int
    monitor: int
    greeted: str = ""

    def __post_init__(self) -> None:
        if self.greeted != "":
            need_word(self.greeted, NONCE, "the nonce of a greeting")
        need_number(self.agent, MAX_FD, "agent", least=4)
        need_number(self.monitor, MAX_FD, "monitor", least=4)
        need(self.agent != self.monitor, "two channels on one descriptor")

    def plain(self) -> list[int | str]:
        """Return them as a field."""
        return [self.agent, self.monitor, self.greeted]


@dataclass(frozen=True, slots=True)
class Shape:
    """The guest as it was started, which it must agree with, and what it was started as.

    A `machine` has a kernel of its own and is resumed from a snapshot.  A `process` has a
    user-space kernel, was started for this one job, and gets its inputs over its channel.
    """

    cpus: int
    memory_bytes: int
    kind: Kind = "machine"

    def __post_init__(self) -> None:
        need_number(self.cpus, 256, "cpus", least=1)
        need_number(self.memory_bytes, 2**40, "memory_bytes", least=1)
        need(self.kind in ("machine", "process"), "a guest of no kind")

    def plain(self) -> list[int | str]:
        """Return it as a field."""
        return [self.cpus, self.memory_bytes, self.kind]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Wait for a guest to boot, have it load modules, and have the engine write a snapshot."""

    channels: Channels
    imports: tuple[str, ...]
    ring: ExecutorProfile
    seconds: int

    def __post_init__(self) -> None:
        _need_modules(self.imports)
        need_number(self.seconds, MAX_SECONDS, "seconds", least=1)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "channels": self.channels.plain(),
            "imports": list(self.imports),
            "ring": self.ring.plain(),
            "seconds": self.seconds,
        }
        return wire.pack(PROTOCOL, "prepare", fields, [])


@dataclass(frozen=True, slots=True)
class Probe:
    """See whether a resumed guest answers a fresh nonce, and is what was promised."""

    channels: Channels
    ring: ExecutorProfile
    seconds: int
    shape: Shape

    def __post_init__(self) -> None:
        need_number(self.seconds, MAX_SECONDS, "seconds", least=1)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "channels": self.channels.plain(),
            "ring": self.ring.plain(),
            "seconds": self.seconds,
            "shape": self.shape.plain(),
        }
        return wire.pack(PROTOCOL, "probe", fields, [])


@dataclass(frozen=True, slots=True)
class Given:
    """An input on the disk of inputs, as the host says it lies there."""

    name: str
    bytes: int

    def __post_init__(self) -> None:
        need_word(self.name, _IDENTIFIER, "the name of an input")
        need_number(self.bytes, 2**40, "bytes")


@dataclass(frozen=True, slots=True)
class Job:
    """One approved request, for a guest that was resumed for it.

    There is no time in it: nothing here is ever run again (docs/decisions/0019), so an
    approval counts by the gate's own clock or not at all.
    """

    channels: Channels
    shape: Shape
    seconds: int  # until the guest must have answered
    inputs: tuple[Given, ...]
    disk: int  # the descriptor of the disk of inputs; 0 for none
    bundle: bytes
    request: bytes
    approval: bytes
    signature: bytes

    def __post_init__(self) -> None:
        need_number(self.seconds, MAX_SECONDS, "seconds", least=1)
        need_number(self.disk, MAX_FD, "disk")
        need(len(self.inputs) <= limits.MAX_INPUTS, "too many inputs")
        need(bool(self.inputs) == bool(self.disk), "a disk goes with inputs")
        names = [given.name for given in self.inputs]
        need(names == sorted(set(names)), "inputs are not sorted, or one stands twice")
        need_bytes(self.bundle, limits.MAX_BUNDLE_BYTES, "bundle")
        need_bytes(self.request, limits.MAX_REQUEST_BYTES, "request")
        need_bytes(self.approval, limits.MAX_APPROVAL_BYTES, "approval")
        need_bytes(self.signature, limits.MAX_SIGNATURE_BYTES, "signature")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "channels": self.channels.plain(),
            "disk": self.disk,
            "inputs": [[given.name, given.bytes] for given in self.inputs],
            "seconds": self.seconds,
            "shape": self.shape.plain(),
        }
        parts = [self.bundle, self.request, self.approval, self.signature]
        return wire.pack(PROTOCOL, "job", fields, parts)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The snapshot is written; these modules are loaded in it."""

    imports: tuple[str, ...]

    def __post_init__(self) -> None:
        _need_modules(self.imports)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "prepared", {"imports": list(self.imports)}, [])


@dataclass(frozen=True, slots=True)
class Probed:
    """The guest answered, and said of itself what was promised."""

    probes: tuple[str, ...]

    def __post_init__(self) -> None:
        need_probes(self.probes)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "probed", {"probes": list(self.probes)}, [])


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no guest to work with, and why."""

    message: str
    kind: ClassVar[str] = "failed"

    def __post_init__(self) -> None:
        need_sentence(self.message, limits.MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, self.kind, {"message": self.message}, [])


Ask = Prepare | Probe | Job


def parse_ask(data: Untrusted[bytes]) -> Ask:
    """Return what the host wants, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, MAX_ASK_BYTES, "prepare", "probe", "job")
    if packed.kind == "prepare":
        parts_of(packed, 0)
        names = ("channels", "imports", "ring", "seconds")
        channels, imports, ring, seconds = fields_of(packed, *names)
        need(type(imports) is list, "imports is not a list")
        return Prepare(_channels(channels), tuple(imports), parse_profile(ring), seconds)
    if packed.kind == "probe":
        parts_of(packed, 0)
        channels, ring, seconds, shape = fields_of(packed, "channels", "ring", "seconds", "shape")
        return Probe(_channels(channels), parse_profile(ring), seconds, _shape(shape))
    return _job(packed)


def parse_prepared(data: Untrusted[bytes]) -> Prepared | Failed:
    """Return the answer to `Prepare`, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_HEADER_BYTES, "prepared", "failed")
    parts_of(packed, 0)
    if packed.kind == "failed":
        return Failed(*fields_of(packed, "message"))
    (imports,) = fields_of(packed, "imports")
    need(type(imports) is list, "imports is not a list")
    return Prepared(tuple(imports))


def parse_probed(data: Untrusted[bytes]) -> Probed | Failed:
    """Return the answer to `Probe`, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_HEADER_BYTES, "probed", "failed")
    parts_of(packed, 0)
    if packed.kind == "failed":
        return Failed(*fields_of(packed, "message"))
    (probes,) = fields_of(packed, "probes")
    need(type(probes) is list, "probes is not a list")
    return Probed(tuple(probes))


def _unpack(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)


def _job(packed: Packed) -> Job:
    names = ("channels", "disk", "inputs", "seconds", "shape")
    channels, disk, inputs, seconds, shape = fields_of(packed, *names)
    bundle, request, approval, signature = parts_of(packed, 4)
    return Job(
        channels=_channels(channels),
        shape=_shape(shape),
        seconds=seconds,
        inputs=tuple(Given(name, size) for name, size in pairs_of(inputs, limits.MAX_INPUTS)),
        disk=disk,
        bundle=bundle,
        request=request,
        approval=approval,
        signature=signature,
    )


def _channels(value: Any) -> Channels:
    need(type(value) is list and len(value) == 3, "channels are two and a greeting")
    return Channels(*value)


def _shape(value: Any) -> Shape:
    need(type(value) is list and len(value) == 3, "a shape has two numbers and a kind")
    return Shape(*value)


def pairs_of(value: Any, most: int) -> list[list[Any]]:
    """Return a short list of pairs, or raise `ProtocolBroken`."""
    need(type(value) is list and len(value) <= most, "not a short list")
    need(all(type(item) is list and len(item) == 2 for item in value), "not pairs")
    found: list[list[Any]] = value
    return found


def _need_modules(names: tuple[str, ...]) -> None:
    need(len(names) <= MAX_MODULES, "too many modules")
    for name in names:
        need_word(name, _MODULE, "a module")


def need_probes(names: tuple[str, ...]) -> None:
    """Raise `ProtocolBroken` unless these are probes of a guest, sorted."""
    need(len(names) <= len(PROBES), "too many probes")
    need(all(name in PROBES for name in names), "a probe that no guest answers")
    need(list(names) == sorted(set(names)), "probes are not sorted, or one stands twice")
