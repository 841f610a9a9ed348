"""The heavy lane's gate: one box, one machine, one message, one answer.

The host starts the engine in a box of its own and hands this one its two channels.  A job
is checked again from its bytes before the guest hears of it: request, approval, signature,
limits, and the disk of inputs byte by byte.

SECURITY
    Reads what the host sends and what a hostile guest says.  If this module is wrong,
    something runs that no human approved, or a guest's lie becomes ours.  An error nobody
    thought of is `crashed` or `failed`, not a traceback.
"""

import time
from dataclasses import replace
from typing import Final

from threegate.artifacts.tool_request import GATEWAY, ToolRequest, network_word
from threegate.base.errors import PolicyDenied, PolicyInvalid
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.approved import (
    approved_request,
    check_inputs,
    least,
    sentence,
)
from threegate.gates.tool_exec.era import job as jobs
from threegate.gates.tool_exec.era.disk import DiskBroken, disk_contents, disk_inputs
from threegate.gates.tool_exec.era.guest_messages import GuestTask
from threegate.gates.tool_exec.era.lines import Late
from threegate.gates.tool_exec.era.machine import Ended, Machine
from threegate.gates.tool_exec.era.messages import (
    DID_NOT_WAKE,
    NOT_AS_PROMISED,
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
from threegate.gates.tool_exec.era.promised import kept
from threegate.gates.tool_exec.monty.messages import REFUSED_APPROVAL
from threegate.policy.approvals import OTHER_LANE, Presented, ring_for
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.sandbox.payload import answer_once

OTHER_MACHINE: Final = "TG-APR-017"
NO_NETWORK: Final = "TG-APR-018"


def serve() -> None:
    """Answer the one message of the host; the payload of a tool-heavy box."""
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
    except Ended as exc:
        done = GuestFailed(sentence(str(exc)))
    return done.to_bytes()


def prepare(ask: Prepare) -> GuestPrepared | GuestFailed:
    """Wait for a guest to boot and have a snapshot of it written."""
    deadline = time.monotonic() + ask.seconds
    machine = Machine(ask.channels)
    imports = machine.boot(ask.imports, ask.ring, deadline)
    machine.snapshot(deadline)
    return GuestPrepared(imports)


def probe(ask: Probe) -> Probed | GuestFailed:
    """See whether a resumed guest answers a nonce it cannot know, and is what was promised."""
    deadline = time.monotonic() + ask.seconds
    machine = Machine(ask.channels, ask.shape.kind)
    if not ask.channels.greeted:
        machine.boot((), ask.ring, deadline)
    facts = machine.wake(deadline)
    try:
        return Probed(kept(facts, ask.shape, ask.ring))
    except ValueError as exc:
        return GuestFailed(f"the guest is not what was promised: {exc}")


def run(job: HeavyJob) -> HeavyOutcome:
    """Return how a job ended; one whose approval does not cover it does not begin."""
    try:
        bundle, request = approved(job, now=int(time.time()))
    except PolicyDenied as exc:
        return HeavyOutcome(REFUSED_APPROVAL, code=exc.code, message=sentence(exc.message))
    try:
        return _run(job, bundle, request)
    except Exception:  # noqa: BLE001  # see SECURITY
        return HeavyOutcome("crashed", note="the gate could not run the request")


def _run(job: HeavyJob, bundle: Bundle, request: ToolRequest) -> HeavyOutcome:
    machine = Machine(job.channels, job.shape.kind)
    deadline = time.monotonic() + job.seconds
    try:
        task, code, bounds = task_for(bundle, request)
        if not job.channels.greeted:  # no clone: started for this job, it has no ring yet
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
    except Ended as exc:
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


def task_for(bundle: Bundle, request: ToolRequest) -> tuple[GuestTask, bytes, jobs.Bounds]:
    """Return what the agent is told, and what we hold it to."""

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
    bounds = jobs.Bounds(most("wall_ms"), most("output_bytes"), most("disk_bytes"), files)
    return task, request.code.open_for_validation().encode("utf-8"), bounds
