"""The lite lane's gate: one sandbox, one policy, any number of jobs, each in its own worker.

The policy comes first.  If it pins other external functions than the program has, the gate refuses
to work.  Each job is checked again from its bytes: request, approval, signature, limits, inputs.
The host may have been wrong about any of them, and this process makes the final check.

A waiting gate can be moved to the next policy, and to no other: the bundle must name the one in
force as its predecessor, have a higher number, and be signed by a signer of the one in force.  The
gate then reports what it enforces, read back and not echoed: every module goes through the check
that programs go through, and every act that the sandbox must prevent is tried again.

SECURITY
    Reads what the host sends and runs what a human approved.  If this module is wrong,
    something runs that no human approved.  Only our own messages leave it: an unexpected error
    is an outcome `crashed`, not a traceback.
"""

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pydantic_monty

from threegate import __version__
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied, PolicyInvalid, ProtocolBroken
from threegate.base.greeting import GateReady, GateRefused
from threegate.base.messages import Message
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.final_check import (
    Given,
    approved_request,
    check_inputs,
    least,
    sentence,
)
from threegate.gates.tool_exec.monty import lane
from threegate.gates.tool_exec.monty.check import Found, check
from threegate.gates.tool_exec.monty.functions import digests
from threegate.gates.tool_exec.monty.messages import (
    GREETING,
    OTHER_FUNCTIONS,
    PROTOCOL,
    REFUSED_APPROVAL,
    Adopt,
    CheckCode,
    CodeChecked,
    Enforced,
    LiteJob,
    LiteOutcome,
    Prove,
    RefusalFound,
    parse_ask,
    parse_opening,
)
from threegate.gates.tool_exec.monty.plain import Bounds as FunctionBounds
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.gates.tool_exec.monty.screen import SourceBounds, SourceRefusal, screen
from threegate.keys import sshsig
from threegate.keys.sshsig import sha256_hex
from threegate.policy.approvals import OTHER_LANE, Presented
from threegate.policy.bundle import NAMESPACE, Bundle, function_digests, parse_bundle
from threegate.policy.ring import compiler
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.sections.tool_exec import MONTY_MODULES
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.payload import ANSWERS_FD, REQUESTS_FD
from threegate.sandbox.proofs import prove

MONTY: Final = ("tool-exec", "lanes", "monty")
# The interpreter's client tries to import it before every run.  Searching the sandbox takes longer
# than a small program, and nothing is reported from in here.
sys.modules["opentelemetry.context"] = None  # type: ignore[assignment]


def serve() -> None:
    """Answer messages until the host has no more; the payload of a tool-lite sandbox."""
    payload.serve(lambda: _serve(WorkerPool))


def _serve(open_pool: Callable[[], WorkerPool]) -> None:
    first = read_message(REQUESTS_FD, parse_opening.most_bytes)
    if first is None:
        return
    opened = open_with(parse_opening(Untrusted(first)).bundle)
    if isinstance(opened, GateRefused):
        write_message(ANSWERS_FD, opened.to_bytes())
        return
    # The first worker starts while the host reads our greeting.
    with open_pool() as pool:
        write_message(ANSWERS_FD, GateReady(PROTOCOL, versions()).to_bytes())
        while (message := read_message(REQUESTS_FD, parse_ask.most_bytes)) is not None:
            ask = parse_ask(Untrusted(message))
            # Set between two messages, in one name: the next job sees one whole policy.
            if isinstance(ask, Adopt):
                found = adopted(opened, ask, now=int(time.time()))
                opened = opened if isinstance(found, GateRefused) else found
                said = found if isinstance(found, GateRefused) else GateReady(PROTOCOL, versions())
                write_message(ANSWERS_FD, said.to_bytes())
            else:
                write_message(ANSWERS_FD, _answer(pool, opened, ask).to_bytes())


def _answer(pool: WorkerPool, bundle: Bundle, ask: LiteJob | CheckCode | Prove) -> Message:
    if isinstance(ask, LiteJob):
        return run(pool, bundle, ask)
    if isinstance(ask, CheckCode):
        return tell(pool, bundle, ask)
    return enforced(bundle, ask, bounds_for)


def versions() -> dict[str, str]:
    """Return the versions of what takes part in a run, by name."""
    return {
        "monty": pydantic_monty.__version__,
        "python": platform.python_version(),
        "threegate": __version__,
    }


def adopted(bundle: Bundle, ask: Adopt, *, now: int) -> Bundle | GateRefused:
    """Return the policy to work under from now on, or why it stays as it is."""
    found = open_with(ask.bundle)
    if isinstance(found, GateRefused):
        return found
    try:
        refuse_unless_next(bundle, found, ask, at=now)
    except PolicyDenied as exc:
        return GREETING.refused(exc.code, sentence(exc.message))
    return found


def open_with(data: bytes) -> Bundle | GateRefused:
    """Return the policy to work under, or why this sandbox cannot."""
    try:
        bundle = parse_bundle(data)
    except PolicyInvalid as exc:
        return GREETING.refused(exc.code, sentence(exc.message))
    # The policy pins the source of these functions: they run outside the interpreter's limits.
    ours = digests()
    for name, pinned in sorted(function_digests(bundle).items()):
        if ours.get(name) != pinned:
            message = f"the external function {name} is not the one the policy pins"
            return GREETING.refused(OTHER_FUNCTIONS, message)
    return bundle


