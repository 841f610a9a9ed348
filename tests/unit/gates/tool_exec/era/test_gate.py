"""The gate of the heavy lane before it has a guest: approval, the disk of inputs, the clock."""

import hashlib
import io
import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.heavy import Task, asked_for, rules
from threegate.artifacts import registry
from threegate.base import canonical, wire
from threegate.base.erofs import ErofsFile, lay_out, write
from threegate.base.errors import PolicyDenied, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import gate
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era import job as jobs
from threegate.gates.tool_exec.era.gate import DiskBroken, disk_inputs
from threegate.gates.tool_exec.era.machine import GuestMachine
from threegate.gates.tool_exec.era.messages import (
    DID_NOT_WAKE,
    NOT_AS_PROMISED,
    PROTOCOL,
    Channels,
    GivenInput,
    GuestShape,
    HeavyJob,
    parse_ask,
    parse_outcome,
)
from threegate.policy.approvals import OUTSIDE_WINDOW

TASK = Task("print(1)")


def job(**changes: Any) -> HeavyJob:
    asked = asked_for(TASK, rules(), **changes)
    shape = GuestShape(TASK.limits.cpus, TASK.limits.memory_bytes)
    parts = (asked.bundle, asked.request, asked.approval, asked.signature)
    return HeavyJob(Channels(10, 11), shape, 60, (), 0, *parts)


# claim TG-C-322
def test_a_guest_that_never_wakes_is_told_apart_from_a_job_that_crashed() -> None:
    for silent in (True, False):
        agent, guest_end = socket.socketpair()
        monitor, engine_end = socket.socketpair()
        with agent, guest_end, monitor, engine_end:
            if not silent:  # it ends before it is given anything
                guest_end.close()
                engine_end.close()
            channels = Channels(agent.fileno(), monitor.fileno(), "1" * 32)
            outcome = gate.run(replace(job(), channels=channels, seconds=1))
        told = "the guest did not wake up" if silent else "the guest stopped: the engine ended"
        assert (outcome.exit, outcome.note) == (DID_NOT_WAKE, told)
        assert not outcome.stdout
        assert not outcome.probes


# claim TG-C-380
def test_a_guest_that_breaks_a_promise_gets_no_job_and_the_promise_is_named() -> None:
    agent, guest_end = socket.socketpair()
    monitor, engine_end = socket.socketpair()
    with agent, guest_end, monitor, engine_end:
        bundle, request = gate.approved(job(), now=int(time.time()))
        facts = {
            "cpus": 1,
            "environment": 0,
            "interfaces": [],
            "memory_kib": TASK.limits.memory_bytes // 1024,
            "mounts": [["/", "overlay", "ro"]],
            "resolver": False,
            "ring": gate.task_for(bundle, request)[0].ring.digest,
            "ring_proved": ["exec", "imports", "offline", "view"],
            "routes": 0,
        }
        body = canonical.encode({"facts": facts, "nonce": "1" * 32})
        guest_end.sendall(guest.HEADER.pack(guest.FACTS, len(body)) + body)
        channels = Channels(agent.fileno(), monitor.fileno(), "1" * 32)
        outcome = gate.run(replace(job(), channels=channels, seconds=5))
        guest_end.setblocking(False)
        with pytest.raises(BlockingIOError):
            guest_end.recv(1)  # it heard of no job
    told = "the guest is not what was promised: guest-ring-socket"
    assert (outcome.exit, outcome.note) == (NOT_AS_PROMISED, told)
    assert parse_outcome(Untrusted(outcome.to_bytes())) == outcome, "and the host hears it"


# claim TG-C-322
def test_one_that_stops_with_its_job_has_crashed() -> None:
    agent, guest_end = socket.socketpair()
    monitor, engine_end = socket.socketpair()
    with agent, guest_end, monitor, engine_end:
        machine = GuestMachine(Channels(agent.fileno(), monitor.fileno()))
        guest_end.close()
        engine_end.close()
        bundle, request = gate.approved(job(), now=int(time.time()))
        outcome = jobs.run(machine, *gate.task_for(bundle, request))
    assert (outcome.exit, outcome.note) == ("crashed", "the guest stopped: the engine ended")


def spelled(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


# claim TG-C-238
def test_a_late_approval_is_refused_whatever_the_host_says() -> None:
    now = int(time.time())
    _, request = gate.approved(job(), now=now)
    assert registry.emit(request) == job().request, "control: in its time it runs"
    late = job(not_before=spelled(now - 7200), not_after=spelled(now - 3600))
    with pytest.raises(PolicyDenied) as caught:
        gate.approved(late, now=now)
    assert caught.value.code == OUTSIDE_WINDOW
    # In the lite lane a host may ask for a replay and name its time; here there is no such word.
    fields = {
        "at": now - 5000,
        "channels": late.channels.plain(),
        "disk": 0,
        "inputs": [],
        "mode": "replay",
        "seconds": late.seconds,
        "shape": late.shape.plain(),
    }
    parts = [late.bundle, late.request, late.approval, late.signature]
    with pytest.raises(ProtocolBroken, match="fields"):
        parse_ask(Untrusted(wire.pack(PROTOCOL, "job", fields, parts)))
    assert parse_ask(Untrusted(late.to_bytes())) == late, "control: without them it is read"


INPUTS = {"a": b"x" * 5000, "b": b"", "c": b"three"}
SAID = tuple(GivenInput(name, len(data)) for name, data in INPUTS.items())


def disk(path: Path) -> int:
    layout = lay_out({name: ErofsFile(len(data)) for name, data in INPUTS.items()})
    with path.open("wb") as out:
        write(layout, out, lambda name: io.BytesIO(INPUTS[name]))
    return os.open(path, os.O_RDWR)


def test_every_input_is_found_with_its_own_digest(tmp_path: Path) -> None:
    fd = disk(tmp_path / "disk")
    found = disk_inputs(fd, SAID)
    for name, data in INPUTS.items():
        assert (found[name].bytes, found[name].sha256()) == (
            len(data),
            hashlib.sha256(data).hexdigest(),
        )
    os.close(fd)


def test_another_layout_a_hidden_file_or_a_short_disk_is_refused(tmp_path: Path) -> None:
    fd = disk(tmp_path / "disk")
    for lie in (SAID[:2], (*SAID, GivenInput("d", 1)), (GivenInput("a", 5000), GivenInput("c", 5))):
        with pytest.raises(DiskBroken, match="laid out"):
            disk_inputs(fd, lie)
    os.pwrite(fd, b"\0", 1024)  # the superblock
    with pytest.raises(DiskBroken, match="laid out"):
        disk_inputs(fd, SAID)
    os.ftruncate(fd, 100)
    with pytest.raises(DiskBroken, match="too short"):
        disk_inputs(fd, SAID)
    assert disk_inputs(0, ()) == {}, "without inputs there is no disk"
    os.close(fd)
