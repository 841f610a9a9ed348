"""The program of a bridge sandbox: from CORE's socket to the operator's own model server.

The server listens on one port of loopback, or on a Unix socket.  No redirect is followed, and a
connection carries one request.

SECURITY
    Reads responses of a server that this project did not write, through `http_library`, and
    passes on text, an end and three numbers.  Requests have keys of our own choosing only: no
    tools, no streams, no paths.  The bridge trusts neither CORE nor the server.  It dials
    127.0.0.1 and the one port that the kernel lets it reach, or the one socket it sees.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, Final, Protocol

import threegate
from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.http_library.client import (
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseCut,
)
from threegate.gates.model.chat.messages import (
    MAX_REPLY_BYTES,
    ChatReply,
    ChatRequest,
    Served,
    response_format,
)
from threegate.gates.model.front.controls import broken_up, pattern_of
from threegate.gates.model.front.server import NoCompletion, Opened, Tell, Unanswered, run
from threegate.gates.model.messages import SERVER_SOCKET, Bridged, Remote, parse_bridged

LOOPBACK: Final = "127.0.0.1"
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 2 * MAX_REPLY_BYTES  # foreign servers write more around the same content
CONNECT_SECONDS: Final = 5.0
# Why there is no response, in the words for CORE.
_UNANSWERED: Final = {
    Failure.ANSWER: Unanswered.FOREIGN,
    Failure.CUT: Unanswered.FOREIGN,
    Failure.DEADLINE: Unanswered.DEADLINE,
    Failure.ENCODED: Unanswered.FOREIGN,
    Failure.TOO_LARGE: Unanswered.FOREIGN_TOO_LARGE,
}

Stopped = Callable[[], bool]
Open = Callable[[], ByteStream]


class LocalServer:
    """A server on one port of loopback, or on the socket that is bound into the sandbox."""

    def __init__(self, port: int | None) -> None:
        self._port = port

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value the server answers with status 200; raise `NoCompletion`."""
        exchange = request(path, body, [("Host", "localhost")])
        deadline = Deadline(end - time.monotonic(), stopped)
        return parse_json(completed(self._open, exchange, deadline, {}))

    def _open(self) -> ByteStream:
        family = socket.AF_UNIX if self._port is None else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(SERVER_SOCKET if self._port is None else (LOOPBACK, self._port))
        except OSError as exc:
            sock.close()
            where = "its socket" if self._port is None else f"{LOOPBACK}:{self._port}"
            raise NoCompletion(Unanswered.UNREACHABLE, f"nothing at {where}") from exc
        return ByteStream(sock)