def run(pool: WorkerPool, bundle: Bundle, job: LiteJob) -> LiteOutcome:
    """Return how a job ended; without a valid approval it does not begin."""
    try:
        request = approved(bundle, job, now=int(time.time()))
    except PolicyDenied as exc:
        return _denied(exc.code, exc.message)
    try:
        return lane.run(pool, job_for(bundle, request, job))
    except Exception:  # noqa: BLE001  # see SECURITY
        return LiteOutcome("crashed", stderr=b"the gate could not run the request")


def approved(bundle: Bundle, job: LiteJob, *, now: int) -> ToolRequest:
    """Return the request if everything about it was approved, or raise `PolicyDenied`."""
    presented = Presented(job.request, job.approval, job.signature)
    # A replay checks the approval at the time of the original run.
    at = now if job.mode == "run" else job.at
    request = approved_request(presented, bundle, at=at)
    if request.backend != "monty":
        raise PolicyDenied("this gate runs the monty lane only", code=OTHER_LANE)
    check_inputs(bundle, request, {name: _given(document) for name, document in job.inputs})
    return request


def _given(document: bytes) -> Given:
    return Given(len(document), lambda: sha256_hex(document))


def _denied(code: str, message: str) -> LiteOutcome:
    return LiteOutcome(REFUSED_APPROVAL, code=code, message=sentence(message))


def job_for(bundle: Bundle, request: ToolRequest, job: LiteJob) -> lane.LiteTask:
    """Return the task for the lane, with the limits of the request, at most those of policy."""
    return lane.LiteTask(
        code=request.code.open_for_validation(),
        inputs=job.inputs,
        functions=function_bounds(bundle, request.functions),
        wall_ms=least(bundle, request, "wall_ms"),
        memory_bytes=least(bundle, request, "memory_bytes"),
        output_bytes=least(bundle, request, "output_bytes"),
        recursion=least(bundle, request, "recursion"),
        bounds=bounds_for(bundle, request.profile),
    )


def function_bounds(bundle: Bundle, names: tuple[str, ...]) -> dict[str, FunctionBounds]:
    """Return the bounds of the functions a request lists, as policy says."""
    path = ("tool-exec", "functions")
    keys = ("input_bytes", "output_bytes", "depth", "calls")
    return {
        name: FunctionBounds(**{key: bundle.integer(*path, name, key) for key in keys})
        for name in names
    }


def bounds_for(bundle: Bundle, profile: str) -> SourceBounds:
    """Return the bounds of source code under a profile of the lane."""
    ring = compile_ring(bundle, compiler.MONTY, profile)
    return SourceBounds(
        source_bytes=bundle.integer(*MONTY, "max", "source_bytes"),
        nesting=bundle.integer(*MONTY, "max", "nesting"),
        imports=frozenset(ring.imports),
    )


def tell(pool: WorkerPool, bundle: Bundle, ask: CheckCode) -> CodeChecked:
    """Return whether the interpreter can express code; nothing of it runs."""
    # Not a refusal by the interpreter: the host asks for something that its policy does not offer.
    if ask.profile not in bundle.words(*MONTY, "profiles"):
        raise ProtocolBroken("the lane does not offer this profile")
    if not set(ask.functions) <= {*bundle.words("tool-exec", "functions")}:
        raise ProtocolBroken("the lane does not offer such a function")
    bounds = bounds_for(bundle, ask.profile)
    return _checked(
        check(pool, ask.code, functions=ask.functions, inputs=ask.inputs, bounds=bounds)
    )


def _checked(found: Found) -> CodeChecked:
    warnings = tuple(_plain(warning) for warning in found.warnings)
    return CodeChecked(None if found.refusal is None else _plain(found.refusal), warnings)


def _plain(refusal: SourceRefusal) -> RefusalFound:
    return RefusalFound(refusal.construct, refusal.line, refusal.reason)


ROLLED_BACK: Final = "TG-PSH-001"
NOT_NEXT: Final = "TG-PSH-002"
# No profile of this lane can allow them; letting one through changes the digest read back.
NEVER: Final = ("ctypes", "os", "random", "socket", "subprocess", "sys", "time")


def refuse_unless_next(bundle: Bundle, found: Bundle, ask: Adopt, *, at: int) -> None:
    """Raise `PolicyDenied` unless `found` was signed to follow `bundle`."""
    if found.generation <= bundle.generation:
        message = f"generation {found.generation} does not come after {bundle.generation}"
        raise PolicyDenied(message, code=ROLLED_BACK)
    if found.previous != bundle.digest:
        raise PolicyDenied(
            "the bundle follows another one than this sandbox enforces", code=NOT_NEXT
        )
    armored = Untrusted(ask.signature)
    sshsig.verify(ask.bundle, armored, namespace=NAMESPACE, signers=bundle.signers, at=at)


def enforced(
    bundle: Bundle, ask: Prove, bounds_for: Callable[[Bundle, str], SourceBounds]
) -> Enforced:
    """Return what is in force here; raise the error of the first proof that fails."""
    numbers = dict(ask.numbers)
    for name in ask.tries:
        prove(name, numbers)
    rings = {}
    for name in bundle.words(*MONTY, "profiles"):
        bounds = bounds_for(bundle, name)
        through = [
            one for one in (*MONTY_MODULES, *NEVER) if screen(f"import {one}", bounds) is None
        ]
        ring = compile_ring(bundle, compiler.MONTY, name)
        rings[name] = replace(ring, imports=tuple(sorted(through))).digest
    return Enforced(bundle.generation, bundle.digest, rings, ask.tries)
