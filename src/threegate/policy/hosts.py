"""Host names, patterns of them, and the URLs that may be asked for.

SECURITY
    Reads URLs written by CORE, which reads hostile text, and by web servers in redirects.
    Accepts one spelling: anything that two parsers could read as two hosts is refused, not
    normalised.  If this module is wrong, a request leaves for a host nobody allowed; the
    proxy still resolves the name itself and refuses addresses that are not public.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Final

from threegate.base.limits import MAX_URL_CHARS
from threegate.base.text import FORBIDDEN
from threegate.policy.limits import MAX_HOST_CHARS, MAX_LABEL_CHARS

# Domains under which anybody can register a name: a wildcard over one of them allows everybody.
#
# A short list of well-known ones, not the Public Suffix List, which has ten thousand entries and
# changes weekly. It catches slips; the signer of the policy still reviews each wildcard. The
# grammar refuses a single label (`*.com`).

# Names that resolve to something near the machine, or to nothing (RFC 6761, 6762, 7686, 9476).
NEVER_PUBLIC: Final = frozenset(
    {"alt", "arpa", "internal", "invalid", "local", "localhost", "onion"}
)

_SECOND_LEVEL: Final = {
    "ar": "com edu gob gov net org",
    "au": "asn com edu gov id net org",
    "br": "com edu gov net org",
    "cn": "ac com edu gov net org",
    "co": "com edu gov net org",
    "hk": "com edu gov net org",
    "id": "ac co go or web",
    "il": "ac co gov net org",
    "in": "ac co edu gov net nic org res",
    "jp": "ac ad co ed go gr lg ne or",
    "ke": "ac co go ne or",
    "kr": "ac co go ne or re",
    "mx": "com edu gob net org",
    "my": "com edu gov net org",
    "ng": "com edu gov net org",
    "nz": "ac co geek govt net org school",
    "pk": "com edu gov net org",
    "pl": "com edu gov net org",
    "sg": "com edu gov net org",
    "th": "ac co go in or",
    "tr": "com edu gov net org",
    "tw": "com edu gov net org",
    "ua": "com edu gov net org",
    "uk": "ac co gov ltd me net nhs org plc police sch",
    "vn": "ac com edu gov net org",
    "za": "ac co gov net org web",
}
_HOSTING: Final = (
    "amazonaws.com amplifyapp.com appspot.com azureedge.net azurefd.net azurewebsites.net "
    "blogspot.com cloudapp.net cloudfront.net codeberg.page deno.dev duckdns.org "
    "dyndns.org fastly.net firebaseapp.com fly.dev github.io githubusercontent.com gitlab.io "
    "glitch.me googleapis.com googleusercontent.com herokuapp.com hf.space hopto.org "
    "myshopify.com netlify.app ngrok.app ngrok.io no-ip.org onrender.com pages.dev "
    "r2.dev readthedocs.io render.com replit.app repl.co run.app sharepoint.com "
    "streamlit.app surge.sh trycloudflare.com vercel.app web.app windows.net "
    "wordpress.com workers.dev"
)

SHARED_SUFFIXES: Final = frozenset(
    [f"{second}.{top}" for top, names in _SECOND_LEVEL.items() for second in names.split()]
    + _HOSTING.split()
)


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
    """A URL that this program may request."""

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


# Addresses that are not public, which no policy can allow.
#
# The table holds IANA's special-purpose registries plus what they leave out: multicast, addresses
# that embed an IPv4 address, and public addresses that clouds use internally. IPv6 assigns only
# 2000::/3, so everything else is refused. The proxy uses this table; Squid's and the firewall's
# configuration are generated from it.

_Rows = tuple[tuple[IPv4Network | IPv6Network, str], ...]


def _rows(*rows: tuple[str, str]) -> _Rows:
    return tuple((ip_network(prefix), reason) for prefix, reason in rows)


# The first row that holds gives the reason, so the narrow ones stand first.
SPECIAL_V4: Final = _rows(
    ("169.254.169.254/32", "cloud metadata"),
    ("169.254.170.2/32", "cloud metadata"),  # credentials of AWS container tasks
    ("100.100.100.200/32", "cloud metadata"),  # Alibaba, in shared space
    ("192.0.0.192/32", "cloud metadata"),  # Oracle, in protocol space
    ("168.63.129.16/32", "cloud metadata"),  # Azure's wire server: public by its number alone
    ("0.0.0.0/8", "this network"),  # RFC 791: Linux takes 0.0.0.0 for loopback
    ("10.0.0.0/8", "private"),  # RFC 1918
    ("100.64.0.0/10", "carrier-grade NAT"),  # RFC 6598
    ("127.0.0.0/8", "loopback"),  # RFC 1122
    ("169.254.0.0/16", "link-local"),  # RFC 3927
    ("172.16.0.0/12", "private"),  # RFC 1918
    ("192.0.0.0/24", "protocol assignments"),  # RFC 6890
    ("192.0.2.0/24", "documentation"),  # RFC 5737
    ("192.31.196.0/24", "AS112"),  # RFC 7535: answered by the nearest server
    ("192.52.193.0/24", "AMT"),  # RFC 7450: multicast relays
    ("192.88.99.0/24", "6to4 relay"),  # RFC 7526
    ("192.168.0.0/16", "private"),  # RFC 1918
    ("192.175.48.0/24", "AS112"),  # RFC 7534
    ("198.18.0.0/15", "benchmarking"),  # RFC 2544
    ("198.51.100.0/24", "documentation"),  # RFC 5737
    ("203.0.113.0/24", "documentation"),  # RFC 5737
    ("224.0.0.0/4", "multicast"),  # RFC 5771
    ("255.255.255.255/32", "broadcast"),  # RFC 919
    ("240.0.0.0/4", "reserved"),  # RFC 1112
)
SPECIAL_V6: Final = _rows(
    ("fd00:ec2::254/128", "cloud metadata"),  # AWS
    ("fd00:ec2::23/128", "cloud metadata"),  # AWS, identities of pods
    ("fd20:ce::254/128", "cloud metadata"),  # Google
    ("::/128", "this network"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),  # RFC 4291: a socket dials the IPv4 address in it
    ("::ffff:0:0:0/96", "IPv4-translated"),  # RFC 2765
    ("::/96", "IPv4-compatible"),  # RFC 4291, deprecated
    ("64:ff9b::/96", "NAT64"),  # RFC 6052
    ("64:ff9b:1::/48", "NAT64"),  # RFC 8215: any network's own, at any length
    ("100::/64", "discard"),  # RFC 6666
    ("100:0:0:1::/64", "dummy"),  # RFC 9780
    ("2001::/32", "Teredo"),  # RFC 4380
    ("2001:2::/48", "benchmarking"),  # RFC 5180
    ("2001:10::/28", "ORCHID"),  # RFC 4843
    ("2001:20::/28", "ORCHID"),  # RFC 7343
    ("2001:30::/28", "drone identities"),  # RFC 9374
    ("2001::/23", "protocol assignments"),  # RFC 2928, with anycast helpers, AMT and AS112
    ("2001:db8::/32", "documentation"),  # RFC 3849
    ("2002::/16", "6to4"),  # RFC 3056, with any IPv4 address in it
    ("2620:4f:8000::/48", "AS112"),  # RFC 7534
    ("3ffe::/16", "returned"),  # RFC 3701: the 6bone, of nobody since 2006
    ("3fff::/20", "documentation"),  # RFC 9637
    ("5f00::/16", "segment routing"),  # RFC 9602
    ("fc00::/7", "private"),  # RFC 4193
    ("fe80::/10", "link-local"),  # RFC 4291
    ("fec0::/10", "site-local"),  # RFC 3879, deprecated, and still routed by some
    ("ff00::/8", "multicast"),  # RFC 4291
)
GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # the only space IANA hands out
# ISATAP (RFC 5214): the lower half of an address says which IPv4 address the packet goes to.
ISATAP: Final = (0x00005EFE, 0x02005EFE)


def refused_v4() -> tuple[IPv4Network, ...]:
    """Return the fewest networks that hold every IPv4 address of the table."""
    found = (network for network, _ in SPECIAL_V4)
    return tuple(collapse_addresses(n for n in found if isinstance(n, IPv4Network)))


def refused_v6() -> tuple[IPv6Network, ...]:
    """Return the fewest networks that hold every IPv6 address of the table and of no registry.

    ISATAP is not among them: it is in the middle of an address, where no prefix reaches.
    """
    named = [network for network, _ in SPECIAL_V6 if isinstance(network, IPv6Network)]
    unassigned = IPv6Network("::/0").address_exclude(GLOBAL_UNICAST)
    return tuple(collapse_addresses([*named, *unassigned]))