def request(path: str, body: bytes | None, headers: list[tuple[str, str]]) -> Exchange:
    """Return a request for JSON, the last one on its connection."""
    headers = [
        *headers,
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    if body is None:
        return Exchange("GET", path, headers, max_head_bytes=MAX_HEAD_BYTES)
    headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return Exchange("POST", path, headers, body, max_head_bytes=MAX_HEAD_BYTES)


def completed(
    opened: Open, exchange: Exchange, deadline: Deadline, statuses: Mapping[int, str]
) -> bytes:
    """Return the body of a response with status 200; raise `NoCompletion`."""
    try:
        stream = opened()
        try:
            stream.send(exchange.request, deadline)
            head = exchange.head(stream, deadline)
            if head.status != 200:  # also a redirect
                told = f", {statuses[head.status]}" if head.status in statuses else ""
                raise NoCompletion(Unanswered.FOREIGN_STATUS, f"status {head.status}{told}")
            return exchange.body(stream, most=MAX_BODY_BYTES, deadline=deadline)
        finally:
            stream.close()
    except ResponseCut as exc:
        raise NoCompletion(Unanswered.FOREIGN, "it hung up before its answer") from exc
    except ConnectionLost as exc:
        raise NoCompletion(Unanswered.UNREACHABLE, "it hung up") from exc
    except NotRetrieved as exc:
        raise NoCompletion(
            _UNANSWERED.get(exc.failure, Unanswered.UNREACHABLE), exc.message
        ) from exc


def parse_json(untrusted: bytes) -> Any:
    """Return the JSON value in a response; raise `NoCompletion`."""
    try:
        return json.loads(untrusted.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise NoCompletion(Unanswered.FOREIGN, "not JSON") from exc


# What a foreign server is asked, and what of its answer is used.

MAX_OFFERED: Final = 10_000
_CONTROLS: Final = pattern_of(())  # its vocabulary is not known here


def question(request: ChatRequest, served: Served) -> bytes:
    """Return the body of a request to a foreign server."""
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "messages": broken_up(request, _CONTROLS),
        "model": served.name,
        "seed": request.seed,
        "stream": False,
        "temperature": 0,
    }
    if request.schema is not None:
        body["response_format"] = response_format(canonical.decode(request.schema.encode("utf-8")))
    return canonical.encode(body)


def reply(untrusted: Any, served: Served) -> ChatReply:
    """Return the reply in a foreign answer; raise `NoCompletion`."""
    try:
        choice = untrusted["choices"][0]
        content, finished = choice["message"]["content"], choice["finish_reason"]
        name = untrusted["model"]
    except (LookupError, TypeError) as exc:
        raise NoCompletion(Unanswered.FOREIGN) from exc
    if name != served.name:
        raise NoCompletion(Unanswered.OTHER_MODEL)
    usage = untrusted.get("usage")
    counted = usage if type(usage) is dict else {}
    try:
        return ChatReply(
            Untrusted(content),
            finished,
            counted.get("prompt_tokens", 0),
            counted.get("completion_tokens", 0),
            served.name,
        )
    except ProtocolBroken as exc:
        raise NoCompletion(Unanswered.FOREIGN, exc.message) from exc


def refuse_missing(untrusted: Any, served: Served) -> None:
    """Raise `NoCompletion` unless the model is among those a foreign server offers."""
    try:
        offered = untrusted["data"][:MAX_OFFERED]
        names = {item["id"] for item in offered}
    except (LookupError, TypeError) as exc:
        raise NoCompletion(Unanswered.FOREIGN, "its list of models") from exc
    if served.name not in names:
        raise NoCompletion(Unanswered.OTHER_MODEL, "the server does not offer it")


# The bridge.

OPENING_SECONDS: Final = 10.0
COMPLETIONS: Final = "/v1/chat/completions"
MODELS: Final = "/v1/models"


def serve() -> None:
    """Carry requests until the host hangs up; the payload of a bridge sandbox."""
    run(parse_bridged, _opened)


def _opened(opening: Bridged) -> Opened:
    return bridge_to(LocalServer(opening.port), opening, OPENING_SECONDS)


def bridge_to(server: "ForeignServer", opening: Bridged | Remote, seconds: float) -> Opened:
    """Return the bridge to a server that offers the model; raise `NoCompletion`."""
    served = Served(opening.name, None, opening.context_tokens)
    bridge = Bridge(served, server, deadline_seconds=opening.deadline_seconds)
    bridge.refuse_missing(seconds)
    return bridge, {"threegate": threegate.__version__}


class ForeignServer(Protocol):
    """A server behind the bridge."""

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value it answers with status 200; raise `NoCompletion`."""


class Bridge:
    """A model on a foreign server."""

    def __init__(self, served: Served, upstream: ForeignServer, *, deadline_seconds: float) -> None:
        self.served, self._upstream = served, upstream
        self._seconds = deadline_seconds

    def refuse_missing(self, seconds: float) -> None:
        """Raise `NoCompletion` unless the server answers and offers the model."""
        end = time.monotonic() + seconds
        offered = self._upstream.ask(MODELS, None, end=end, stopped=lambda: False)
        refuse_missing(offered, self.served)

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:  # noqa: ARG002
        """Return the server's reply; raise `NoCompletion`."""
        end = time.monotonic() + self._seconds
        asked = question(request, self.served)
        return reply(
            self._upstream.ask(COMPLETIONS, asked, end=end, stopped=stop.is_set), self.served
        )
