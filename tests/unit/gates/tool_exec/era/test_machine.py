"""The gate's side of a machine: its two channels, and what a guest must say to get a job."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from threegate.base import canonical
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.channels import Late
from threegate.gates.tool_exec.era.guest_messages import GuestFacts
from threegate.gates.tool_exec.era.machine import MAX_HELD_BYTES, GuestMachine, MachineEnded, kept
from threegate.gates.tool_exec.era.messages import PROBES, Channels, GuestShape
from threegate.host.run.heavy.lane import NOTHING

LONG = 30.0


class Other:
    """The other ends of a machine: a guest and an engine of the test's."""

    def __init__(self, greeted: str = "") -> None:
        agent, self.agent = socket.socketpair()
        monitor, self.monitor = socket.socketpair()
        self.machine = GuestMachine(Channels(agent.detach(), monitor.detach(), greeted))

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


SAID: dict[str, Any] = dict.fromkeys(("cpus", "environment"), 1)
SAID |= {"interfaces": [], "memory_kib": 1, "mounts": [], "resolver": False}
SAID |= {"ring": "0" * 64, "ring_proved": [], "routes": 0}


# claim TG-C-320
def test_a_clone_that_the_host_greeted_must_answer_that_nonce_and_no_other() -> None:
    for answered, works in (("1" * 32, True), ("0" * 32, False)):
        other = Other(greeted="1" * 32)
        other.agent.sendall(_frame(guest.FACTS, {"facts": SAID, "nonce": answered}))
        if works:
            assert other.machine.wake(_soon()).cpus == 1
            # A greeting counts once: whoever wakes the clone again asks something new.
            with pytest.raises(Late):
                other.machine.wake(time.monotonic() + 0.01)
            kind, _ = guest.HEADER.unpack(other.agent.recv(guest.HEADER.size, socket.MSG_WAITALL))
            assert kind == guest.HELLO
        else:
            with pytest.raises(MachineEnded, match="not to our question"):
                other.machine.wake(_soon())
        other.close_all()


def test_a_clone_must_answer_the_nonce_of_this_very_moment(other: Other) -> None:
    def answer(nonce: str | None) -> None:
        head = other.agent.recv(5, socket.MSG_WAITALL)
        said = json.loads(other.agent.recv(guest.HEADER.unpack(head)[1], socket.MSG_WAITALL))
        assert len(bytes.fromhex(said["entropy"])) == 64
        other.agent.sendall(_frame(guest.FACTS, {"facts": SAID, "nonce": nonce or said["nonce"]}))

    for nonce, works in ((None, True), ("0" * 32, False)):
        thread = threading.Thread(target=answer, args=(nonce,))
        thread.start()
        if works:
            assert other.machine.wake(_soon()).cpus == 1
        else:
            with pytest.raises(MachineEnded, match="not to our question"):
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
    with pytest.raises(MachineEnded, match="the guest stopped: internal-error"):
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
    with pytest.raises(MachineEnded, match="the guest stopped"):
        other.machine.hear(_soon())
    thread.join()
    assert sent == [flood], "control: all of it was read"
    assert len(other.machine._held) <= MAX_HELD_BYTES


def test_an_engine_that_ends_is_noticed(other: Other) -> None:
    other.close()
    with pytest.raises(MachineEnded, match="the engine ended"):
        other.machine.hear(_soon())


@pytest.mark.parametrize("noise", [b"[]\n", b"x" * 300_000, b"[" * 100_000 + b"\n", b"\xff\n"])
def test_an_engine_that_does_not_speak_its_protocol_is_believed_nothing(
    other: Other, noise: bytes
) -> None:
    thread = threading.Thread(target=other.monitor.sendall, args=(noise,))
    thread.start()
    with pytest.raises(MachineEnded, match="the engine does not speak its protocol"):
        other.machine.hear(_soon())
    thread.join()


SHAPE = GuestShape(1, 2**28)
FACTS = GuestFacts(
    1,
    0,
    (("lo", False),),
    200_000,
    (("/", "rootfs", "rw"), ("/", "overlay", "ro"), ("/out", "tmpfs", "rw")),
    resolver=False,
    ring=NOTHING.digest,
    ring_proved=("exec", "imports", "offline", "socket", "view"),
    routes=0,
)

IN_USER_SPACE = replace(
    FACTS,
    interfaces=(("lo", True),),
    mounts=(("/", "9p", "ro"), ("/dev", "tmpfs", "rw"), ("/proc", "proc", "rw")),
)


