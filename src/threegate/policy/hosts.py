"""Host names, patterns of them, and the URLs that may be asked for.

SECURITY
    Reads URLs written by CORE, which reads hostile text, and by web servers in redirects.
    Accepts one spelling: whatever two parsers could read as two hosts is refused, not
    normalised.  If this module is wrong, a request leaves for a host nobody allowed; the
    proxy still resolves the name itself and refuses addresses that are not public.
"""

import re
from dataclasses import dataclass
from typing import Final

from threegate.base.limits import MAX_URL_CHARS
from threegate.base.text import FORBIDDEN
from threegate.policy.limits import MAX_HOST_CHARS, MAX_LABEL_CHARS
from threegate.policy.suffixes import NEVER_PUBLIC, SHARED_SUFFIXES

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
_TOP: Final = re.compile(r"(?:[a-z]{2,63}|xn--[a-z0-9-]*[a-z0-9])\Z")
_URL: Final = re.compile(
    r"https://(?P<host>[a-z0-9.-]+)(?P<port>:443)?"
    r"(?P<path>(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*)"
    r"(?:\?(?P<query>(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*))?\Z"
)
_HIDDEN: Final = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")  # NUL, line breaks, DEL
_DOTS: Final = re.compile(r"/(?:\.|%2[Ee]){1,2}(?:/|\Z)")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL this program would ask for."""

    text: str
    host: str
    path: str
    query: str | None

    @property
    def plain(self) -> str:
        """Return the URL as it is reported: without its port, which is 443, and with a path."""
        query = "" if self.query is None else f"?{self.query}"
        return f"https://{self.host}{self.path}{query}"


def parse_url(text: str) -> Url:
    """Return the URL spelled by `text`, or raise ValueError saying what is wrong with it."""
    if len(text) > MAX_URL_CHARS:
        raise ValueError(f"longer than {MAX_URL_CHARS} characters")
    found = _URL.match(text)
    if found is None:
        raise ValueError(_what_is_wrong(text))
    host, path, query = found["host"], found["path"], found["query"]
    check_host(host)
    if query is not None and not path:
        raise ValueError("a query without a path")
    if _HIDDEN.search(text):
        raise ValueError("an encoded control character")
    if _DOTS.search(path):
        raise ValueError("a path with . or .. in it")
    return Url(text, host, path or "/", query)


def _what_is_wrong(text: str) -> str:
    if not text.startswith("https://"):
        return "not an https:// URL"
    authority = re.split(r"[/?#\\]", text[8:], maxsplit=1)[0]
    if "@" in authority:
        return "user information before the host"
    if "[" in authority:
        return "an address instead of a name"
    if ":" in authority.removesuffix(":443"):
        return "a port other than 443"
    if re.fullmatch(r"[a-z0-9.-]+(?::443)?", authority) is None:
        return "a host that is not lower-case letters, digits, hyphens and dots"
    return "a fragment" if "#" in text else "a character that needs percent-encoding"


def check_host(name: str) -> None:
    """Raise ValueError unless `name` is one fully spelled public host name."""
    labels = name.split(".")
    if len(name) > MAX_HOST_CHARS:
        raise ValueError(f"a host of more than {MAX_HOST_CHARS} characters")
    if len(labels) < 2:
        raise ValueError("a host without a domain")
    for label in labels:
        _check_label(label)
    # `127.1`, `0x7f.1` and `1.2.3.4` are names to us and addresses to a resolver.
    if _TOP.match(labels[-1]) is None:
        raise ValueError("a host that could be read as an address")
    if labels[-1] in NEVER_PUBLIC:
        raise ValueError(f"a name under .{labels[-1]} is never public")


def _check_label(label: str) -> None:
    if not label:
        raise ValueError("a host with an empty label or a trailing dot")
    if len(label) > MAX_LABEL_CHARS or _LABEL.match(label) is None:
        raise ValueError("a host that is not lower-case letters, digits, hyphens and dots")
    if label[2:4] == "--":
        _check_a_label(label)


def _check_a_label(label: str) -> None:
    """Refuse what only looks like an internationalised label (RFC 5890, section 2.3.1)."""
    try:
        decoded = label[4:].encode("ascii").decode("punycode")
        again = decoded.encode("punycode").decode("ascii")
    except (UnicodeError, ValueError, IndexError, OverflowError) as exc:
        raise ValueError("a host label that is not valid Punycode") from exc
    genuine = again == label[4:] and not decoded.isascii() and decoded == decoded.lower()
    if not label.startswith("xn--") or not genuine or FORBIDDEN.search(decoded):
        raise ValueError("a host label that is not valid Punycode")


def check_pattern(pattern: str) -> None:
    """Raise ValueError unless `pattern` is a host, or `*.` and a host people share with nobody."""
    base = pattern.removeprefix("*.")
    check_host(base)
    if base in SHARED_SUFFIXES:
        raise ValueError("a public suffix, under which anybody may register")


def matches(pattern: str, host: str) -> bool:
    """Tell whether `pattern` covers `host`; `*` stands for exactly one label, as in TLS."""
    if pattern.startswith("*."):
        return host.partition(".")[2] == pattern[2:]
    return host == pattern
