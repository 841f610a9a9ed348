"""What the policy in force says about a stored request, as far as it can be said before a run."""

from collections.abc import Iterator
from dataclasses import dataclass

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.references import Question, parse_reference, questions
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.host.run.heavy.kernel_allowlist import may_enforce_here
from threegate.policy.approvals import command_of, execution_of, executor_for
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_execute, may_fetch
from threegate.policy.decision import Decision, Deny
from threegate.policy.ring.compiler import may_command


@dataclass(frozen=True, slots=True)
class Answer:
    """One thing a request asks of policy, and what policy says."""

    question: str  # foreign parts are quoted
    decision: Decision
    needed: bool = True  # a request is denied if this is; else it goes without


@dataclass(frozen=True, slots=True)
class Plan:
    """Every URL that is asked for one reference, in order, and what policy says to each."""

    text: str  # foreign
    asks: tuple[tuple[Question, Decision], ...]
    refusal: Deny | None = None  # why it is no reference


def decisions(bundle: Bundle, artifact: Artifact) -> Iterator[Answer]:
    """Yield each question a request raises and the answer."""
    if isinstance(artifact, ToolRequest):
        yield Answer("execute", may_execute(bundle, execution_of(artifact)))
        kind = executor_for(artifact)
        yield Answer(f"enforce by {kind}", may_enforce_here(bundle, kind, artifact.profile))
        if artifact.argv:
            words = command_of(artifact)
            yield Answer("start", may_command(bundle, kind, artifact.profile, words))
    elif isinstance(artifact, FetchRequest):
        for plan in plans(bundle, artifact):
            yield from _answers(plan)
    else:
        raise UsageError("only requests ask for something", hint="give the id of a fr- or tr-")


def _answers(plan: Plan) -> Iterator[Answer]:
    if plan.refusal is not None:
        yield Answer(f"fetch {quote(plan.text)}", plan.refusal)
    for number, (question, decision) in enumerate(plan.asks):
        what = f"fetch {quote(plan.text)} from {question.source}"
        yield Answer(what, decision, needed=number == 0)


def plans(bundle: Bundle, request: FetchRequest) -> Iterator[Plan]:
    """Yield what is asked for each reference: by the very function that FETCH asks by."""
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
