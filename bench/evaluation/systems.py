"""The systems that are compared, each over the same workspace and the same real model.

`threegate` is `host.asking` through the real boxes, as `threegate ask` calls it.  `direct` is the
same model in the same server without CORE.  `extractive` has no model at all.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bench.evaluation import direct
from bench.evaluation.answers import Answer, Cost, Drafted
from bench.evaluation.material import COMPUTED, Material, Question
from bench.evaluation.programs import run_draft, run_program
from tests.support.policies import altered
from tests.support.workspaces import take_in
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import ThreeGateError
from threegate.gates.core.client import Client, NoModel
from threegate.gates.core.messages import CoreSaid, CoreTask, ModelUsage
from threegate.gates.model.chat.messages import ChatRequest
from threegate.host.ask.answer import (
    AskGates,
    Outcome,
    TypedQuestion,
    answer_by_extracts,
    answer_by_model,
    choose_for_model,
    read_question,
)
from threegate.host.ask.core_session import Boxed, Say
from threegate.host.models.catalogue import Model
from threegate.host.models.server import ModelServer
from threegate.host.proxy.supervisor import LogWriter
from threegate.host.request.code import Ask, asking
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine

# No usable reply; a prompt that does not fit; nothing that has a word of the question.
GAVE_NONE: Final = ("TG-COR-002", "TG-MDL-006", "TG-USE-001")
IN_TIME: Final = "in time"  # as both clients say it of a model that was too slow
NOT_KEPT: Final = "a program, was not kept"  # as the host says it of a draft


@dataclass(slots=True)
class Place:
    """A workspace that holds the works, under the shipped policy with the chosen model."""

    ws: Workspace  # under the policy as it was signed, for running programs
    asked: Workspace  # the same under the chosen model
    index: Index
    material: Material
    ids: Mapping[str, str]  # of works
    models: Path
    runtime: Path

    def key_of(self, artifact_id: str) -> str:
        """Return the work behind a packet."""
        return next(key for key, one in self.ids.items() if one == artifact_id)

    def wish(self, question: Question) -> TypedQuestion:
        """Return the question as the command line would give it."""
        named = [self.ids[key] for key in question.works]
        return TypedQuestion(question.ask, packets=named, role=question.role)

    def shown(self, question: Question) -> list[str]:
        """Return the works that ThreeGate puts before the model, in its order."""
        wish = self.wish(question)
        asked = read_question(self.asked, wish)
        selection = choose_for_model(self.asked, self.index, asked, wish)
        found = dict.fromkeys(passage.artifact for passage in selection.passages)
        return [self.key_of(one) for one in found]


def furnish(
    ws: Workspace, material: Material, model: Model, *, models: Path, runtime: Path, context: int
) -> Place:
    """Put every work into a workspace, and name the model in its policy."""
    taken = take_in(ws, *material.packets.values())

    def change(sections: dict[str, Any]) -> None:
        rules = {"name": model.name, "sha256": model.sha256, "context_tokens": context}
        sections["core"]["model"].update(rules)

    asked = replace(ws, bundle=altered(ws.bundle, change).bundle())
    index = Index(ws.store, ws.seals)
    index.catch_up()
    ids = dict(zip(material.packets, taken, strict=True))
    return Place(ws, asked, index, material, ids, models, runtime)


@dataclass
class Timed:
    """The real sides, with a look at the clock."""

    sides: AskGates
    loading: float = 0.0
    usage: ModelUsage = field(default=ModelUsage(0, 0, 0, 0, 0))

    @contextmanager
    def serving(self) -> Iterator[Say]:
        began = time.perf_counter()
        with self.sides.serving() as say:
            self.loading += time.perf_counter() - began

            def timed(task: CoreTask) -> CoreSaid:
                said = say(task)
                self.usage = said.usage
                return said

            yield timed

    def asking(self) -> AbstractContextManager[Ask]:
        return self.sides.asking()

    def cost(self, whole: float) -> Cost:
        usage = self.usage
        return Cost(
            whole=whole,
            loading=self.loading,
            model=usage.model_ms / 1000,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            calls=usage.calls,
        )


System = Callable[[Question], Answer]


@contextmanager
def threegate(place: Place) -> Iterator[System]:
    """Yield ThreeGate with the model, from its question to its programs."""

    def answer(question: Question) -> Answer:
        place.index.catch_up()
        noter = LogWriter(place.asked.store)
        sides = Timed(Boxed(place.asked, place.models, place.runtime, lambda _: None, noter))
        began = time.perf_counter()
        outcome = answer_by_model(place.asked, place.index, place.wish(question), sides)
        cost = sides.cost(time.perf_counter() - began)
        found, draft = read_outcome(place, outcome), _draft(place, outcome)
        own = replace(found.own, draft=draft) if found.own else None
        return replace(found, cost=cost, draft=draft, own=own)

    yield answer


@contextmanager
def extractive(place: Place) -> Iterator[System]:
    """Yield the answer without generation."""

    def answer(question: Question) -> Answer:
        place.index.catch_up()
        began = time.perf_counter()
        outcome = answer_by_extracts(place.asked, place.index, place.wish(question))
        cost = Cost(whole=time.perf_counter() - began)
        return replace(read_outcome(place, outcome), cost=cost, own=None)

    yield answer


def read_outcome(place: Place, outcome: Outcome) -> Answer:
    """Return what an analysis says, in terms of works; beside it what the model alone wrote."""
    analysis = outcome.stored.analysis
    base = Answer(
        shown=tuple(map(place.key_of, outcome.selection.materials)),
        fetches=sum(draft_id.startswith("fr-") for draft_id, _ in outcome.stored.drafts),
        told=outcome.notices,
    )
    written = len(analysis.claims) - outcome.beside
    return replace(_claimed(place, analysis, base), own=_claimed(place, analysis, base, written))


def _claimed(place: Place, analysis: Analysis, base: Answer, most: int | None = None) -> Answer:
    """Return an answer with what the first claims of an analysis say and rest on."""
    claims = analysis.claims[:most]
    cites = [cite.artifact for claim in claims for cite in claim.cites]
    return replace(
        base,
        text="\n".join(text.open_for_display() for text in analysis.claim_texts[:most]),
        cited=tuple(dict.fromkeys(map(place.key_of, cites))),
        quotes=tuple(quote.open_for_display() for quote in analysis.quotes[: len(cites)]),
        labels=tuple(claim.label for claim in claims),
    )


def _draft(place: Place, outcome: Outcome) -> Drafted | None:
    for draft_id, request in outcome.stored.drafts:
        if isinstance(request, ToolRequest):
            return run_draft(place.ws, draft_id, request)
    refused = [words for words in outcome.notices if NOT_KEPT in words]
    return Drafted("", refused[0]) if refused else None


@contextmanager
def plain(place: Place) -> Iterator[System]:
    """Yield the model itself, loaded once."""
    bundle, deadline = place.asked.bundle, ("core", "answer", "deadline_seconds")
    seconds = bundle.integer(*deadline)
    output = bundle.integer("core", "answer", "output_tokens")
    context = bundle.integer("core", "model", "context_tokens")
    machine = find_machine()
    start = ModelServer.start(bundle, machine, place.models, runtime=place.runtime)
    with start as server, asking(place.ws) as ask, reachable(server.socket) as path:

        def answer(question: Question) -> Answer:
            shown, works = place.shown(question), place.material.works
            messages = direct.messages(question, shown, works)
            request = ChatRequest(tuple(messages), min(output, context // 2))
            began = time.perf_counter()
            reply = Client(path, time.monotonic() + seconds).ask(request)
            took = time.perf_counter() - began
            cost = Cost(took, 0.0, took, reply.prompt_tokens, reply.completion_tokens, 1)
            found, code = direct.read(reply.content.open_for_display(), shown, works)
            wants = code is not None and question.kind in COMPUTED
            draft = _run(place, code, shown, ask) if code and wants else None
            return replace(found, cost=cost, draft=draft)

        yield answer


@contextmanager
def reachable(socket: Path) -> Iterator[str]:
    """Yield a name for a socket that is short enough to connect to."""
    directory = os.open(socket.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{socket.name}"
    finally:
        os.close(directory)


def _run(place: Place, code: str, shown: Sequence[str], ask: Ask) -> Drafted:
    sources = {f"s{number}": place.ids[key] for number, key in enumerate(shown, 1)}
    return run_program(place.ws, code, sources, ask)


SYSTEMS: Final[Mapping[str, Callable[[Place], AbstractContextManager[System]]]] = {
    "threegate": threegate,
    "direct": plain,
    "extractive": extractive,
}


def answered(system: System, question: Question) -> Answer:
    """Return an answer; one that could have been given and was not is an empty one.

    Whatever else goes wrong is raised: a broken set-up would look like a poor system.
    """
    try:
        return system(question)
    except (ThreeGateError, NoModel) as exc:
        if exc.code not in GAVE_NONE and IN_TIME not in str(exc):
            raise
        return Answer(error=f"{type(exc).__name__}: {exc}")
