"""The gate of the heavy lane before it has a guest: what it lets through, and when."""

import time
from typing import Any

import pytest

from tests.support.heavy import Task, asked_for, rules
from threegate.artifacts import registry
from threegate.errors import PolicyDenied, ProtocolBroken
from threegate.policy.approvals import OUTSIDE_WINDOW
from threegate.protocol import wire
from threegate.protocol.tool_heavy import PROTOCOL, Channels, Job, Shape, parse_ask
from threegate.tool_exec.era import gate
from threegate.untrusted import Untrusted

TASK = Task("print(1)")


def job(**changes: Any) -> Job:
    asked = asked_for(TASK, rules(), **changes)
    shape = Shape(TASK.limits.cpus, TASK.limits.memory_bytes)
    parts = (asked.bundle, asked.request, asked.approval, asked.signature)
    return Job(Channels(10, 11), shape, 60, (), 0, *parts)


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
