"""An owned CORE: Python of a test's own in CORE's real box, in place of the gate.

The host side is the real one: the box is started, heard and judged as for any question.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import start_with
from tests.support.core_doubles import FakeAskGates, Script, Scripted, said
from tests.support.policies import altered
from tests.support.workspaces import files_below
from threegate.gates.core.messages import CoreSaid, CoreTask
from threegate.host import open_box
from threegate.host.ask.answer import Outcome, TypedQuestion, answer_by_model
from threegate.host.ask.core_session import Say, ask_core
from threegate.host.request.code import Ask
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import CORE

# What an attack finds ready: the task, and an answer in the form that is due, to be bent.
PRELUDE = """
import json, os, socket, sys, time
from threegate.gates.core.messages import parse_task
from threegate.base.texts import pack_texts
from threegate.base.wire import pack
from threegate.sandbox.channel import CHUNK, END, HEADER, NOTE, frames
from threegate.base.untrusted import Untrusted

USAGE = {"calls": 1, "completion_tokens": 1, "model_ms": 1, "prompt_tokens": 1, "retries": 0}

def fields(**changes):
    due = {
        "claims": [[[1, 1, 1]]], "drafts": [], "left_out": 0, "method": "model", "notes": 0,
        "problems": [], "shown": [1], "usage": USAGE,
    }
    return {key: value for key, value in {**due, **changes}.items() if value is not None}

def said(*texts, kind="said", protocol="core/1", **changes):
    return pack_texts(protocol, kind, fields(**changes), texts or ("Ice is cold.",))

def raw(data):
    while data:
        data = data[os.write(3, data):]

def note(words):
    data = words.encode("utf-8")
    raw(HEADER.pack(NOTE, len(data)) + data)

def main():
    request = read_message(0, 2**25)
    task = parse_task(Untrusted(request))
    answer(task)
"""
HONEST = "write_message(3, said())"


@dataclass
class Owned:
    """A workspace whose CORE does what a test says; what the operator was told."""

    ws: Workspace
    index: Index
    place: Path
    server: Scripted
    patch: pytest.MonkeyPatch
    told: list[str] = field(default_factory=list)
    tasks: list[CoreTask] = field(default_factory=list)

    @contextmanager
    def serving(self) -> Iterator[Say]:
        def say(task: CoreTask) -> CoreSaid:
            self.tasks.append(task)
            return ask_core(
                find_machine(), self.ws.bundle, self.server.path, task, self.told.append
            )

        yield say

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        with FakeAskGates(said()).asking() as ask:
            yield ask

    def ask(self, code: str, **wish: Any) -> Outcome:
        """Ask a question that this code answers from CORE's box."""
        lines = "".join(f"    {line}\n" for line in code.splitlines())
        made = start_with(self.place, f"{PRELUDE}\ndef answer(task):\n{lines}", CORE)

        def start(_: object, __: str, given: dict[str, str], *___: object, **____: object) -> Start:
            return replace(made, given={**made.given, **given})

        self.patch.setattr(open_box, "Start", start)
        return self.question(**wish)

    def question(self, **wish: Any) -> Outcome:
        """Ask whatever CORE there is now; the real one unless `ask` put code in its place."""
        self.told.clear()
        self.index.catch_up()
        wished = TypedQuestion(**{"question": "Is ice cold?", **wish})
        return answer_by_model(self.ws, self.index, wished, self)

    def under(self, **answer: int) -> Workspace:
        """Return the workspace under other rules about answers."""

        def change(sections: dict[str, Any]) -> None:
            sections["core"]["answer"].update(answer)

        return replace(self.ws, bundle=altered(self.ws.bundle, change).bundle())

    def state(self) -> tuple[int, dict[str, bytes]]:
        """Return everything that a question could change, the log included."""
        found = files_below(self.ws.root)
        kept = {name: data for name, data in found.items() if not name.startswith("index.sqlite")}
        return self.ws.store.journal.log.head.seq, kept


@contextmanager
def owned(
    ws: Workspace, script: Script = lambda _: "a model's words", **model: int
) -> Iterator[Owned]:
    """Yield a workspace with an owned CORE, whose model says what `script` says."""

    def change(sections: dict[str, Any]) -> None:
        rules = {"kind": "bridge", "name": "double", "sha256": None, "endpoint": "127.0.0.1:9999"}
        sections["core"]["model"].update(rules, **model)

    index = Index(ws.store, ws.seals)
    with tempfile.TemporaryDirectory(prefix="threegate-owned-") as directory:
        Path(directory).chmod(0o755)  # a gate has a uid of its own
        changed = replace(ws, bundle=altered(ws.bundle, change).bundle())
        with (
            Scripted(Path(directory), script) as server,
            pytest.MonkeyPatch.context() as patch,
        ):
            yield Owned(changed, index, Path(directory), server, patch)
    index.close()
