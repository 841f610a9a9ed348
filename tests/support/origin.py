"""What stands on the test internet: sites by name, and what they answer.

A world is a function without arguments that returns `Sites`; it runs in the process of the
far side.  A handler gets one request and the TLS socket it came on.  It returns a `Response`,
which is sent and keeps the connection open, or writes whatever it likes to the socket itself
and returns None, which closes it.
"""

import importlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

GATEWAY, HERE = "45.1.1.1", "45.1.1.2"  # both ends of the cable; the name server is at its far end
ORIGIN, OTHER, INSIDE = "104.18.0.1", "104.18.0.2", "10.9.9.9"

Certificate = Literal["good", "self-signed", "wrong-name", "expired", "other-ca"]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and which one for this very URL it is, counted from 0."""

    name: str  # of the hello; empty when it had none
    method: str
    target: str
    headers: Pairs  # names in lower case, in the order they came
    number: int = 0
    body: bytes = b""

    @property
    def line(self) -> str:
        return f"{self.method} {self.target} HTTP/1.1"

    @property
    def host(self) -> str:
        return (self.header("host") or self.name).partition(":")[0]

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        """The query, decoded; the first of each name."""
        found = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Response:
    """An ordinary answer."""

    body: bytes = b""
    media_type: str | None = "application/json"
    status: int = 200
    headers: Pairs = ()

    def to_bytes(self, *, head_only: bool = False) -> bytes:
        body = b"" if self.status == 304 or head_only else self.body
        lines = [f"HTTP/1.1 {self.status} Said"]
        if self.status != 304:
            lines.append(f"Content-Length: {len(self.body)}")
        if self.media_type is not None:
            lines.append(f"Content-Type: {self.media_type}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


Handler = Callable[[Request, ssl.SSLSocket], Response | None]


def nothing_here(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(b"not here", "text/plain", 404)


@dataclass(frozen=True, slots=True)
class Site:
    """A name: where it leads, who answers there."""

    handler: Handler = nothing_here
    # What each question for its IPv4 addresses is answered with; the last one stays.
    turns: tuple[tuple[str, ...], ...] = ((ORIGIN,),)
    certificate: Certificate = "good"
    truncated: bool = False  # too long for a datagram, says its name server


Sites = Mapping[str, Site]


def sites_of(world: str) -> Sites:
    """Return the sites of a world, named `module:function`."""
    module, _, function = world.partition(":")
    sites: Sites = getattr(importlib.import_module(module), function)()
    return sites


def addresses_of(sites: Sites) -> list[str]:
    """Return every address of the far side."""
    found = {text for site in sites.values() for turn in site.turns for text in turn}
    return sorted(found - {HERE, GATEWAY})
