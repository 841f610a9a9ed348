"""The gate's two channels, with somebody else at their other ends."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from threegate.base import canonical
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.lines import Late
from threegate.gates.tool_exec.era.machine import MAX_HELD_BYTES, Ended, Machine
from threegate.gates.tool_exec.era.messages import Channels

LONG = 30.0


class Other:
    """The other ends of a machine: a guest and an engine of the test's."""

    def __init__(self, greeted: str = "") -> None:
        agent, self.agent = socket.socketpair()
        monitor, self.monitor = socket.socketpair()
        self.machine = Machine(Channels(agent.detach(), monitor.detach(), greeted))

    def close(self) -> None:
        self.agent.close()
        self.monitor.close()

    def close_all(self) -> None:
        self.close()
        for fd in (self.machine._agent, self.machine.monitor._fd):
            os.close(fd)


@pytest.fixture
def other() -> Iterator[Other]:
    found = Other()
    yield found
    found.close_all()


def _soon() -> float:
    return time.monotonic() + LONG


def _frame(kind: int, value: object) -> bytes:
    body = canonical.encode(value)
    return guest.HEADER.pack(kind, len(body)) + body


def test_frames_come_whole_however_they_are_cut(other: Other) -> None:
    data = _frame(guest.EXIT, {"code": 0})
    for at in range(len(data)):
        other.agent.sendall(data[at : at + 1])
    kind, body = other.machine.hear(_soon())
    assert (kind, body.open_for_validation()) == (guest.EXIT, b'{"code":0}')


FACTS: dict[str, Any] = dict.fromkeys(("cpus", "environment"), 1)
FACTS |= {"interfaces": [], "memory_kib": 1, "mounts": [], "resolver": False}
FACTS |= {"ring": "0" * 64, "ring_proved": [], "routes": 0}


# claim TG-C-320
def test_a_clone_that_the_host_greeted_must_answer_that_nonce_and_no_other() -> None:
    for answered, works in (("1" * 32, True), ("0" * 32, False)):
        other = Other(greeted="1" * 32)
        other.agent.sendall(_frame(guest.FACTS, {"facts": FACTS, "nonce": answered}))
        if works:
            assert other.machine.wake(_soon()).cpus == 1
            # A greeting counts once: whoever wakes the clone again asks something new.
            with pytest.raises(Late):
                other.machine.wake(time.monotonic() + 0.01)
            kind, _ = guest.HEADER.unpack(other.agent.recv(guest.HEADER.size, socket.MSG_WAITALL))
            assert kind == guest.HELLO
        else:
            with pytest.raises(Ended, match="not to our question"):
                other.machine.wake(_soon())
        other.close_all()


def test_a_clone_must_answer_the_nonce_of_this_very_moment(other: Other) -> None:
    def answer(nonce: str | None) -> None:
        head = other.agent.recv(5, socket.MSG_WAITALL)
        said = json.loads(other.agent.recv(guest.HEADER.unpack(head)[1], socket.MSG_WAITALL))
        assert len(bytes.fromhex(said["entropy"])) == 64
        other.agent.sendall(_frame(guest.FACTS, {"facts": FACTS, "nonce": nonce or said["nonce"]}))

    for nonce, works in ((None, True), ("0" * 32, False)):
        thread = threading.Thread(target=answer, args=(nonce,))
        thread.start()
        if works:
            assert other.machine.wake(_soon()).cpus == 1
        else:
            with pytest.raises(Ended, match="not to our question"):
                other.machine.wake(_soon())
        thread.join()


def test_silence_ends_at_the_deadline(other: Other) -> None:
    with pytest.raises(Late):
        other.machine.hear(time.monotonic() + 0.05)


def test_a_guest_that_does_not_read_does_not_hold_us(other: Other) -> None:
    with pytest.raises(Late):
        other.machine.send(bytes(64 * 1024 * 1024), time.monotonic() + 0.2)


def test_an_engine_that_stops_alive_is_noticed_and_named(other: Other) -> None:
    """Some hosts open /dev/kvm, and every guest dies with QEMU alive and silent."""

    def engine() -> None:
        other.monitor.sendall(b'{"QMP": {}}\r\n{"event": "STOP", "data": {}}\r\n')
        asked = json.loads(other.monitor.recv(65536))
        answer = {"return": {"status": "internal-error", "running": False}, "id": asked["id"]}
        other.monitor.sendall(json.dumps(answer).encode() + b"\n")

    thread = threading.Thread(target=engine)
    thread.start()
    with pytest.raises(Ended, match="the guest stopped: internal-error"):
        other.machine.hear(_soon())
    thread.join()


# claim TG-C-241
def test_a_guest_that_floods_while_the_engine_is_asked_is_not_kept(other: Other) -> None:
    flood = 4 * MAX_HELD_BYTES
    sent = []

    def both() -> None:
        other.monitor.sendall(b'{"event": "STOP", "data": {}}\n')
        asked = json.loads(other.monitor.recv(65536))
        other.agent.settimeout(LONG)
        other.agent.sendall(bytes([guest.STDOUT]) * flood)
        sent.append(flood)
        answer = {"return": {"status": "guest-panicked", "running": False}, "id": asked["id"]}
        other.monitor.sendall(json.dumps(answer).encode() + b"\n")

    thread = threading.Thread(target=both)
    thread.start()
    with pytest.raises(Ended, match="the guest stopped"):
        other.machine.hear(_soon())
    thread.join()
    assert sent == [flood], "control: all of it was read"
    assert len(other.machine._held) <= MAX_HELD_BYTES


def test_an_engine_that_ends_is_noticed(other: Other) -> None:
    other.close()
    with pytest.raises(Ended, match="the engine ended"):
        other.machine.hear(_soon())


@pytest.mark.parametrize("noise", [b"[]\n", b"x" * 300_000, b"[" * 100_000 + b"\n", b"\xff\n"])
def test_an_engine_that_does_not_speak_its_protocol_is_believed_nothing(
    other: Other, noise: bytes
) -> None:
    thread = threading.Thread(target=other.monitor.sendall, args=(noise,))
    thread.start()
    with pytest.raises(Ended, match="the engine does not speak its protocol"):
        other.machine.hear(_soon())
    thread.join()
