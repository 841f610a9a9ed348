"""Which addresses may be dialled: the table row by row, and the standard library beside it."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.addresses import NAT64_LENGTHS, ipv4_inside, nat64_prefix, refusal

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2606:4700:4700::1111",
    "2620:4f:8001::",
    "2a00::1",
)
REFUSED = {
    "0.0.0.0": "this network",  # noqa: S104
    "0.255.255.255": "this network",
    "10.0.0.1": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.100.100.200": "cloud metadata",
    "100.127.255.255": "carrier-grade NAT",
    "127.0.0.1": "loopback",
    "127.255.255.255": "loopback",
    "168.63.129.16": "cloud metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "cloud metadata",
    "169.254.170.2": "cloud metadata",
    "172.16.0.0": "private",
    "172.31.255.255": "private",
    "192.0.0.1": "protocol assignments",
    "192.0.0.192": "cloud metadata",
    "192.0.2.1": "documentation",
    "192.31.196.1": "AS112",
    "192.52.193.1": "AMT",
    "192.88.99.1": "6to4 relay",
    "192.168.255.255": "private",
    "192.175.48.1": "AS112",
    "198.18.0.0": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "this network",
    "::1": "loopback",
    "::8.8.8.8": "IPv4-compatible",
    "::ffff:8.8.8.8": "IPv4-mapped",
    "::ffff:0:8.8.8.8": "IPv4-translated",
    "64:ff9b::808:808": "NAT64",
    "64:ff9b:1:a00:0:100::": "NAT64",
    "64:ff9c::1": "not handed out",
    "100::1": "discard",
    "100:0:0:1::1": "dummy",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "Teredo",
    "2001:1::1": "protocol assignments",
    "2001:2::1": "benchmarking",
    "2001:3::1": "protocol assignments",
    "2001:4:112::1": "protocol assignments",
    "2001:10::1": "ORCHID",
    "2001:20::1": "ORCHID",
    "2001:30::1": "drone identities",
    "2001:db8::1": "documentation",
    "2002:808:808::1": "6to4",
    "2620:4f:8000::1": "AS112",
    "3ffe::1": "returned",
    "3fff::1": "documentation",
    "4000::1": "not handed out",
    "5f00::1": "segment routing",
    "fc00::1": "private",
    "fd00:ec2::23": "cloud metadata",
    "fd00:ec2::254": "cloud metadata",
    "fd20:ce::254": "cloud metadata",
    "fe80::1": "link-local",
    "fec0::1": "site-local",
    "ff02::2": "multicast",
    "2606:4700::5efe:8.8.8.8": "ISATAP",
    "2606:4700::200:5efe:10.0.0.1": "ISATAP",
}


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_dialled(text: str) -> None:
    assert refusal(text, ()) is None
    assert refusal(ip_address(text).packed, ()) is None


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_special_addresses_are_refused_each_for_its_reason(text: str, reason: str) -> None:
    assert refusal(text, ()) == reason
    assert refusal(ip_address(text).packed, ()) == reason


@pytest.mark.parametrize(
    "text",
    [
        *("", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "1.2.3.4 ", "[::1]"),
        *("1.1.1.1/32", "example.org", "\uff11.1.1.1", "::g", "1.2.3"),
        *(b"", b"123", b"12345", b"1.1.1.1"),
    ],
)
def test_other_spellings_are_no_addresses(text: str | bytes) -> None:
    assert refusal(text, ()) == "not an address"


def test_an_address_with_an_interface_is_refused() -> None:
    assert refusal("2606:4700::1", ()) is None
    assert refusal("2606:4700::1%eth0", ()) == "an interface in the address"


def test_the_machines_own_public_addresses_are_refused() -> None:
    own = {ip_address("8.8.8.8"), ip_address("2606:4700::1")}
    assert refusal("8.8.8.9", own) is None
    assert refusal("8.8.8.8", own) == "this machine"
    assert refusal("2606:4700::1", own) == "this machine"


@given(st.ip_addresses(v=4))
def test_nothing_the_library_calls_special_passes_in_ipv4(address: IPv4Address) -> None:
    if refusal(address.packed, ()) is None:
        assert address.is_global
        assert not (address.is_multicast or address.is_reserved or address.is_private)


@given(st.ip_addresses(v=6))
def test_nothing_the_library_calls_special_passes_in_ipv6(address: IPv6Address) -> None:
    if refusal(address.packed, ()) is None:
        assert address.is_global
        assert not (address.is_multicast or address.is_reserved or address.is_site_local)
        assert address.ipv4_mapped is None
        assert address.sixtofour is None
        assert address.teredo is None


@given(st.ip_addresses(v=4, network="1.0.0.0/8") | st.ip_addresses(v=6, network="2a00::/12"))
def test_ordinary_space_passes_as_the_library_says(address: IPv4Address | IPv6Address) -> None:
    assert address.is_global
    assert refusal(str(address), ()) in (None, "ISATAP")


def embedded(prefix: str, length: int, inside: IPv4Address) -> IPv6Address:
    """Write an IPv4 address into a NAT64 prefix: RFC 6052, section 2.2, from its figure."""
    head, four = IPv6Address(prefix).packed[: length // 8], inside.packed
    if length == 96:
        return IPv6Address(head + four)
    joined = head + four
    return IPv6Address((joined[:8] + b"\0" + joined[8:]).ljust(16, b"\0"))


@pytest.mark.parametrize("length", NAT64_LENGTHS)
@given(inside=st.ip_addresses(v=4))
def test_nat64_of_this_network_is_refused_at_every_length(length: int, inside: IPv4Address) -> None:
    address = embedded("2a00:1234:5678:9a00:0:0:0:0", length, inside)
    assert ipv4_inside(address, length) == inside
    known = {IPv6Network((address, length), strict=False)}
    assert refusal(str(address), (), nat64=known) == "NAT64"
    assert refusal("2a01::1", (), nat64=known) is None


@pytest.mark.parametrize("length", NAT64_LENGTHS)
@pytest.mark.parametrize("probe", ["192.0.0.170", "192.0.0.171"])
def test_the_probe_finds_the_prefix_of_this_network(length: int, probe: str) -> None:
    address = embedded("2a00:1234:5678:9a00:0:0:0:0", length, IPv4Address(probe))
    assert nat64_prefix(address) == IPv6Network((address, length), strict=False)


def test_an_answer_without_the_probes_addresses_names_no_prefix() -> None:
    assert nat64_prefix(IPv6Address("2a00::1")) is None
