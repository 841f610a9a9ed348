"""The control channel of a user-space kernel, with somebody else at its other end."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from threegate.gates.tool_exec.era.machine import GuestMachine, MachineEnded
from threegate.gates.tool_exec.era.messages import Channels

LONG = 30.0


class Kernel:
    """The other ends: a guest and a kernel of the test's."""

    def __init__(self) -> None:
        agent, self.agent = socket.socketpair()
        control, self.control = socket.socketpair()
        self.machine = GuestMachine(Channels(agent.detach(), control.detach()), "process")

    def asked(self) -> object:
        return json.loads(self.control.recv(4096))

    def says(self, value: object) -> None:
        self.control.sendall(json.dumps(value).encode())

    def close(self) -> None:
        self.agent.close()
        self.control.close()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    found = Kernel()
    yield found
    found.close()
    for fd in (found.machine._agent, found.machine.monitor._fd):
        os.close(fd)


def _soon() -> float:
    return time.monotonic() + LONG


START = {"method": "containerManager.StartRoot", "arg": "guest"}
WAIT = {"method": "containerManager.Wait", "arg": "guest"}


def test_a_guest_is_started_once_and_its_end_is_heard(kernel: Kernel) -> None:
    assert kernel.asked() == START
    answer = json.dumps({"success": True, "err": "", "result": {}}).encode()
    kernel.control.sendall(answer[:7])  # however it is cut
    kernel.machine._lines.wait(_soon())
    kernel.control.sendall(answer[7:])
    kernel.machine._lines.wait(_soon())
    assert kernel.asked() == WAIT
    assert not kernel.machine.monitor.halted
    kernel.says({"success": True, "err": "", "result": 0})
    with pytest.raises(MachineEnded, match="the guest stopped: its first process ended"):
        kernel.machine.hear(_soon())


def test_a_guest_that_does_not_start_is_told(kernel: Kernel) -> None:
    kernel.says({"success": False, "err": "no", "result": None})
    with pytest.raises(MachineEnded, match="the guest stopped: its kernel did not start it"):
        kernel.machine.hear(_soon())


def test_a_kernel_that_ends_is_told(kernel: Kernel) -> None:
    kernel.control.close()
    with pytest.raises(MachineEnded, match="the guest stopped: the engine ended"):
        kernel.machine.hear(_soon())


@pytest.mark.parametrize("said", [b"[]", b"x" * 70_000, b"[" * 30_000])
def test_a_kernel_that_says_something_else_is_not_heard_further(
    kernel: Kernel, said: bytes
) -> None:
    sending = threading.Thread(target=kernel.control.sendall, args=(said,))
    sending.start()
    with pytest.raises(MachineEnded, match="does not speak its protocol"):
        kernel.machine.hear(_soon())
    kernel.control.shutdown(socket.SHUT_RDWR)
    sending.join()


def test_inputs_go_over_the_channel_in_frames(kernel: Kernel) -> None:
    kernel.machine.give("table", 5, iter([b"abc", b"de"]), _soon())
    heard = kernel.agent.recv(4096)
    assert b'{"bytes":5,"name":"table"}' in heard
    assert heard.endswith(b"\x10\x00\x00\x00\x03abc\x10\x00\x00\x00\x02de")
