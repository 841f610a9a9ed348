"""Doubles around CORE: a model server that says what it is told to, tasks, and answers."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tests.support import models
from tests.support.cli import Cli, made, write
from tests.support.models import OWN_NAME, Act, completion, says
from threegate.artifacts import registry
from threegate.artifacts.registry import Artifact
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
    TaskBudget,
    TaskSource,
    ToolDraft,
)
from threegate.gates.model.chat.messages import (
    MAX_CHAT_BYTES,
    ChatRefused,
    ChatReply,
    ChatRequest,
    parse_request,
)
from threegate.gates.tool_exec.monty.messages import CheckCode, CodeChecked, RefusalFound
from threegate.host.ask.answer import Outcome
from threegate.host.ask.core_session import Say
from threegate.host.request.code import Ask
from threegate.sandbox.channel import MessageReader, frames

# What a script gives back: words of the model, a refusal, or bytes to send as they are.
Reply = str | ChatReply | ChatRefused | bytes
Script = Callable[[ChatRequest], Reply]


def reply(content: str, finish_reason: str = "stop") -> ChatReply:
    return ChatReply(Untrusted(content), finish_reason, 100, 10, "scripted")


def _some(client: socket.socket) -> bytes:
    piece = client.recv(65536)
    if not piece:
        raise ConnectionResetError
    return piece


class Scripted:
    """Serves one request after the other; keeps what was asked."""

    def __init__(self, directory: Path, script: Script) -> None:
        self.path = directory / "model.sock"
        self.asked: list[ChatRequest] = []
        self._script = script
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(self.path))
        self.path.chmod(0o666)  # a gate has a uid of its own
        self._listening.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._over = False

    def _serve(self) -> None:
        while True:
            client, _ = self._listening.accept()
            with client:
                if self._over:
                    return
                client.settimeout(30)
                self._one(client)

    def _one(self, client: socket.socket) -> None:
        try:
            messages = MessageReader(MAX_CHAT_BYTES)
            while not (found := messages.feed(_some(client))):
                pass
            request = parse_request(Untrusted(found[0]))
            self.asked.append(request)
            client.sendall(self._said(self._script(request)))
        except OSError:
            pass  # the client has gone

    def _said(self, said: Reply) -> bytes:
        if isinstance(said, bytes):
            return said
        return frames((reply(said) if isinstance(said, str) else said).to_bytes())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(self.path))
        self._thread.join(30)
        self._listening.close()


# -- Tasks for CORE, and replies to them.

MARKER = "5eed" * 8
TASK = CoreTask(
    question="How strong is ice?",
    policy=("Nothing here runs without a signature.",),
    brief=("You answer from the quoted sources.",),
    may_draft=(),
    marker=MARKER,
    model="scripted",
    budget=TaskBudget(4096, 512, 10, 4, 1, 20_000),
    denied=(),
    sources=(
        TaskSource(
            "packet, from example.org", ("Ice broke at 1.2 MPa. It was cold.", "Wind blew.")
        ),
        TaskSource("packet, from example.net", ("Snow is weaker than ice.",)),
    ),
)


def task(**changes: Any) -> CoreTask:
    return replace(TASK, **changes)


def claims(*made: tuple[str, list[int]]) -> str:
    return json.dumps({"claims": [{"text": text, "from": numbers} for text, numbers in made]})


def wanted(compute: str = "", *fetch: tuple[str, str]) -> str:
    sources = [{"reference": reference, "why": why} for reference, why in fetch]
    return json.dumps({"compute": compute, "fetch": sources})


def step_of(request: ChatRequest) -> str:
    """Tell which step a request is: answer, map, next or code."""
    last = request.messages[-1][1]
    for word, start in (("answer", "Answer in"), ("map", "Which of"), ("next", "Decide")):
        if last.startswith(start):
            return word
    return "code"


# -- CORE and the lite lane as tests need them: they say what the test says.

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


def wanted_source(*references: str, purpose: str = "It is cited.") -> FetchDraft:
    return FetchDraft(Untrusted(purpose), tuple(Untrusted(one) for one in references))


def written(outcome: Outcome) -> list[tuple[str, str]]:
    """Return label and text of what a model claims, without the sentences that stand beside it."""
    made = outcome.stored.analysis
    texts = [text.open_for_display() for text in made.claim_texts]
    found = [(one.label, text) for one, text in zip(made.claims, texts, strict=True)]
    return found[: len(found) - outcome.beside]


@dataclass
class FakeAskGates:
    """Implements `AskGates`: no process is started."""

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


# -- The real `ask`, in real boxes, with a model server that the test plays.

SENTENCE = re.compile(r"^\[([0-9]+)\] (.*)$", re.MULTILINE)


def asker(base: Path, *artifacts: Artifact, name: str = "ws") -> Cli:
    """Return a user whose workspace holds these artifacts."""
    cli = made(base, name=name)
    files = [
        write(base / "brought" / f"{number}.md", registry.emit(one))
        for number, one in enumerate(artifacts)
    ]
    cli("admit", *files)
    return cli


def use_model(cli: Cli, *, deadline: str = "60s", **rules: str) -> None:
    """Sign a policy that names another model."""
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "core.policy.md"
    text = path.read_text("utf-8")
    for key, value in rules.items():
        text, count = re.subn(rf"(?m)^  {key}: .*$", f"  {key}: {value}", text, count=1)
        assert count == 1, key
    text = text.replace("deadline_seconds: 15m", f"deadline_seconds: {deadline}")
    path.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")


def use_server(cli: Cli, port: int, **more: str) -> None:
    """Sign a policy that names a server of the test."""
    endpoint = f"127.0.0.1:{port}"
    use_model(cli, kind="bridge", name=OWN_NAME, sha256="none", endpoint=endpoint, **more)


def use_smallest(cli: Cli, **more: str) -> None:
    """Sign a policy that names the smallest real model, which is in the cache then."""
    models.smallest()
    cli.environment["XDG_CACHE_HOME"] = str(models.model_cache().parents[1])
    use_model(cli, name=models.NAME, sha256=models.SHA256, **more)


def asked_of(request: bytes) -> tuple[str, dict[int, str]]:
    """Return the last message of a request, and the numbered sentences that were quoted."""
    messages = json.loads(request.partition(b"\r\n\r\n")[2])["messages"]
    quoted = "\n".join(m["content"] for m in messages if "BEGIN DATA" in m["content"])
    return messages[-1]["content"], {int(n): text for n, text in SENTENCE.findall(quoted)}


def replies(*contents: Any) -> Act:
    """Return a server that gives these replies in turn, the last one for ever."""
    left = list(contents)

    def act(sock: Any, server: Any) -> None:
        content = left.pop(0) if len(left) > 1 else left[0]
        text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
        says(completion(text))(sock, server)

    return act


def labels_of_model(found: dict[str, Any]) -> list[str]:
    """Return the labels of what the model claims, without the sentences that stand beside it."""
    return [one["label"] for one in found["claims"] if one["by"] == "model"]
