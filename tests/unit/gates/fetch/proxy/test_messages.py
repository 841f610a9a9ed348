"""Messages to the proxy and back: one spelling, and nothing else is one."""

from ipaddress import ip_address

import pytest

from tests.support.messages import RULES
from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MAX_BUNDLE_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import MAX_PINNED, InForce, parse_in_force, parse_rules

HEAD = (
    b'{"hosts":[],"listen_fd":5,"own":["192.0.2.7","2001:db8::7"],"pin":false,'
    b'"protocol":"proxy/1","purpose":"packets"}\n'
)
RUN = HEAD.replace(b"packets", b"runs").replace(b"[]", b'["api.example.org"]')


def test_rules_have_one_spelling() -> None:
    assert RULES.to_bytes() == HEAD + RULES.bundle


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:-1],
        b"[]\n",
        HEAD.replace(b"proxy/1", b"proxy/2"),
        HEAD.replace(b'"own"', b'"owm"'),
        HEAD.replace(b"5", b"3", 1),
        HEAD.replace(b"5", b"true", 1),
        HEAD.replace(b"5", b"5000", 1),
        HEAD.replace(b'"192.0.2.7"', b"7"),
        HEAD.replace(b"192.0.2.7", b"192.0.2.07"),
        HEAD.replace(b"2001:db8::7", b"2001:DB8::7"),
        HEAD.replace(b'["192.0.2.7","2001:db8::7"]', b'"192.0.2.7"'),
        b" " + HEAD,
        HEAD.replace(b',"purpose":"packets"', b""),
        HEAD.replace(b"packets", b"everything"),
        HEAD.replace(b"packets", b"downloads:"),
        HEAD.replace(b"packets", b"downloads:../x"),
        HEAD.replace(b'"packets"', b"null"),
        HEAD.replace(b"[]", b'["api.example.org"]'),  # only a run lists hosts of its own
        RUN.replace(b'["api.example.org"]', b"[]"),
        RUN.replace(b'"api.example.org"', b'"API.example.org"'),
        RUN.replace(b'["api.example.org"]', b'"api.example.org"'),
        HEAD.replace(b"false", b"true"),  # only a run has hosts to pin
        RUN.replace(b"false", b"1"),
        RUN.replace(b"false", b"null"),
        HEAD + bytes(MAX_BUNDLE_BYTES + 1),
    ],
)
def test_other_bytes_are_no_rules(data: bytes) -> None:
    assert parse_rules(Untrusted(RUN.replace(b"false", b"true"))).pin, "control"
    assert parse_rules(Untrusted(HEAD)).bundle == b""
    assert parse_rules(Untrusted(RUN)).hosts == ("api.example.org",), "control"
    with pytest.raises(ProtocolBroken):
        parse_rules(Untrusted(data))


@pytest.mark.parametrize(("generation", "policy"), [(0, "ab" * 32), (1, "AB" * 32), (1, "ab")])
def test_no_message_breaks_a_rule(generation: int, policy: str) -> None:
    with pytest.raises(ProtocolBroken):
        InForce(generation, policy)


@pytest.mark.parametrize("pinned", [b'"104.18.0.1"', b"[7]", b'["104.18.0.01"]', b"null"])
def test_what_is_pinned_are_addresses_in_their_one_spelling(pinned: bytes) -> None:
    address = ip_address("104.18.0.1")
    good = InForce(1, "ab" * 32, (address,)).to_bytes()
    assert parse_in_force(Untrusted(good)).pinned == (address,), "control"
    with pytest.raises(ProtocolBroken):
        parse_in_force(Untrusted(good.replace(b'["104.18.0.1"]', pinned)))
    with pytest.raises(ProtocolBroken, match="items, not 0 to"):
        InForce(1, "ab" * 32, (address,) * (MAX_PINNED + 1))
