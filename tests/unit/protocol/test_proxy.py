"""Messages to the proxy and back: one spelling, and nothing else is one."""

import pytest

from tests.support.messages import RULES
from threegate.errors import ProtocolBroken
from threegate.protocol.limits import MAX_BUNDLE_BYTES
from threegate.protocol.proxy import InForce, parse_rules
from threegate.untrusted import Untrusted

HEAD = (
    b'{"hosts":[],"listen_fd":5,"own":["192.0.2.7","2001:db8::7"],"protocol":"proxy/1",'
    b'"purpose":"packets"}\n'
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
        HEAD + bytes(MAX_BUNDLE_BYTES + 1),
    ],
)
def test_other_bytes_are_no_rules(data: bytes) -> None:
    assert parse_rules(Untrusted(HEAD)).bundle == b""
    assert parse_rules(Untrusted(RUN)).hosts == ("api.example.org",), "control"
    with pytest.raises(ProtocolBroken):
        parse_rules(Untrusted(data))


@pytest.mark.parametrize(("generation", "policy"), [(0, "ab" * 32), (1, "AB" * 32), (1, "ab")])
def test_no_message_breaks_a_rule(generation: int, policy: str) -> None:
    with pytest.raises(ProtocolBroken):
        InForce(generation, policy)
