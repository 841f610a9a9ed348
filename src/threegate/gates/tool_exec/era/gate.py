"""The heavy lane's gate: one sandbox, one machine, one message, one answer.

The host starts the engine in a sandbox of its own and hands this one its two channels.  A job is
checked again from its bytes before the guest gets it: request, approval, signature, limits, and the
disk of inputs.  The disk is a read-only file system whose layout is a pure function of the names
and sizes of the inputs; the gate computes the same layout and compares it byte by byte.

SECURITY
    Reads what the host sends and what a hostile guest says.  If this module is wrong,
    something runs that no human approved, or on other inputs, or a guest's lie becomes ours.  An
    unexpected error is `crashed` or `failed`, not a traceback.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from threegate.artifacts.tool_request import GATEWAY, ToolRequest, network_word
from threegate.base.erofs import ErofsFile, lay_out
from threegate.base.errors import PolicyDenied, PolicyInvalid
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import job as jobs
from threegate.gates.tool_exec.era.channels import Late
from threegate.gates.tool_exec.era.guest_messages import GuestTask
from threegate.gates.tool_exec.era.machine import GuestMachine, MachineEnded, kept
from threegate.gates.tool_exec.era.messages import (
    DID_NOT_WAKE,
    NOT_AS_PROMISED,
    GivenInput,
    GuestFailed,
    GuestPrepared,
    GuestShape,
    HeavyJob,
    HeavyOutcome,
    Prepare,
    Probe,
    Probed,
    parse_ask,
)
from threegate.gates.tool_exec.final_check import (
    Given,
    approved_request,
    check_inputs,
    least,
    sentence,
)
from threegate.gates.tool_exec.monty.messages import REFUSED_APPROVAL
from threegate.keys.sshsig import sha256_of
from threegate.policy.approvals import OTHER_LANE, Presented, ring_for
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.sandbox.payload import answer_once

OTHER_MACHINE: Final = "TG-APR-017"
NO_NETWORK: Final = "TG-APR-018"


def serve() -> None:
    """Answer the one message of the host; the payload of a tool-heavy sandbox."""
    answer_once(answer, parse_ask.most_bytes)


def answer(message: bytes) -> bytes:
    """Return the answer to a message of the host."""
    ask = parse_ask(Untrusted(message))
    if isinstance(ask, HeavyJob):
        return run(ask).to_bytes()
    try:
        done = prepare(ask) if isinstance(ask, Prepare) else probe(ask)
    except Late:
        done = GuestFailed(f"the guest gave no answer in {ask.seconds} seconds")
    except MachineEnded as exc:
        done = GuestFailed(sentence(str(exc)))
    return done.to_bytes()


def prepare(ask: Prepare) -> GuestPrepared | GuestFailed:
    """Wait for a guest to boot, and let the engine write a snapshot of it."""
    deadline = time.monotonic() + ask.seconds
    machine = GuestMachine(ask.channels)
    imports = machine.boot(ask.imports, ask.ring, deadline)
    machine.snapshot(deadline)
    return GuestPrepared(imports)


def probe(ask: Probe) -> Probed | GuestFailed:
    """Check that a resumed guest answers a fresh nonce, and is what was promised."""
    deadline = time.monotonic() + ask.seconds
    machine = GuestMachine(ask.channels, ask.shape.kind)
    if not ask.channels.greeted:
        machine.boot((), ask.ring, deadline)
    facts = machine.wake(deadline)
    try:
        return Probed(kept(facts, ask.shape, ask.ring))
    except ValueError as exc:
        return GuestFailed(f"the guest is not what was promised: {exc}")


def run(job: HeavyJob) -> HeavyOutcome:
    """Return how a job ended; without a valid approval it does not begin."""
    try:
        bundle, request = approved(job, now=int(time.time()))
    except PolicyDenied as exc:
        return HeavyOutcome(REFUSED_APPROVAL, code=exc.code, message=sentence(exc.message))
    try:
        return _run(job, bundle, request)
    except Exception:  # noqa: BLE001  # see SECURITY
        return HeavyOutcome("crashed", note="the gate could not run the request")


def _run(job: HeavyJob, bundle: Bundle, request: ToolRequest) -> HeavyOutcome:
    machine = GuestMachine(job.channels, job.shape.kind)
    deadline = time.monotonic() + job.seconds
    try:
        task, code, bounds = task_for(bundle, request)
        if not job.channels.greeted:  # not a clone: started for this job, it has no ring yet
            machine.boot((), task.ring, deadline)
        facts = machine.wake(deadline)
        try:
            probes = kept(facts, job.shape, task.ring)
        except ValueError as exc:
            return HeavyOutcome(NOT_AS_PROMISED, note=f"the guest is not what was promised: {exc}")
        if job.shape.kind == "process":
            for item, pieces in disk_contents(job.disk, job.inputs):
                machine.give(item.name, item.bytes, pieces, deadline)
    except Late:
        return HeavyOutcome(DID_NOT_WAKE, note="the guest did not wake up")
    except MachineEnded as exc:
        return HeavyOutcome(DID_NOT_WAKE, note=str(exc))
    outcome = jobs.run(machine, task, code, bounds)
    return replace(outcome, probes=probes)


def approved(job: HeavyJob, *, now: int) -> tuple[Bundle, ToolRequest]:
    """Return rules and request if everything was approved, or raise `PolicyDenied`."""
    try:
        bundle = parse_bundle(job.bundle)
    except PolicyInvalid as exc:
        raise PolicyDenied(exc.message, code=exc.code) from exc
    presented = Presented(job.request, job.approval, job.signature)
    request = approved_request(presented, bundle, at=now)
    if request.backend != "era":
        raise PolicyDenied("this gate runs the era lane only", code=OTHER_LANE)
    # A guest has no network device: every other word would promise something it does not have.
    if network_word(request.network) not in ("none", GATEWAY):
        raise PolicyDenied("there is no such network for this lane", code=NO_NETWORK)
    _check_shape(bundle, request, job.shape)
    try:
        check_inputs(bundle, request, disk_inputs(job.disk, job.inputs))
    except DiskBroken as exc:
        raise PolicyDenied(str(exc), code=OTHER_MACHINE) from exc
    return bundle, request


def _check_shape(bundle: Bundle, request: ToolRequest, shape: GuestShape) -> None:
    for name in ("cpus", "memory_bytes"):
        if getattr(shape, name) > least(bundle, request, name):
            raise PolicyDenied(f"the machine has more {name} than was approved", code=OTHER_MACHINE)


def task_for(bundle: Bundle, request: ToolRequest) -> tuple[GuestTask, bytes, jobs.JobBounds]:
    """Return the task for the agent, and the bounds that we enforce."""

    def most(name: str) -> int:
        return least(bundle, request, name)

    task = GuestTask(
        argv=tuple(word.open_for_validation() for word in request.argv),
        disk_bytes=most("disk_bytes"),
        inputs=bool(request.inputs),
        outputs=tuple(item.name for item in request.outputs),
        processes=most("processes"),
        recursion=most("recursion"),
        ring=ring_for(bundle, request),
    )
    files = {item.name: item.max_bytes for item in request.outputs}
    bounds = jobs.JobBounds(most("wall_ms"), most("output_bytes"), most("disk_bytes"), files)
    return task, request.code.open_for_validation().encode("utf-8"), bounds


PIECE_BYTES: Final = 256 * 1024  # a frame holds no more


class DiskBroken(Exception):
    """The disk does not hold exactly these inputs."""


def disk_inputs(fd: int, inputs: Sequence[GivenInput]) -> Mapping[str, Given]:
    """Return the inputs on the disk, by name, or raise `DiskBroken`."""
    if not inputs:
        return {}
    layout = lay_out({item.name: ErofsFile(item.bytes) for item in inputs})
    if _read(fd, 0, len(layout.metadata)) != layout.metadata:
        raise DiskBroken("the disk of inputs is not laid out as it should be")

    def given(item: GivenInput) -> Given:
        at, size = layout.places.get(item.name, (0, 0))
        return Given(item.bytes, lambda: sha256_of(_pieces(fd, at, size)))

    return {item.name: given(item) for item in inputs}


def disk_contents(
    fd: int, inputs: Sequence[GivenInput]
) -> Iterator[tuple[GivenInput, Iterator[bytes]]]:
    """Yield each input with its bytes, from a disk that `disk_inputs` has checked."""
    layout = lay_out({item.name: ErofsFile(item.bytes) for item in inputs})
    for item in inputs:
        yield item, _pieces(fd, *layout.places.get(item.name, (0, 0)))


def _pieces(fd: int, at: int, size: int) -> Iterator[bytes]:
    for begin in range(at, at + size, PIECE_BYTES):
        yield _read(fd, begin, min(PIECE_BYTES, at + size - begin))


def _read(fd: int, at: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.pread(fd, size - len(data), at + len(data))
        if not piece:
            raise DiskBroken("the disk of inputs is too short")
        data += piece
    return bytes(data)
