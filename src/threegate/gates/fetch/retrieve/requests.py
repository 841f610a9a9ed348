"""The one request retrieve makes of a server, and where a credential goes in it.

SECURITY
    Builds what leaves the machine.  A credential is in the first hop's request and in nothing
    else; the URL that is reported has `REDACTED` where it stood.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from threegate import __version__
from threegate.base.forms import REDACTED
from threegate.gates.fetch.retrieve.messages import Ask
from threegate.gates.fetch.retrieve.rules import HostRule
from threegate.gates.fetch.retrieve.urls import Address, check_url
from threegate.gates.http_library.client import Exchange, Failure, NotRetrieved

# Headers that are ours, or that would change what the connection is.
_OURS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "cookie", "expect", "host"}
    | {"if-modified-since", "if-none-match", "proxy-authorization", "range", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent", "via"}
)


@dataclass(frozen=True, slots=True)
class HopRequest:
    """One request: where it goes, how that is reported, and what it says besides."""

    address: Address = field(repr=False)
    shown: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def conditional(self) -> bool:
        """Tell whether the server may answer that nothing has changed."""
        return any(name.startswith("If-") for name, _ in self.headers)

    def exchange(self, *, contact: str | None, absolute: bool, max_head_bytes: int) -> Exchange:
        """Return the request; `absolute` names the whole URL, for a gateway."""
        address = self.address
        target = address.text if absolute else address.target
        headers = [
            ("Host", address.host),
            ("User-Agent", identification(contact)),
            *self.headers,
            ("Accept-Encoding", "identity"),
        ]
        return Exchange("GET", target, headers, max_head_bytes=max_head_bytes)


def identification(contact: str | None) -> str:
    """Return who asks."""
    product = f"ThreeGate/{__version__}"
    return product if contact is None else f"{product} (mailto:{contact})"


def first_hop(ask: Ask, address: Address, rule: HostRule) -> HopRequest:
    """Return the request for the URL that was asked for; raise `NotRetrieved`."""
    headers = list(_always(ask))
    if ask.etag is not None:
        headers.append(("If-None-Match", ask.etag))
    if ask.last_modified is not None:
        headers.append(("If-Modified-Since", ask.last_modified))
    if ask.credential is None:
        return HopRequest(address, address.text, tuple(headers))
    if rule.credential is None:
        raise NotRetrieved(Failure.CREDENTIAL, f"policy has no credential for {address.host}")
    place, name = rule.credential
    if place == "query":
        return HopRequest(
            _with_query(address, name, ask.credential),
            _with_query(address, name, REDACTED).text,
            tuple(headers),
        )
    if name.lower() in _OURS:
        raise NotRetrieved(Failure.CREDENTIAL, f"a credential cannot be the header {name}")
    return HopRequest(address, address.text, (*headers, (name, ask.credential)))


def _with_query(address: Address, name: str, value: str) -> Address:
    mark = "&" if "?" in address.target else "?"
    try:
        return check_url(f"{address.text}{mark}{name}={quote(value, safe='')}")
    except ValueError as exc:  # without the text: it holds the credential
        message = "the URL is not one that may be asked for once the credential stands in it"
        raise NotRetrieved(Failure.URL, message) from exc


def next_hop(ask: Ask, address: Address) -> HopRequest:
    """Return the request after a redirect: no credential, no condition."""
    return HopRequest(address, address.text, _always(ask))


def _always(ask: Ask) -> tuple[tuple[str, str], ...]:
    """Return what every hop is told: what we read, and which part of it we want."""
    accept = ("Accept", ask.accept)
    if ask.first_byte is None:
        return (accept,)
    last = ask.first_byte + ask.most_bytes - 1
    return accept, ("Range", f"bytes={ask.first_byte}-{last}")
