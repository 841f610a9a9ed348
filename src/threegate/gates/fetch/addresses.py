"""Which addresses the proxy may dial: public unicast, and nothing that leads back inside.

The table is `policy.ranges`; here are the machine's own addresses, and those in which an IPv4
address is hidden by a prefix that only this network knows.

SECURITY
    Judges addresses that came out of a name server's answer, which the owner of a name, or
    anybody on the way, may choose.  If this module is wrong, FETCH reaches the operator's
    own network under an allowlisted name.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from threegate.policy.hosts import GLOBAL_UNICAST, ISATAP, SPECIAL_V4, SPECIAL_V6

Address = IPv4Address | IPv6Address
# RFC 6052: where the IPv4 address stands in a NAT64 address, by the length of the prefix;
# byte 8 is always zero and skipped.
NAT64_LENGTHS: Final = (32, 40, 48, 56, 64, 96)
# RFC 7050: `ipv4only.arpa` has these two IPv4 addresses and no IPv6 ones; whoever answers
# with IPv6 addresses has made them with the NAT64 prefix of this network.
NAT64_PROBE: Final = "ipv4only.arpa"
_NAT64_KNOWN: Final = (IPv4Address("192.0.0.170"), IPv4Address("192.0.0.171"))


def refusal(
    address: str | bytes, own: Collection[Address], *, nat64: Collection[IPv6Network] = ()
) -> str | None:
    """Return why `address` (text, or 4 or 16 bytes) may not be dialled, or None if it may.

    `own` are the addresses of this machine, `nat64` the prefixes by which its network
    carries IPv4 in IPv6 besides those that everybody uses.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an address"
    if parsed in own:
        return "this machine"
    found = _special_v4(parsed) if isinstance(parsed, IPv4Address) else _special_v6(parsed, nat64)
    if found is None and not parsed.is_global:
        return "not global"  # a range our table does not know and the library does
    return found


def _special_v4(address: IPv4Address) -> str | None:
    return next((reason for network, reason in SPECIAL_V4 if address in network), None)


def _special_v6(address: IPv6Address, nat64: Collection[IPv6Network]) -> str | None:
    if address.scope_id is not None:
        return "an interface in the address"
    named = next((reason for network, reason in SPECIAL_V6 if address in network), None)
    if named is not None:
        return named
    if any(address in network for network in nat64):
        return "NAT64"
    if address not in GLOBAL_UNICAST:
        return "not handed out"
    return "ISATAP" if (int(address) >> 32) & 0xFFFFFFFF in ISATAP else None


def ipv4_inside(address: IPv6Address, length: int) -> IPv4Address | None:
    """Return the IPv4 address in a NAT64 address with a prefix of `length` bits (RFC 6052)."""
    packed = address.packed
    if length == 96:  # the one form in which nothing stands around it
        return IPv4Address(packed[12:])
    start = length // 8
    without = packed[:8] + packed[9:]
    if packed[8] or any(without[start + 4 :]):
        return None
    return IPv4Address(without[start : start + 4])


def nat64_prefix(answer: IPv6Address) -> IPv6Network | None:
    """Return the NAT64 prefix an answer for `NAT64_PROBE` was made with, if it was."""
    for length in NAT64_LENGTHS:
        if ipv4_inside(answer, length) in _NAT64_KNOWN:
            return IPv6Network((answer, length), strict=False)
    return None