def test_a_guest_as_promised_gets_all_names() -> None:
    process, shell = GuestShape(1, 2**28, "process"), replace(NOTHING, kind="heavy-shell")
    named = kept(FACTS, SHAPE, NOTHING), kept(IN_USER_SPACE, process, NOTHING)
    proofs = ("commands", "exec", "offline", "programs", "socket")
    commands = kept(replace(FACTS, ring=shell.digest, ring_proved=proofs), SHAPE, shell)
    assert {*named[0], *named[1], *commands} == {*PROBES}, "all that may be said of a guest"
    of_commands = {"guest-ring-commands", "guest-ring-programs"}
    assert {*PROBES} - {*named[0]} - of_commands == {"guest-only-its-image"}
    assert {*PROBES} - {*named[1]} - of_commands == {"guest-no-shared-folder"}
    assert {*named[0]} - {*commands} == {"guest-ring-imports", "guest-ring-view"}
    assert kept(replace(FACTS, interfaces=()), SHAPE, NOTHING), "no interface at all is as good"


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"cpus": 2}, "guest-cpus"),
        ({"environment": 1}, "guest-empty-environment"),
        ({"memory_kib": 2**18 + 1}, "guest-memory"),
        ({"memory_kib": 2**16}, "guest-memory"),
        ({"interfaces": (("lo", True),)}, "guest-no-network"),
        ({"interfaces": (("eth0", False),)}, "guest-no-network"),
        ({"resolver": True}, "guest-no-resolver"),
        ({"routes": 1}, "guest-no-route"),
        ({"mounts": (*FACTS.mounts, ("/host", "9p", "rw"))}, "guest-no-shared-folder"),
        ({"mounts": (*FACTS.mounts, ("/host", "virtiofs", "ro"))}, "guest-no-shared-folder"),
        ({"mounts": (("/", "overlay", "rw"),)}, "guest-root-read-only"),
        ({"mounts": ()}, "guest-root-read-only"),
        ({"ring": "0" * 64}, "guest-ring-applied"),
        ({"ring_proved": ()}, "guest-ring-exec"),
        ({"ring_proved": ("exec", "socket", "view")}, "guest-ring-imports"),
        ({"ring_proved": ("exec", "imports", "offline", "socket")}, "guest-ring-view"),
        ({"ring_proved": ("exec", "imports", "socket", "view")}, "guest-ring-offline"),
        ({"ring_proved": ("exec", "imports", "offline", "view")}, "guest-ring-socket"),
    ],
)
def test_one_broken_promise_is_named(change: dict[str, object], broken: str) -> None:
    with pytest.raises(ValueError, match=broken):
        kept(replace(FACTS, **change), SHAPE, NOTHING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"interfaces": (("eth0", True),)}, "guest-no-network"),
        ({"mounts": (*IN_USER_SPACE.mounts, ("/host", "9p", "ro"))}, "guest-only-its-image"),
        ({"mounts": (("/", "9p", "rw"),)}, "guest-root-read-only"),
        ({"mounts": (("/", "overlay", "ro"),)}, "guest-only-its-image"),
    ],
)
def test_a_guest_of_a_user_space_kernel_has_its_image_and_no_other_folder(
    change: dict[str, object], broken: str
) -> None:
    with pytest.raises(ValueError, match=broken):
        kept(replace(IN_USER_SPACE, **change), GuestShape(1, 2**28, "process"), NOTHING)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guest-no"):
        kept(IN_USER_SPACE, SHAPE, NOTHING)  # it would not do for a machine


OF_COMMANDS = ("commands", "exec", "offline", "programs", "socket")


@pytest.mark.parametrize("missing", OF_COMMANDS)
# claim TG-C-264
def test_an_executor_of_commands_proves_all_of_it(missing: str) -> None:
    shell = replace(NOTHING, kind="heavy-shell")
    proofs = tuple(name for name in OF_COMMANDS if name != missing)
    with pytest.raises(ValueError, match=f"guest-ring-{missing}"):
        kept(replace(FACTS, ring=shell.digest, ring_proved=proofs), SHAPE, shell)


# claim TG-C-264
def test_code_that_may_start_programs_needs_them_compared_like_commands() -> None:
    ring = replace(NOTHING, binaries=("/usr/bin/sort",))
    facts = replace(FACTS, ring=ring.digest)
    with pytest.raises(ValueError, match="guest-ring-programs"):
        kept(facts, SHAPE, ring)
    proved = (*FACTS.ring_proved, "programs")
    assert "guest-ring-programs" in kept(replace(facts, ring_proved=proved), SHAPE, ring)
    assert "guest-ring-programs" not in kept(FACTS, SHAPE, NOTHING), "control: without programs"
