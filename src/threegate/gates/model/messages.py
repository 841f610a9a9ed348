"""Messages between the host and whoever serves a model to CORE.

| message | sent by | answered by |
|---|---|---|
| `Embedded` | host, first, to a model-server box | `Ready`, or `Refused` and the box is of no use |
| `Bridged` | host, first, to a bridge box | `Ready`, or `Refused` and the box is of no use |
| `Remote` | host, first, to a bridge-remote box | `Ready`, or `Refused` and the box is of no use |

After `Ready` the box serves CORE on the descriptor it was given (`chat/messages.py`).  The host
says nothing more; hanging up ends the box.  `Progress` comes as notes.

SECURITY
    Either side may be owned: the box reads a model file, or a server's answers, and what CORE
    sends.  Every field is checked when a message is built, by whoever builds it.  A box cannot
    say which model was asked for: the host compares what it serves with the policy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from threegate.base import canonical, greeting, limits, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import ANCHOR, NOT_A_KEY, SYSTEM_ANCHOR
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    need_word,
    parts_of,
)
from threegate.gates.model.chat.messages import DIGEST, MAX_CONTEXT_TOKENS, MODEL_NAME, Served

PROTOCOL: Final = "model/1"
MAX_FD: Final = 1_023
MAX_THREADS: Final = 256
MAX_DEADLINE_SECONDS: Final = 86_400
SERVER_SOCKET: Final = "/run/server.sock"  # where a server's socket lies inside the box
# Loopback, and no name: what a name means is somebody else's decision.
ENDPOINT: Final = re.compile(rf"127\.0\.0\.1:([1-9][0-9]{{1,4}})|unix:{SERVER_SOCKET}")
HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
CREDENTIAL: Final = re.compile(r"(?:Bearer )?[!-~][ -~]{6,1022}[!-~]")
MAX_REQUESTS: Final = 1_000
MAX_SENT_BYTES: Final = 2**30
PHASES: Final = ("prompt", "reply")


@dataclass(frozen=True, slots=True)
class Embedded:
    """Load the bound model file, if it is the one of this digest, and serve it."""

    listen_fd: int
    name: str
    sha256: str
    context_tokens: int
    threads: int
    deadline_seconds: int  # for one request, waiting included

    def __post_init__(self) -> None:
        _need_opening(self.listen_fd, self.name, self.context_tokens, self.deadline_seconds)
        need_word(self.sha256, DIGEST, "sha256")
        need_number(self.threads, MAX_THREADS, "threads", least=1)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "context_tokens": self.context_tokens,
            "deadline_seconds": self.deadline_seconds,
            "listen_fd": self.listen_fd,
            "name": self.name,
            "sha256": self.sha256,
            "threads": self.threads,
        }
        return wire.pack(PROTOCOL, "embedded", fields, [])


@dataclass(frozen=True, slots=True)
class Bridged:
    """Serve a model of the operator's own server, if it offers one of this name."""

    listen_fd: int
    name: str
    endpoint: str
    context_tokens: int
    deadline_seconds: int

    def __post_init__(self) -> None:
        _need_opening(self.listen_fd, self.name, self.context_tokens, self.deadline_seconds)
        need_word(self.endpoint, ENDPOINT, "endpoint")
        need((self.port or 0) < 65_536, "endpoint is malformed")

    @property
    def port(self) -> int | None:
        """The port on loopback; None for a socket."""
        match = ENDPOINT.fullmatch(self.endpoint)
        return int(match[1]) if match is not None and match[1] else None

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "context_tokens": self.context_tokens,
            "deadline_seconds": self.deadline_seconds,
            "endpoint": self.endpoint,
            "listen_fd": self.listen_fd,
            "name": self.name,
        }
        return wire.pack(PROTOCOL, "bridged", fields, [])


