"""Addresses that are nobody's on the public internet, and which no policy can allow.

The table is IANA's special-purpose registries, with what they leave out: multicast, addresses
that carry an IPv4 address, and public addresses that clouds use for their own machinery.
In IPv6 only 2000::/3 is handed out at all, so the rest is refused whatever it is called.
The proxy judges by it, and the configuration of Squid and of the firewall is made from it.
"""

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Final

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
    ("192.31.196.0/24", "AS112"),  # RFC 7535: answered by whoever is nearest
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
    ("2002::/16", "6to4"),  # RFC 3056, whatever IPv4 address is in it
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

    ISATAP is not among them: it stands in the middle of an address, where no prefix reaches.
    """
    named = [network for network, _ in SPECIAL_V6 if isinstance(network, IPv6Network)]
    unassigned = IPv6Network("::/0").address_exclude(GLOBAL_UNICAST)
    return tuple(collapse_addresses([*named, *unassigned]))
