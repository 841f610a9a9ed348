"""Messages between the host and a sandbox that serves a model to CORE.

After `ModelReady` the sandbox serves CORE on the descriptor it was given (`chat/messages.py`).  The
host says nothing more; hanging up ends the sandbox.

SECURITY
    Either side may be compromised: the sandbox reads a model file, or the answers of a server, and
    the requests of CORE.  It cannot choose the model: the host compares what it serves with the
    policy.
"""

from collections.abc import Mapping
from typing import Final

from threegate.base.forms import ANCHOR, DESCRIPTOR, DIGEST, NOT_A_KEY, SYSTEM_ANCHOR
from threegate.base.greeting import GateReady, Greeting
from threegate.base.limits import MAX_ANCHOR_BYTES, MAX_ANCHORS
from threegate.base.message_parts import NamedParts
from threegate.base.messages import (
    FlatMessage,
    FlatParser,
    Message,
    flat_message,
    head,
    message,
    parser_of,
    part,
    record,
)
from threegate.base.schema import Choice, Integer, ListOf, Nullable, Pattern
from threegate.base.wire import need
from threegate.gates.model.chat.messages import MAX_CONTEXT_TOKENS, MODEL_NAME, Served

PROTOCOL: Final = "model/1"
MAX_THREADS: Final = 256
MAX_DEADLINE_SECONDS: Final = 86_400
MAX_REQUESTS: Final = 1_000
MAX_SENT_BYTES: Final = 2**30
SERVER_SOCKET: Final = "/run/server.sock"  # where a server's socket lies inside the sandbox

# Loopback, and no name: what a name means is somebody else's decision.
ENDPOINT: Final = Pattern(
    rf"127\.0\.0\.1:[1-9][0-9]{{1,4}}|unix:{SERVER_SOCKET}", "a port of loopback, or the socket"
)
HOST: Final = Pattern(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", "a host name in lower case")
HEADER: Final = Pattern(r"[A-Za-z][A-Za-z0-9_-]{0,63}", "the name of a header")
CREDENTIAL: Final = Pattern(r"(?:Bearer )?[!-~][ -~]{6,1022}[!-~]", "a credential", most=1_031)
TOKENS: Final = Integer(0, MAX_CONTEXT_TOKENS)

_DESCRIPTOR: Final = "the listening socket that CORE connects to"
_NAME: Final = "the model, as policy calls it"
_CONTEXT: Final = "size of the context window"
_DEADLINE: Final = "for one request, waiting included"
_ANSWER: Final = "`ModelReady` or `Refused`"


@message(PROTOCOL, "embedded", sender="host, first, to model-server", answer=_ANSWER)
class Embedded(Message):
    """Load the bound model file, if it is the one of this digest, and serve it."""

    listen_fd: int = head(DESCRIPTOR, _DESCRIPTOR)
    name: str = head(MODEL_NAME, _NAME)
    sha256: str = head(DIGEST, "digest of the model file")
    context_tokens: int = head(Integer(1, MAX_CONTEXT_TOKENS), _CONTEXT)
    threads: int = head(Integer(1, MAX_THREADS), "how many compute")
    deadline_seconds: int = head(Integer(1, MAX_DEADLINE_SECONDS), _DEADLINE)


@message(PROTOCOL, "bridged", sender="host, first, to bridge", answer=_ANSWER)
class Bridged(Message):
    """Serve a model of the operator's own server, if it offers one of this name."""

    listen_fd: int = head(DESCRIPTOR, _DESCRIPTOR)
    name: str = head(MODEL_NAME, _NAME)
    endpoint: str = head(ENDPOINT, "where the server listens")
    context_tokens: int = head(Integer(1, MAX_CONTEXT_TOKENS), _CONTEXT)
    deadline_seconds: int = head(Integer(1, MAX_DEADLINE_SECONDS), _DEADLINE)

    def check(self) -> None:
        need((self.port or 0) < 65_536, "endpoint is not a port")

    @property
    def port(self) -> int | None:
        """The port on loopback; None for a socket."""
        host, _, port = self.endpoint.rpartition(":")
        return None if host == "unix" else int(port)


@message(PROTOCOL, "remote", sender="host, first, to bridge-remote", answer=_ANSWER)
class Remote(Message):
    """Serve a model of another machine, if it offers one of this name, through the proxy."""

    listen_fd: int = head(DESCRIPTOR, _DESCRIPTOR)
    name: str = head(MODEL_NAME, _NAME)
    host: str = head(HOST, "the machine that policy names")
    context_tokens: int = head(Integer(1, MAX_CONTEXT_TOKENS), _CONTEXT)
    deadline_seconds: int = head(Integer(1, MAX_DEADLINE_SECONDS), _DEADLINE)
    requests: int = head(Integer(1, MAX_REQUESTS), "in the life of the sandbox: one question")
    sent_bytes: int = head(Integer(1, MAX_SENT_BYTES), "in the life of the sandbox")
    anchors: tuple[tuple[str, bytes | None], ...] = part(
        NamedParts(ListOf(ANCHOR, MAX_ANCHORS, least=1), MAX_ANCHOR_BYTES, without=SYSTEM_ANCHOR),
        "what may vouch for its certificate, and the CA files",
    )
    header: str | None = head(Nullable(HEADER), "where the key goes", default=None)
    credential: str | None = head(Nullable(CREDENTIAL), "the key", default=None, secret=True)

    def check(self) -> None:
        need((self.header is None) == (self.credential is None), "a key without its place")
        ours = self.header is not None and self.header.lower() in NOT_A_KEY
        need(not ours, "a header that a request needs for itself")


@record
class ModelReady(GateReady):
    """The model is there and CORE may ask."""

    context_tokens: int = head(Integer(1, MAX_CONTEXT_TOKENS), _CONTEXT)
    name: str = head(MODEL_NAME, "the model that is served")
    sha256: str | None = head(Nullable(DIGEST), "of its file; null for a server of others")

    @property
    def served(self) -> Served:
        """The model that is served."""
        return Served(self.name, self.sha256, self.context_tokens)


def ready(served: Served, versions: Mapping[str, str]) -> ModelReady:
    """Return the greeting of a sandbox that serves this model."""
    return ModelReady(PROTOCOL, versions, served.context_tokens, served.name, served.sha256)


GREETING: Final = Greeting(PROTOCOL, ModelReady, "TG-MDL-")


@flat_message(PROTOCOL, "progress", sender="sandbox, as notes")
class ModelProgress(FlatMessage):
    """How far a model is with the one request it works on."""

    phase: str = head(Choice("prompt", "reply"), "what it is at")
    done: int = head(TOKENS, "tokens done")
    total: int = head(TOKENS, "of how many; of a reply: the most it may have")


parse_embedded: Final = parser_of(Embedded)
parse_bridged: Final = parser_of(Bridged)
parse_remote: Final = parser_of(Remote)
parse_progress: Final = FlatParser(ModelProgress)
