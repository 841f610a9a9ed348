"""CORE and the lite lane as tests need them: they say what the test says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from threegate.base.errors import GateUnavailable
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import (
    Cited,
    CoreSaid,
    CoreTask,
    Draft,
    FetchDraft,
    ModelClaim,
    ModelUsage,
    ToolDraft,
)
from threegate.gates.tool_exec.monty.messages import CheckCode, CodeChecked, RefusalFound
from threegate.host.ask.answer import Outcome
from threegate.host.ask.core_session import Say
from threegate.host.request.code import Ask

USAGE = ModelUsage(calls=1, retries=0, prompt_tokens=100, completion_tokens=20, model_ms=5)


def said(*claims: ModelClaim, drafts: tuple[Draft, ...] = (), **changes: object) -> CoreSaid:
    """Return an answer of these claims."""
    base: dict[str, object] = {
        "method": "model",
        "claims": claims,
        "drafts": drafts,
        "notes": (),
        "shown": (1,),
        "left_out": 0,
        "problems": (),
        "usage": USAGE,
    }
    return CoreSaid(**{**base, **changes})  # type: ignore[arg-type]


def claim(text: str, *cites: tuple[int, int, int]) -> ModelClaim:
    """Return a claim that cites sentences by source, text and number."""
    return ModelClaim(Untrusted(text), tuple(Cited(*one) for one in cites))


def program(code: str, *sources: int, purpose: str = "Add up the numbers.") -> ToolDraft:
    return ToolDraft(Untrusted(purpose), Untrusted(code), sources)


def wanted(*references: str, purpose: str = "It is cited.") -> FetchDraft:
    return FetchDraft(Untrusted(purpose), tuple(Untrusted(one) for one in references))


def written(outcome: Outcome) -> list[tuple[str, str]]:
    """Return label and text of what a model claims, without the sentences that stand beside it."""
    made = outcome.stored.analysis
    texts = [text.open_for_display() for text in made.claim_texts]
    found = [(one.label, text) for one, text in zip(made.claims, texts, strict=True)]
    return found[: len(found) - outcome.beside]


@dataclass
class FakeSides:
    """Implements `Sides`: no process is started."""

    answer: CoreSaid | Callable[[CoreTask], CoreSaid]
    lane: Callable[[CheckCode], CodeChecked] = field(default=lambda _: CodeChecked(None, ()))
    tasks: list[CoreTask] = field(default_factory=list)
    checks: list[CheckCode] = field(default_factory=list)

    @contextmanager
    def serving(self) -> Iterator[Say]:
        def say(task: CoreTask) -> CoreSaid:
            self.tasks.append(task)
            return self.answer(task) if callable(self.answer) else self.answer

        yield say

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        def ask(check: CheckCode) -> CodeChecked:
            self.checks.append(check)
            return self.lane(check)

        yield ask


def lane_that_refuses(check: CheckCode) -> CodeChecked:
    """Say that the first line cannot be expressed."""
    assert check.code
    return CodeChecked(RefusalFound("class definition", 1, "classes are not supported"), ())


def lane_that_is_gone(_: CheckCode) -> CodeChecked:
    """Be a lane whose box cannot be started."""
    raise GateUnavailable("the lite lane ended: it crashed or reached a limit", code="TG-LITE-001")