@dataclass(frozen=True, slots=True)
class Remote:
    """Serve a model of another machine, if it offers one of this name, through the proxy.

    `anchors` are those that may vouch for its certificate, by name, in their order; the CA file
    of each but the system's.  `header` and `credential` are the key and where it goes.
    """

    listen_fd: int
    name: str
    host: str
    context_tokens: int
    deadline_seconds: int
    requests: int  # in the life of the box, which is one question
    sent_bytes: int
    anchors: tuple[tuple[str, bytes | None], ...]
    header: str | None = None
    credential: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _need_opening(self.listen_fd, self.name, self.context_tokens, self.deadline_seconds)
        need_word(self.host, HOST, "host")
        need_number(self.requests, MAX_REQUESTS, "requests", least=1)
        need_number(self.sent_bytes, MAX_SENT_BYTES, "sent_bytes", least=1)
        need(1 <= len(self.anchors) <= limits.MAX_ANCHORS, "no anchors, or too many")
        for name, data in self.anchors:
            need_word(name, ANCHOR, "anchor")
            need((data is None) == (name == SYSTEM_ANCHOR), "an anchor without its file")
            if data is not None:
                need_bytes(data, limits.MAX_ANCHOR_BYTES, "an anchor")
        need((self.header is None) == (self.credential is None), "a key without its place")
        if self.header is not None:
            need_word(self.header, HEADER, "header")
            need(self.header.lower() not in NOT_A_KEY, "a header that is ours")
            need_word(self.credential, CREDENTIAL, "the credential")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "anchors": [name for name, _ in self.anchors],
            "context_tokens": self.context_tokens,
            "credential": self.credential,
            "deadline_seconds": self.deadline_seconds,
            "header": self.header,
            "host": self.host,
            "listen_fd": self.listen_fd,
            "name": self.name,
            "requests": self.requests,
            "sent_bytes": self.sent_bytes,
        }
        files = [data for _, data in self.anchors if data is not None]
        return wire.pack(PROTOCOL, "remote", fields, files)


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is there and CORE may ask."""

    served: Served
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        greeting.need_versions(self.versions)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "context_tokens": self.served.context_tokens,
            "name": self.served.name,
            "sha256": self.served.sha256,
            "versions": dict(self.versions),
        }
        return wire.pack(PROTOCOL, "ready", fields, [])


@dataclass(frozen=True, slots=True)
class Refused(greeting.Refused):
    """There is no such model here."""

    protocol: ClassVar[str] = PROTOCOL
    codes: ClassVar[re.Pattern[str]] = re.compile(r"TG-MDL-[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a model is with the one request it works on."""

    phase: str
    done: int
    total: int  # of a reply: the most it may have

    def __post_init__(self) -> None:
        need(self.phase in PHASES, "not a phase")
        need_number(self.done, MAX_CONTEXT_TOKENS, "done")
        need_number(self.total, MAX_CONTEXT_TOKENS, "total")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this note."""
        return canonical.encode({"done": self.done, "phase": self.phase, "total": self.total})


def parse_embedded(data: Untrusted[bytes]) -> Embedded:
    """Return the opening in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, "embedded")
    names = ("context_tokens", "deadline_seconds", "listen_fd", "name", "sha256", "threads")
    context, deadline, fd, name, sha256, threads = fields_of(packed, *names)
    return Embedded(fd, name, sha256, context, threads, deadline)


def parse_bridged(data: Untrusted[bytes]) -> Bridged:
    """Return the opening in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, "bridged")
    names = ("context_tokens", "deadline_seconds", "endpoint", "listen_fd", "name")
    context, deadline, endpoint, fd, name = fields_of(packed, *names)
    return Bridged(fd, name, endpoint, context, deadline)


def parse_remote(data: Untrusted[bytes]) -> Remote:
    """Return the opening in `data`, or raise `ProtocolBroken`."""
    most = limits.MAX_RETRIEVE_OPENING_BYTES
    packed = wire.unpack_due(data, "remote", protocol=PROTOCOL, most_bytes=most)
    names = ("anchors", "context_tokens", "credential", "deadline_seconds", "header", "host")
    more = ("listen_fd", "name", "requests", "sent_bytes")
    values = dict(zip((*names, *more), fields_of(packed, *names, *more), strict=True))
    listed, files = values["anchors"], list(packed.parts)
    need(type(listed) is list, "anchors are not a list")
    need(len(files) == sum(name != SYSTEM_ANCHOR for name in listed), "other files than anchors")
    anchors = tuple((name, None if name == SYSTEM_ANCHOR else files.pop(0)) for name in listed)
    return Remote(**{**values, "anchors": anchors})


def parse_greeting(data: Untrusted[bytes]) -> Ready | Refused:
    """Return the answer to an opening in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, "ready", "refused")
    if packed.kind == "refused":
        code, message = fields_of(packed, "code", "message")
        return Refused(code, message)
    context, name, sha256, versions = fields_of(
        packed, "context_tokens", "name", "sha256", "versions"
    )
    return Ready(Served(name, sha256, context), versions)


def parse_progress(data: Untrusted[bytes]) -> Progress:
    """Return the note in `data`, or raise `ProtocolBroken`."""
    try:
        value: Any = canonical.decode(data.open_for_validation())
    except ValueError as exc:
        raise ProtocolBroken("not canonical JSON") from exc
    need(type(value) is dict and tuple(value) == ("done", "phase", "total"), "not a note")
    return Progress(value["phase"], value["done"], value["total"])


def _unpacked(data: Untrusted[bytes], *kinds: str) -> Packed:
    most = limits.MAX_HEADER_BYTES
    packed = wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most)
    parts_of(packed, 0)
    return packed


def _need_opening(fd: object, name: object, context: object, deadline: object) -> None:
    need_number(fd, MAX_FD, "listen_fd", least=4)
    need_word(name, MODEL_NAME, "name")
    need_number(context, MAX_CONTEXT_TOKENS, "context_tokens", least=1)
    need_number(deadline, MAX_DEADLINE_SECONDS, "deadline_seconds", least=1)
