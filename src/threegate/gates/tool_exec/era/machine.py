"""The gate's side of one machine: frames of the guest, its engine, and the promises about it.

The names of kept promises are evidence in the result: what the guest said just before its job.
The mechanism behind a promise is outside: without a network device there is no network.

SECURITY
    Listens to a guest that its job may have taken over.  Frames are bounded before they are
    read; a breach of the protocol ends the conversation.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.channels import (
    PIECE_BYTES,
    Control,
    Gone,
    Late,
    Lines,
    Monitor,
    MonitorBroken,
    MonitorRefused,
)
from threegate.gates.tool_exec.era.guest_messages import GuestFacts
from threegate.gates.tool_exec.era.messages import SNAPSHOT_NAME, Channels, GuestKind, GuestShape
from threegate.policy.ring.executor_profile import ExecutorProfile

# Without these limits QEMU throttles a snapshot, and copies changed pages in several rounds.
_BANDWIDTH: Final = 2**40
_DOWNTIME_MS: Final = 10_000
_LOOK_SECONDS: Final = 0.02
_ASK_SECONDS: Final = 5.0
# One whole frame, and one read that began before it was complete.
MAX_HELD_BYTES: Final = guest.HEADER.size + guest.MAX_FRAME_BYTES + PIECE_BYTES


T = TypeVar("T")


class MachineEnded(Exception):
    """The machine does not work, or no longer; the text says why, in our own words."""


class GuestMachine:
    """A guest and its engine, seen from outside."""

    def __init__(self, channels: Channels, kind: GuestKind = "machine") -> None:
        self._lines = Lines()
        self._agent = channels.agent
        self._held = bytearray()
        self._gone = False
        self._greeted = channels.greeted
        self._lines.listen(channels.agent, self._take)
        of = Monitor if kind == "machine" else Control
        self.monitor: Monitor | Control = of(self._lines, channels.monitor)

    def _take(self, piece: bytes) -> None:
        self._gone = self._gone or not piece
        # Nobody reads frames while the engine is asked, so excess bytes are dropped.
        self._held += piece[: MAX_HELD_BYTES - len(self._held)]

    def send(self, data: bytes, deadline: float) -> None:
        """Send frames to the agent, or raise `Late` or `MachineEnded`."""
        try:
            self._lines.send(self._agent, data, deadline)
        except Gone as exc:
            raise self.ended() from exc

    def hear(self, deadline: float) -> tuple[int, Untrusted[bytes]]:
        """Return the next frame of the guest, or raise `Late` or `MachineEnded`."""
        try:
            while (frame := self._frame()) is None:
                if self._gone or self.monitor.halted:
                    raise self.ended()
                self._lines.wait(deadline)
        except ProtocolBroken as exc:
            raise MachineEnded(f"the guest does not speak the protocol: {exc.message}") from exc
        except MonitorBroken as exc:
            raise MachineEnded("the engine does not speak its protocol") from exc
        return frame

    def _frame(self) -> tuple[int, Untrusted[bytes]] | None:
        size = guest.HEADER.size
        if len(self._held) < size:
            return None
        kind, length = guest.parse_header(bytes(self._held[:size]))
        if len(self._held) < size + length:
            return None
        body = bytes(self._held[size : size + length])
        del self._held[: size + length]
        return kind, Untrusted(body)

    def ended(self) -> MachineEnded:
        """Return the error for a machine that stopped, with the engine's reason."""
        why = self.monitor.why
        try:
            deadline = time.monotonic() + _ASK_SECONDS
            why = why or self.monitor.state(deadline)
        except (Gone, Late, MonitorBroken, MonitorRefused):
            pass
        return MachineEnded(f"the guest stopped: {why or 'the engine ended'}")

    def boot(
        self, imports: tuple[str, ...], ring: ExecutorProfile, deadline: float
    ) -> tuple[str, ...]:
        """Wait for a guest to come up and load modules; return those it loaded."""
        nonce = os.urandom(guest.NONCE_BYTES).hex()
        self.send(guest.warm_frame(nonce, imports, ring), deadline)
        kind, body = self.hear(deadline)
        if kind != guest.READY:
            raise MachineEnded("the guest answered what it was not asked")
        return _parsed(lambda: guest.parse_ready(body, nonce))

    def wake(self, deadline: float) -> GuestFacts:
        """Send a clone fresh entropy, if the host has not; return its facts."""
        nonce, self._greeted = self._greeted, ""
        if not nonce:
            nonce, frame = guest.hello()
            self.send(frame, deadline)
        kind, body = self.hear(deadline)
        if kind != guest.FACTS:
            raise MachineEnded("the guest answered what it was not asked")
        return _parsed(lambda: guest.parse_facts(body, nonce))

    def give(self, name: str, size: int, pieces: Iterable[bytes], deadline: float) -> None:
        """Send an input to a guest without disks."""
        self.send(guest.input_frame(name, size), deadline)
        for piece in pieces:
            self.send(guest.frame(guest.DATA, piece), deadline)

    def snapshot(self, deadline: float) -> None:
        """Let the engine write a snapshot to the descriptor that the host gave it."""
        assert isinstance(self.monitor, Monitor), "only a machine has a snapshot"
        ask = self.monitor.command
        try:
            speed = {"max-bandwidth": _BANDWIDTH, "downtime-limit": _DOWNTIME_MS}
            ask("migrate-set-parameters", deadline, **speed)
            ask("migrate", deadline, uri=f"fd:{SNAPSHOT_NAME}")
            while (state := _status(ask("query-migrate", deadline))) not in ("completed", "failed"):
                time.sleep(_LOOK_SECONDS)
        except (MonitorRefused, Gone, MonitorBroken) as exc:
            raise MachineEnded("the engine did not write a snapshot") from exc
        if state == "failed":
            raise MachineEnded("the engine did not write a snapshot")


