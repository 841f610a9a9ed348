"""A Monty worker against the gate that started it, and a gate's attempts against a living one.

`payload` keeps a real worker alive while everything else is tried in tool-lite and under the
worker's own lock; the last attempt sees whether it still computes.
"""

from __future__ import annotations

import ctypes
import resource
import struct

from threegate.sandbox.attacks.base import WORKER, Blocked, Facts, attempt, call, collected
from threegate.sandbox.attacks.execution import execve_interpreter

_BOTH = ("tool-lite", WORKER)
_WORKER: tuple[str, ...] = (WORKER,)


def _gate(facts: Facts) -> int:
    """Return the process that started the worker; outside, the canary."""
    return facts.victim if facts.control else facts.gate


@attempt("SIGSYS", only=_WORKER)
def worker_traces_its_gate(facts: Facts) -> str:
    call("ptrace", 0x4206, _gate(facts), 0, 0)
    return "seized"


@attempt("SIGSYS", only=_WORKER)
def worker_reads_its_gate(facts: Facts) -> str:
    room = ctypes.create_string_buffer(8)
    here = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(room), 8))
    where = facts.victim_address if facts.control else ctypes.addressof(room)
    there = ctypes.create_string_buffer(struct.pack("PN", where, 8))
    return f"read {call('process_vm_readv', _gate(facts), here, 1, there, 1, 0)}"


@attempt("SIGSYS", only=_WORKER)
def worker_limits_its_gate(facts: Facts) -> str:
    resource.prlimit(_gate(facts), resource.RLIMIT_CORE, (0, 0))
    return "limited"


@attempt("SIGSYS", only=_WORKER)
def worker_steals_from_its_gate(facts: Facts) -> str:
    return f"descriptor {call('pidfd_open', _gate(facts), 0)}"


@attempt("SIGSYS", only=_WORKER)
def worker_starts_another(facts: Facts) -> str:
    if facts.control:
        return execve_interpreter.act(facts)
    call("execve", b"/run/monty", 0, 0)
    return "started"


@attempt("alive", only=_BOTH, control="there is no worker outside")
def living_worker_disturbed(facts: Facts) -> str:
    """Made by the payload itself, after all others: see `payload`."""
    raise Blocked("nobody asked it")


ATTEMPTS = tuple(item for item in collected(globals()) if item is not execve_interpreter)
