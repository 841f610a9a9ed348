"""URLs that three parsers read alike, and where a redirect leads.

SECURITY
    Reads URLs that the host was asked for and `Location` headers of web servers.  Our own
    grammar decides; a parser that browsers use (ada) and Python's must find the same host,
    path and query in it, or the URL is refused.  If this module is wrong, the request goes
    elsewhere than whoever looked at the URL believed; the proxy still has its own list.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

from ada_url import URL

from threegate.policy.hosts import Url, parse_url

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# As RFC 3986 has them; whatever else stands in a Location needs a guess.
_LOCATION: Final = re.compile(r"[!#$%&'()*+,./0-9:;=?@A-Z_a-z~-]+\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """A URL that may be asked for if its host may; `text` is its one spelling."""

    host: str
    target: str  # path and query, as they are sent

    @property
    def text(self) -> str:
        """Return the URL without its port: 443 is the only one."""
        return f"https://{self.host}{self.target}"


def check_url(text: str) -> Address:
    """Return the address that all parsers find in `text`, or raise ValueError saying why not."""
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
    # In a query, browsers write this one character of our grammar as an escape.
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
    """Return where a redirect from `base` leads, or raise ValueError saying what is wrong with it.

    A fragment is dropped: it is for browsers, and never sent.
    """
    if not location.isascii() or _LOCATION.match(location) is None:
        raise ValueError("a character that needs percent-encoding")
    # `https:x` names a host for some and a path for others.
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
