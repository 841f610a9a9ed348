"""Hops: URLs that three parsers read alike, redirects, and the request of each hop.

SECURITY
    Reads URLs that the host was asked for and `Location` headers of web servers, and builds
    everything that leaves the machine.  Our own grammar decides about a URL; ada, the parser of
    browsers, and Python's parser must find the same host, path and query, or the URL is
    refused.  If this is wrong, a request goes to another place than the reviewer of the URL
    believed; the proxy still has its own list.  A credential is in the request of the first
    hop and nowhere else; the URL that is reported has `REDACTED` in its place.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from ada_url import URL

from threegate import __version__
from threegate.base.forms import REDACTED
from threegate.gates.fetch.retrieve.messages import FetchQuestion
from threegate.gates.fetch.retrieve.rules import HostRule
from threegate.gates.http_library.client import Exchange, Failure, NotRetrieved
from threegate.policy.hosts import Url, parse_url

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# The characters of RFC 3986; any other in a Location would need a guess.
_LOCATION: Final = re.compile(r"[!#$%&'()*+,./0-9:;=?@A-Z_a-z~-]+\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """A URL in its one spelling; whether its host may be asked is decided elsewhere."""

    host: str
    target: str  # path and query, as they are sent

    @property
    def text(self) -> str:
        """Return the URL without its port: 443 is the only one."""
        return f"https://{self.host}{self.target}"


def check_url(text: str) -> Address:
    """Return the address that all parsers find in `text`, or raise ValueError with the reason."""
    url = parse_url(text)
    if not (_browsers_agree(url) and _python_agrees(url)):
        raise ValueError("a URL that two parsers read differently")
    target = url.path if url.query is None else f"{url.path}?{url.query}"
    return Address(url.host, target)


def _browsers_agree(url: Url) -> bool:
    try:
        found = URL(url.text)
    except ValueError:
        return False
    # In a query, browsers escape this one character of our grammar.
    search = f"?{url.query}".replace("'", "%27") if url.query else ""
    more = found.username or found.password or found.port or found.hash
    read = (found.protocol, found.hostname, found.pathname, found.search)
    return not more and read == ("https:", url.host, url.path, search)


def _python_agrees(url: Url) -> bool:
    try:
        found = urlsplit(url.text)
        port = found.port
    except ValueError:
        return False
    more = found.username or found.password or found.fragment
    read = (found.scheme, found.hostname, found.path or "/", found.query)
    wanted = ("https", url.host, url.path, url.query or "")
    return not more and port in (None, 443) and read == wanted


def follow(base: Address, location: str) -> Address:
    """Return the target of a redirect from `base`, or raise ValueError with the reason.

    A fragment is dropped: it is for browsers, and never sent.
    """
    if not location.isascii() or _LOCATION.match(location) is None:
        raise ValueError("a character that needs percent-encoding")
    # In `https:x`, some parsers find a host and others a path.
    if _SCHEME.match(location) and not location.startswith("https://"):
        raise ValueError("not an https:// URL")
    plain = location.partition("#")[0]
    try:
        by_browsers = URL(plain, base.text).href
    except ValueError as exc:
        raise ValueError("no URL") from exc
    joined = urljoin(base.text, plain)
    found = check_url(joined)
    if URL(joined).href != by_browsers:
        raise ValueError("a URL that two parsers read differently")
    return found


# Requests.

# Headers that we send ourselves, or that would change the connection.
_OURS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "cookie", "expect", "host"}
    | {"if-modified-since", "if-none-match", "proxy-authorization", "range", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent", "via"}
)


@dataclass(frozen=True, slots=True)
class HopRequest:
    """One request: its address, the URL that is reported, and further headers."""

    address: Address = field(repr=False)
    shown: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def conditional(self) -> bool:
        """True if the server may answer 304."""
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
    """Return the value of `User-Agent`."""
    product = f"ThreeGate/{__version__}"
    return product if contact is None else f"{product} (mailto:{contact})"


def first_hop(ask: FetchQuestion, address: Address, rule: HostRule) -> HopRequest:
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
    except ValueError as exc:  # without the text, which contains the credential
        message = "the URL may not be asked for with the credential in it"
        raise NotRetrieved(Failure.URL, message) from exc


def next_hop(ask: FetchQuestion, address: Address) -> HopRequest:
    """Return the request after a redirect: no credential, no condition."""
    return HopRequest(address, address.text, _always(ask))


def _always(ask: FetchQuestion) -> tuple[tuple[str, str], ...]:
    """Return the headers of every hop: the types we read, and the part we want."""
    accept = ("Accept", ask.accept)
    if ask.first_byte is None:
        return (accept,)
    last = ask.first_byte + ask.most_bytes - 1
    return accept, ("Range", f"bytes={ask.first_byte}-{last}")
