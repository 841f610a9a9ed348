"""Model servers under test: policies that name them, clients that ask them."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import weights
from tests.support.policies import altered, policy
from threegate.base.untrusted import Untrusted
from threegate.gates.core.client import REFUSAL
from threegate.gates.model.chat.messages import (
    MAX_REPLY_BYTES,
    ChatRefused,
    ChatReply,
    ChatRequest,
    parse_refused,
    parse_reply,
)
from threegate.gates.model.messages import ModelProgress
from threegate.host.models.server import ModelServer
from threegate.policy.bundle import Bundle
from threegate.sandbox.channel import MessageReader, frames
from threegate.sandbox.machine import find_machine

SECONDS = 120.0
YES_OR_NO = 'root ::= "yes" | "no"'


def named(**rules: Any) -> Bundle:
    """Return the shipped policy with other rules for its model."""

    def change(sections: dict[str, Any]) -> None:
        sections["core"]["answer"]["deadline_seconds"] = rules.pop("deadline_seconds", 60)
        sections["core"]["model"].update(rules)

    return altered(policy(), change).bundle()


def embedded(**rules: Any) -> Bundle:
    """Return a policy that names the smallest model."""
    given = {"name": weights.NAME, "sha256": weights.SHA256, "context_tokens": 1024}
    return named(kind="embedded", **{**given, **rules})


def bridged(port: int, **rules: Any) -> Bundle:
    """Return a policy that names a server on loopback."""
    given = {"name": "own-model", "sha256": None, "endpoint": f"127.0.0.1:{port}"}
    return named(kind="bridge", **{**given, **rules})


@contextmanager
def served(
    bundle: Bundle, runtime: Path, told: Callable[[ModelProgress], None] = lambda _: None
) -> Iterator[ModelServer]:
    """Serve the model a policy names, in its real box."""
    if bundle.text("core", "model", "kind") == "embedded":
        weights.smallest()
    machine, cache = find_machine(), weights.cache()
    with ModelServer.start(bundle, machine, cache, runtime=runtime, told=told) as server:
        yield server


def connected(path: Path) -> socket.socket:
    """Return a connection to a socket, however long its path is."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(SECONDS)
    place = os.open(path.parent, os.O_PATH)  # the name of a socket has room for 107 bytes
    try:
        sock.connect(f"/proc/self/fd/{place}/{path.name}")
    finally:
        os.close(place)
    return sock


def asked(path: Path, message: bytes) -> bytes:
    """Send one message, as CORE does; return the message that answers it."""
    messages = MessageReader(MAX_REPLY_BYTES)
    with connected(path) as sock:
        sock.sendall(frames(message))
        (answer,) = messages.feed(everything(sock))
        assert not messages.mid_message
        return answer


def completed(path: Path, request: ChatRequest) -> ChatReply | ChatRefused:
    """Ask for a completion; return the reply, or why there is none."""
    answer = asked(path, request.to_bytes())
    refused = answer.startswith(REFUSAL)
    return parse_refused(Untrusted(answer)) if refused else parse_reply(Untrusted(answer))


def question(text: str, *, max_tokens: int = 24, **form: Any) -> ChatRequest:
    return ChatRequest((("user", text),), max_tokens, **form)


def said(answer: ChatReply | ChatRefused) -> str:
    """Return the text of a reply; a refusal fails the test."""
    assert isinstance(answer, ChatReply), answer
    return answer.content.open_for_display()


def everything(sock: socket.socket) -> bytes:
    """Return what comes until the other side is done."""
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def payloads() -> set[int]:
    """Return the processes inside boxes that this one has started."""
    parents: dict[int, tuple[int, str]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                text = (directory / "stat").read_text("utf-8", "replace")
            except OSError:  # gone meanwhile
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            parents[int(directory.name)] = (int(rest.split()[1]), name)

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid][0]))

    boxed = {
        pid for pid, (parent, _) in parents.items() if parents.get(parent, (0, ""))[1] == "bwrap"
    }
    return {pid for pid in boxed if parents[pid][1] != "bwrap" and ours(pid)}
