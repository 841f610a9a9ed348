"""What policy and this machine say about a stored request, as far as it is known before a run.

A program of a profile must be in the guest image, and not behind a link: the guest recognizes a
program only by the path it was built at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.references import Question, parse_reference, questions
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import GateUnavailable, UsageError
from threegate.base.text import quote
from threegate.host.images.choice import current
from threegate.host.images.contents import digests_in
from threegate.host.images.manifest import Manifest
from threegate.host.images.store import Image, Images
from threegate.host.settings import Settings
from threegate.policy.approvals import command_of, execution_of, executor_for, ring_for
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.decide import may_execute, may_fetch
from threegate.policy.decision import Decision, Deny, RuleRef
from threegate.policy.ring.compiler import (
    EXECUTORS,
    Executors,
    ProfileRejected,
    compile_ring,
    may_command,
    may_enforce,
    without,
)
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import KERNEL, RING
from threegate.sandbox.reach import missing

SCIENCE: Final = frozenset(("matplotlib", "numpy", "pandas", "scipy"))


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """One thing a request asks of policy, and what policy says."""

    question: str  # foreign parts are quoted
    decision: Decision
    needed: bool = True  # False: without it the request still goes ahead


@dataclass(frozen=True, slots=True)
class Plan:
    """Every URL that is asked for one reference, in order, and what policy says to each."""

    text: str  # foreign
    asks: tuple[tuple[Question, Decision], ...]
    refusal: Deny | None = None  # why it is not a reference


def decisions(bundle: Bundle, artifact: Artifact) -> Iterator[PolicyAnswer]:
    """Yield each question a request raises and the answer."""
    if isinstance(artifact, ToolRequest):
        yield PolicyAnswer("execute", may_execute(bundle, execution_of(artifact)))
        kind = executor_for(artifact)
        yield PolicyAnswer(f"enforce by {kind}", may_enforce_here(bundle, kind, artifact.profile))
        if artifact.argv:
            words = command_of(artifact)
            yield PolicyAnswer("start", may_command(bundle, kind, artifact.profile, words))
    elif isinstance(artifact, FetchRequest):
        for plan in plans(bundle, artifact):
            yield from _answers(plan)
    else:
        raise UsageError("only requests ask for something", hint="give the id of a fr- or tr-")


def _answers(plan: Plan) -> Iterator[PolicyAnswer]:
    if plan.refusal is not None:
        yield PolicyAnswer(f"fetch {quote(plan.text)}", plan.refusal)
    for number, (question, decision) in enumerate(plan.asks):
        what = f"fetch {quote(plan.text)} from {question.source}"
        yield PolicyAnswer(what, decision, needed=number == 0)


def plans(bundle: Bundle, request: FetchRequest) -> Iterator[Plan]:
    """Yield what is asked for each reference: by the same function that FETCH uses."""
    contact = bundle.value("fetch", "contact")
    for reference in request.references:
        text = reference.open_for_display()
        try:
            parsed = parse_reference(text)
        except ValueError as exc:
            yield Plan(text, (), Deny(None, f"not a reference: {exc}"))
            continue
        address = contact if isinstance(contact, str) else None
        asks = questions(parsed, want=request.want, contact=address)
        judged = (may_fetch(bundle, one.url, integrity=request.integrity) for one in asks)
        yield Plan(text, tuple(zip(asks, judged, strict=True)))


def compile_here(policy: Compiled, kind: str, name: str) -> ExecutorProfile:
    """Return a profile as an executor of this machine enforces it, or raise `ProfileRejected`."""
    return compile_ring(policy, kind, name, executors=_executors_for(policy, name))


def may_enforce_here(policy: Compiled, kind: str, name: str) -> Decision:
    """Decide whether an executor of this machine can enforce the profile `name`."""
    return may_enforce(policy, kind, name, executors=_executors_for(policy, name))


def _executors_for(policy: Compiled, name: str) -> Executors:
    """Return what executors can enforce here; the kernel is asked if the profile needs it."""
    if says_kernel(policy, name) and missing() is not None:
        return without(KERNEL)
    return EXECUTORS


def says_kernel(policy: Compiled, name: str) -> bool:
    """Tell whether a profile says `kernel-allowlist`."""
    path = ("tool-exec", RING, name)
    return policy.has(*path) and policy.text(*path, "executor_network") == KERNEL


def layers_for(manifest: Manifest, ring: ExecutorProfile) -> tuple[str, ...]:
    """Return the layers that a guest under this profile starts from."""
    science = bool({*ring.imports} & SCIENCE)
    return tuple(name for name in manifest.layers if name != "science" or science)


def programs_in(policy: Compiled, image: Image, ring: ExecutorProfile) -> dict[str, str]:
    """Return the digest of every program of a profile, or raise `ProfileRejected` for one."""
    found = digests_in(image, layers_for(image.manifest, ring), ring.binaries)
    for path in ring.binaries:
        if path not in found:
            raise _missing_program(policy, ring, path)
    return found


def _missing_program(policy: Compiled, ring: ExecutorProfile, path: str) -> ProfileRejected:
    reason = f"profile {ring.profile}: the image has no program {path}, or it is a link"
    return ProfileRejected(reason, rule_of(policy, ring, path))


def rule_of(policy: Compiled, ring: ExecutorProfile, path: str) -> RuleRef:
    """Return where a program of a profile is written."""
    return policy.ref("tool-exec", RING, ring.profile, "allowed_binaries", path)


def missing_here(policy: Compiled, request: ToolRequest, settings: Settings) -> tuple[str, ...]:
    """Return the programs of a request's profile that the image lacks, if there is one here."""
    ring = ring_for(policy, request)
    if request.backend != "era" or not ring.binaries:
        return ()
    try:
        image = current(Images(settings.cache_home / "images"), settings.config_home)
    except GateUnavailable:
        return ()
    found = digests_in(image, layers_for(image.manifest, ring), ring.binaries)
    return tuple(path for path in ring.binaries if path not in found)


def refuse_missing_here(policy: Compiled, request: ToolRequest, settings: Settings) -> None:
    """Raise `ProfileRejected` for a program of the profile that the image here lacks."""
    for path in missing_here(policy, request, settings):
        raise _missing_program(policy, ring_for(policy, request), path)
