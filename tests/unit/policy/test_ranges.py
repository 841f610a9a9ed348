"""The networks that configurations are made from hold exactly what the proxy's table refuses."""

from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.addresses import refusal
from threegate.policy.hosts import ISATAP, SPECIAL_V4, SPECIAL_V6, refused_v4, refused_v6


def _within(text: str) -> bool:
    address = ip_address(text)
    networks = refused_v4() if address.version == 4 else refused_v6()
    return any(address in network for network in networks)


def test_every_row_of_the_table_is_held() -> None:
    for network, reason in (*SPECIAL_V4, *SPECIAL_V6):
        for address in (network[0], network[-1]):
            assert _within(str(address)), f"{address}, {reason}"


def test_public_addresses_are_not_held() -> None:
    for text in ("104.18.0.1", "8.8.8.8", "223.255.255.255", "2606:4700::1", "2a00:1450::1"):
        assert not _within(text)
        assert refusal(text, ()) is None, "control: the proxy dials it"


def test_what_is_not_handed_out_is_held() -> None:
    assert ip_network("::/3") in refused_v6()
    for text in ("::1", "4000::1", "8000::1", "fe80::1"):
        assert _within(text)


@given(st.ip_addresses())
def test_held_is_refused_by_the_proxy_and_the_other_way_round(address: object) -> None:
    parsed = ip_address(str(address))
    why = refusal(str(address), ())
    if _within(str(address)):
        assert why is not None
    elif why is not None:  # only what no prefix can say
        middle = (int(parsed) >> 32) & 0xFFFFFFFF
        assert why == "not global" or (parsed.version == 6 and middle in ISATAP)
