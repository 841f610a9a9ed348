"""CORE and its model, both in sandboxes, for one question.

The model is the one that the policy names; there is no fallback.

SECURITY
    Starts the sandbox that reads texts of strangers, and treats its answer as foreign bytes.
    Anything but an answer in the protocol is discarded completely.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from threegate.artifacts.analysis import ModelUsed
from threegate.base.errors import GateUnavailable
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import STEP, CoreNotSaid, CoreSaid, CoreTask, parse_said
from threegate.gates.model.messages import ModelProgress
from threegate.host.command_context import Context
from threegate.host.fetch.credentials import model_credential
from threegate.host.gate_profiles import refuse_unapplied_profile
from threegate.host.models.choice import Noted, chosen, noted_by
from threegate.host.models.server import Leaving, ModelServer
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.supervisor import LogWriter
from threegate.host.request.code import Ask, asking
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import CORE
from threegate.sandbox.session import run_gate

GRACE_SECONDS: Final = 10.0  # CORE keeps to the deadline itself; this is for one that does not
MAX_STEPS: Final = 1000  # shown for one question
MAX_WORDS_CHARS: Final = 200
TOKENS: Final = "the model is"  # how progress within a step begins

Tell = Callable[[str], None]  # progress, in words
Say = Callable[[CoreTask], CoreSaid]


def model_of(bundle: Bundle) -> ModelUsed:
    """Return the model the policy names, as an analysis carries it."""
    model = chosen(bundle)
    return ModelUsed(model.name, model.sha256, model.server)


@contextmanager
def serving(
    bundle: Bundle,
    cache: Path,
    runtime: Path | None,
    tell: Tell,
    *,
    noted: Noted,
    leaving: Leaving | None = None,
) -> Iterator[Say]:
    """Yield the way to ask CORE; its model is loaded by then.  Raises `GateUnavailable`.

    Without `leaving` the model is one of this machine, or there is none.
    """
    machine = find_machine()
    refuse_unapplied_profile(bundle, CORE)  # early: loading a model may take a minute
    host = chosen(bundle).host
    tell("loading the model" if host is None else f"sending the question and its sources to {host}")

    def show(progress: ModelProgress) -> None:
        words = "reading" if progress.phase == "prompt" else "writing"
        tell(f"{TOKENS} {words}: {progress.done} of {progress.total} tokens")

    with ModelServer.start(
        bundle, machine, cache, runtime=runtime, progress=show, leaving=leaving, noted=noted
    ) as server:

        def say(task: CoreTask) -> CoreSaid:
            try:
                return ask_core(machine, bundle, server.socket, task, tell)
            except GateUnavailable:
                server.close()
                server.refuse_ended()  # prefer the reason of the model server
                raise

        yield say


def ask_core(
    machine: Machine, bundle: Bundle, socket: Path, task: CoreTask, tell: Tell
) -> CoreSaid:
    """Give one task to a new CORE sandbox; return its answer, or raise `GateUnavailable`."""
    told = 0

    def heard(note: bytes) -> None:
        nonlocal told
        told += 1
        # Steps are shown as this program's own words: an owned CORE may not choose them.
        words = note.decode("ascii", "replace")
        if told <= MAX_STEPS and STEP.fullmatch(words):
            tell(words)

    seconds = task.budget.deadline_ms / 1000 + GRACE_SECONDS
    kind = partial(run_gate, request=task.to_bytes(), deadline_seconds=seconds, note=heard)
    answer = open_box(kind, machine, bundle, CORE, {"model": str(socket)})
    with answer.message as message:
        data = message.read()
    if answer.ended.why != "done":
        raise ended(CORE, answer.ended.why)
    said = parse_said(Untrusted(data))
    if isinstance(said, CoreNotSaid):
        hint = "`threegate model status` looks at the model; --extractive needs none"
        words = quote(said.message, MAX_WORDS_CHARS)
        raise GateUnavailable(f"CORE has no answer: {words}", code=said.code, hint=hint)
    problems = (f"CORE says: {quote(problem, MAX_WORDS_CHARS)}" for problem in said.problems)
    return replace(said, problems=tuple(problems))


# The gates that a question needs on this machine, each in its sandbox.


@dataclass(frozen=True, slots=True)
class Boxed:
    """The real `AskGates` of `answer_by_model`."""

    ws: Workspace
    models: Path  # where model files lie
    runtime: Path | None
    tell: Tell
    noter: LogWriter
    # The data that a remote model gets; without it nothing leaves.
    key: Callable[[str], str | None] | None = None

    def serving(self) -> AbstractContextManager[Say]:
        """Return CORE with its model, once that is loaded."""
        leaving = None
        if self.key is not None:
            leaving = Leaving(self.ws.root, self.key, self.noter)
        return serving(
            self.ws.bundle,
            self.models,
            self.runtime,
            self.tell,
            noted=noted_by(self.noter),
            leaving=leaving,
        )

    def asking(self) -> AbstractContextManager[Ask]:
        """Return the lite lane, to check programs; started for the first one."""
        return asking(self.ws)


def gates_of(context: Context, ws: Workspace, tell: Tell, noter: LogWriter) -> Boxed:
    """Return how CORE and the model of the policy are reached, each in its sandbox."""
    settings = context.settings
    models, runtime = settings.cache_home / "models", settings.runtime_home
    return Boxed(
        ws, models, runtime, tell, noter, lambda host: model_credential(settings, ws.bundle, host)
    )
