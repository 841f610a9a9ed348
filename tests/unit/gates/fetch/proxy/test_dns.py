"""What is believed of a name server's answer, and what is not."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.proxy.dns import (
    AAAA,
    CNAME,
    MAX_ADDRESSES,
    MAX_CNAMES,
    MAX_DNS_RECORDS,
    A,
    DnsQuery,
    parse_answer,
    resolvers,
)
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused

ASKED = DnsQuery(0x1234, "api.crossref.org", A)
ONE, TWO = bytes([104, 18, 0, 1]), bytes([104, 18, 0, 2])
ASKED_AGAIN = b"\xc0\x0c"  # points at the name in the question


def name(text: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in text.split(".")) + b"\0"


def record(owner: bytes, kind: int, data: bytes, *, class_: int = 1) -> bytes:
    return owner + struct.pack(">HHIH", kind, class_, 60, len(data)) + data


def answer(
    *found: bytes,
    ident: int = 0x1234,
    flags: int = 0x8180,
    asked: bytes | None = None,
    count: int | None = None,
) -> bytes:
    number = len(found) if count is None else count
    head = struct.pack(">HHHHHH", ident, flags, 1, number, 0, 0)
    return head + (ASKED.tail if asked is None else asked) + b"".join(found)


def addresses(*found: bytes) -> tuple[bytes, ...]:
    return parse_answer(answer(*found), ASKED).addresses


def reason(data: bytes, question: DnsQuery = ASKED) -> TunnelReason:
    with pytest.raises(TunnelRefused) as caught:
        parse_answer(data, question)
    return caught.value.reason


def test_the_question_is_the_one_of_the_standard() -> None:
    assert DnsQuery(1, "a.bc", AAAA).to_bytes() == (
        b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x02bc\x00\x00\x1c\x00\x01"
    )


def test_addresses_of_the_name_are_returned_once_each() -> None:
    plain = record(ASKED_AGAIN, A, ONE)
    assert addresses(plain, record(name("API.Crossref.ORG"), A, TWO), plain) == (ONE, TWO)


def test_addresses_of_sixteen_bytes_are_read_for_their_own_question() -> None:
    asked = DnsQuery(0x1234, "api.crossref.org", AAAA)
    data = answer(record(ASKED_AGAIN, AAAA, bytes(16)), asked=asked.tail)
    assert parse_answer(data, asked).addresses == (bytes(16),)
    assert reason(data) == TunnelReason.ANSWER_OTHER


def test_aliases_lead_to_the_addresses_in_any_order() -> None:
    alias = record(ASKED_AGAIN, CNAME, name("cdn.example.net"))
    assert addresses(alias, record(name("cdn.example.net"), A, ONE)) == (ONE,)
    assert addresses(record(name("cdn.example.net"), A, ONE), alias) == (ONE,)


def test_records_nobody_asked_for_are_not_believed() -> None:
    other = record(name("other.example"), A, TWO)
    assert addresses(record(ASKED_AGAIN, A, ONE), other) == (ONE,)
    assert addresses(other) == ()
    assert addresses(record(ASKED_AGAIN, A, TWO, class_=3)) == ()
    assert (
        addresses(record(ASKED_AGAIN, 16, b"\x04text"), record(ASKED_AGAIN, AAAA, bytes(16))) == ()
    )


def chain(length: int) -> list[bytes]:
    names = ["api.crossref.org", *(f"n{number}.example" for number in range(length))]
    aliases = [record(name(one), CNAME, name(two)) for one, two in pairwise(names)]
    return [*aliases, record(name(names[-1]), A, ONE)]


def test_a_chain_of_aliases_ends_at_the_limit() -> None:
    assert addresses(*chain(MAX_CNAMES)) == (ONE,)
    assert reason(answer(*chain(MAX_CNAMES + 1))) == TunnelReason.ALIAS_CHAIN


def test_a_ring_of_aliases_ends() -> None:
    to, back = name("b.example"), ASKED_AGAIN
    ring = answer(record(ASKED_AGAIN, CNAME, to), record(to, CNAME, back))
    assert reason(ring) == TunnelReason.ALIAS_CHAIN


def test_two_aliases_of_one_name_are_refused() -> None:
    first, second = (record(ASKED_AGAIN, CNAME, name(to)) for to in ("a.example", "b.example"))
    assert reason(answer(first, second)) == TunnelReason.ANSWER_BROKEN
    assert addresses(first, first) == ()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (answer(ident=0x1235), TunnelReason.ANSWER_OTHER),
        (answer(flags=0x0180), TunnelReason.ANSWER_OTHER),
        (answer(flags=0x8980), TunnelReason.ANSWER_OTHER),
        (answer(asked=DnsQuery(0, "api.crossref.net", A).tail), TunnelReason.ANSWER_OTHER),
        (answer(asked=b""), TunnelReason.ANSWER_OTHER),
        (answer(flags=0x8183), TunnelReason.NO_SUCH_NAME),
        (answer(flags=0x8182), TunnelReason.RESOLVER_FAILED),
        (answer(flags=0x8185), TunnelReason.RESOLVER_FAILED),
        (b"", TunnelReason.ANSWER_BROKEN),
        (answer()[:11], TunnelReason.ANSWER_BROKEN),
        (answer(count=1), TunnelReason.ANSWER_BROKEN),
        (answer(count=MAX_DNS_RECORDS + 1), TunnelReason.ANSWER_BROKEN),
        (answer(record(ASKED_AGAIN, A, ONE + b"\0")), TunnelReason.ANSWER_BROKEN),
        (answer(record(ASKED_AGAIN, A, ONE)[:-1]), TunnelReason.ANSWER_BROKEN),
        (answer(record(ASKED_AGAIN, CNAME, name("a.b") + b"\0")), TunnelReason.ANSWER_BROKEN),
        (answer(record(b"\xc0\xff", A, ONE)), TunnelReason.ANSWER_BROKEN),
        (answer(record(b"\xc0\x22", A, ONE)), TunnelReason.ANSWER_BROKEN),  # at itself
        (answer(record(b"\xc0\x00", A, ONE)), TunnelReason.ANSWER_BROKEN),  # into the head
        (answer(record(b"\x40a", A, ONE)), TunnelReason.ANSWER_BROKEN),
        (answer(record(5 * (b"\x3f" + 63 * b"a") + b"\0", A, ONE)), TunnelReason.ANSWER_BROKEN),
    ],
)
def test_lying_and_broken_answers_are_refused(data: bytes, expected: TunnelReason) -> None:
    assert addresses(record(ASKED_AGAIN, A, ONE)) == (ONE,)
    assert reason(data) == expected


def test_more_addresses_than_the_limit_are_refused() -> None:
    many = [record(ASKED_AGAIN, A, bytes([9, 9, 9, n])) for n in range(MAX_ADDRESSES + 1)]
    assert len(addresses(*many[1:])) == MAX_ADDRESSES
    assert reason(answer(*many)) == TunnelReason.ANSWER_BROKEN


def test_a_truncated_answer_gives_no_address() -> None:
    found = parse_answer(answer(record(ASKED_AGAIN, A, ONE), flags=0x8380), ASKED)
    assert (found.addresses, found.truncated) == ((), True)


@given(st.binary(max_size=200), st.integers(0, 20))
def test_any_answer_is_read_or_refused(tail: bytes, count: int) -> None:
    try:
        found = parse_answer(answer(tail, count=count), ASKED)
    except TunnelRefused:
        return
    assert all(len(address) == 4 for address in found.addresses)


def test_only_name_servers_are_read_from_the_configuration() -> None:
    text = b"# x\nsearch corp.example\nnameserver 10.0.0.2\nnameserver\toptions\noptions ndots:5\n"
    assert resolvers(text, 3) == ("10.0.0.2",)
