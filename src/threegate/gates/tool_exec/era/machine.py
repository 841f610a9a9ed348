"""The gate's side of one machine: frames of the guest, and the engine's own word about it.

SECURITY
    Listens to a guest that may be owned by its job.  Frames are bounded before they are
    read; what breaks the protocol ends the conversation.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.control import Control
from threegate.gates.tool_exec.era.guest_messages import GuestFacts
from threegate.gates.tool_exec.era.lines import PIECE_BYTES, Gone, Late, Lines
from threegate.gates.tool_exec.era.messages import SNAPSHOT_NAME, Channels, GuestKind
from threegate.gates.tool_exec.era.monitor import Monitor, MonitorBroken, Refused
from threegate.policy.ring.executor_profile import ExecutorProfile

_BANDWIDTH: Final = 2**40
_DOWNTIME_MS: Final = 10_000
_LOOK_SECONDS: Final = 0.02
_ASK_SECONDS: Final = 5.0
MAX_HELD_BYTES: Final = guest.HEADER.size + guest.MAX_FRAME_BYTES + PIECE_BYTES


T = TypeVar("T")


class Ended(Exception):
    """The machine does not work, or not any more; the text says why, in our own words."""


class Machine:
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
        # While the engine is asked nobody takes frames out: what a guest says then is not kept.
        self._held += piece[: MAX_HELD_BYTES - len(self._held)]

    def send(self, data: bytes, deadline: float) -> None:
        """Send frames to the agent, or raise `Late` or `Ended`."""
        try:
            self._lines.send(self._agent, data, deadline)
        except Gone as exc:
            raise self.ended() from exc

    def hear(self, deadline: float) -> tuple[int, Untrusted[bytes]]:
        """Return the next frame of the guest, or raise `Late` or `Ended`."""
        try:
            while (frame := self._frame()) is None:
                if self._gone or self.monitor.halted:
                    raise self.ended()
                self._lines.wait(deadline)
        except ProtocolBroken as exc:
            raise Ended(f"the guest does not speak the protocol: {exc.message}") from exc
        except MonitorBroken as exc:
            raise Ended("the engine does not speak its protocol") from exc
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

    def ended(self) -> Ended:
        """Return the error for a machine that stopped by itself, with what the engine says."""
        why = self.monitor.why
        try:
            deadline = time.monotonic() + _ASK_SECONDS
            why = why or self.monitor.state(deadline)
        except (Gone, Late, MonitorBroken, Refused):
            pass
        return Ended(f"the guest stopped: {why or 'the engine ended'}")

    def boot(
        self, imports: tuple[str, ...], ring: ExecutorProfile, deadline: float
    ) -> tuple[str, ...]:
        """Wait for a guest to come up and load modules; return those it loaded."""
        nonce = os.urandom(guest.NONCE_BYTES).hex()
        self.send(guest.warm_frame(nonce, imports, ring), deadline)
        kind, body = self.hear(deadline)
        if kind != guest.READY:
            raise Ended("the guest answered what it was not asked")
        return _parsed(lambda: guest.parse_ready(body, nonce))

    def wake(self, deadline: float) -> GuestFacts:
        """Give a clone entropy of its own, if the host has not; return what it looks like."""
        nonce, self._greeted = self._greeted, ""
        if not nonce:
            nonce, frame = guest.hello()
            self.send(frame, deadline)
        kind, body = self.hear(deadline)
        if kind != guest.FACTS:
            raise Ended("the guest answered what it was not asked")
        return _parsed(lambda: guest.parse_facts(body, nonce))

    def give(self, name: str, size: int, pieces: Iterable[bytes], deadline: float) -> None:
        """Send an input to a guest that has no disk to find it on."""
        self.send(guest.input_frame(name, size), deadline)
        for piece in pieces:
            self.send(guest.frame(guest.DATA, piece), deadline)

    def snapshot(self, deadline: float) -> None:
        """Have the engine write the machine to the descriptor the host gave it."""
        assert isinstance(self.monitor, Monitor), "only a machine has a snapshot"
        ask = self.monitor.command
        try:
            speed = {"max-bandwidth": _BANDWIDTH, "downtime-limit": _DOWNTIME_MS}
            ask("migrate-set-parameters", deadline, **speed)
            ask("migrate", deadline, uri=f"fd:{SNAPSHOT_NAME}")
            while (state := _status(ask("query-migrate", deadline))) not in ("completed", "failed"):
                time.sleep(_LOOK_SECONDS)
        except (Refused, Gone, MonitorBroken) as exc:
            raise Ended("the engine did not write a snapshot") from exc
        if state == "failed":
            raise Ended("the engine did not write a snapshot")


def _status(answer: object) -> object:
    return answer.get("status") if isinstance(answer, dict) else None


def _parsed(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ProtocolBroken as exc:
        raise Ended(f"the guest does not speak the protocol: {exc.message}") from exc