def _status(answer: object) -> object:
    return answer.get("status") if isinstance(answer, dict) else None


def _parsed(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ProtocolBroken as exc:
        raise MachineEnded(f"the guest does not speak the protocol: {exc.message}") from exc


# File systems inside the guest; a shared folder would have another kind.
_OWN_KINDS: Final = frozenset(
    ("rootfs", "overlay", "tmpfs", "devtmpfs", "devpts", "proc", "sysfs", "erofs")
)


# What an executor tries just before a job, by its kind.
_PROOFS: Final = {
    "heavy-python": ("exec", "imports", "socket", "view"),
    "heavy-shell": ("commands", "exec", "programs", "socket"),
}


def _no_network(facts: GuestFacts, shape: GuestShape) -> bool:
    # The loopback of a user-space kernel is always up and leads nowhere.
    return all(
        name == "lo" and (not up or shape.kind == "process") for name, up in facts.interfaces
    )


def _own_mounts(facts: GuestFacts, _: GuestShape) -> bool:
    return all(kind in _OWN_KINDS for _, kind, _ in facts.mounts)


def _only_its_image(facts: GuestFacts, _: GuestShape) -> bool:
    shared = [row for row in facts.mounts if row[1] not in _OWN_KINDS]
    return shared == [("/", "9p", "ro")]


def _root_read_only(facts: GuestFacts, _: GuestShape) -> bool:
    modes = [mode for place, kind, mode in facts.mounts if place == "/" and kind != "rootfs"]
    return bool(modes) and all(mode == "ro" for mode in modes)


def _memory(facts: GuestFacts, shape: GuestShape) -> bool:
    promised = shape.memory_bytes // 1024
    return promised // 2 <= facts.memory_kib <= promised  # the kernel keeps some for itself


_PROMISES: Final[dict[str, Callable[[GuestFacts, GuestShape], bool]]] = {
    "guest-cpus": lambda facts, shape: facts.cpus == shape.cpus,
    "guest-empty-environment": lambda facts, _: facts.environment == 0,
    "guest-memory": _memory,
    "guest-no-network": _no_network,
    "guest-no-resolver": lambda facts, _: not facts.resolver,
    "guest-no-route": lambda facts, _: facts.routes == 0,
    "guest-no-shared-folder": _own_mounts,
    "guest-root-read-only": _root_read_only,
}


_INSTEAD: Final[dict[str, Callable[[GuestFacts, GuestShape], bool]]] = {
    # A process outside, which sees only the image, serves its files one by one.
    "guest-only-its-image": _only_its_image,
}


def _promises(shape: GuestShape) -> dict[str, Callable[[GuestFacts, GuestShape], bool]]:
    if shape.kind == "machine":
        return _PROMISES
    return {k: v for k, v in _PROMISES.items() if k != "guest-no-shared-folder"} | _INSTEAD


def kept(facts: GuestFacts, shape: GuestShape, ring: ExecutorProfile) -> tuple[str, ...]:
    """Return the names of all promises, or raise `ValueError` with the first broken one."""
    promises = _promises(shape)
    # A program of the profile is on a mount of its own, where it can be executed.
    rest = tuple(row for row in facts.mounts if row[0] not in ring.binaries)
    for name, holds in promises.items():
        if not holds(replace(facts, mounts=rest), shape):
            raise ValueError(name)
    if facts.ring != ring.digest:
        raise ValueError("guest-ring-applied")
    proofs = {*_PROOFS[ring.kind]}
    proofs |= {"offline"} if ring.network == "off" else set()
    proofs |= {"programs"} if ring.binaries else set()
    for name in sorted(proofs):
        if name not in facts.ring_proved:
            raise ValueError(f"guest-ring-{name}")
    return tuple(sorted((*promises, "guest-ring-applied", *(f"guest-ring-{n}" for n in proofs))))
