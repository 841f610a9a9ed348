"""`Retry-After`: seconds or a date, at most a day."""

import pytest

from tests.support.retrieving import ASK, Servers, bundle
from threegate.base.errors import PolicyDenied
from threegate.gates.fetch.retrieve.answers import http_date, part_of, retry_after
from threegate.gates.fetch.retrieve.messages import (
    MAX_RETRY_AFTER_SECONDS,
    Authority,
    FetchQuestion,
    Got,
    NotGot,
)
from threegate.gates.fetch.retrieve.retriever import Retriever
from threegate.gates.fetch.retrieve.rules import OTHER_PURPOSE, rules_of
from threegate.gates.http_library.client import NotRetrieved, ResponseHead
from threegate.policy.purposes import MODEL, downloads

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
MOMENT = 784_111_777.0


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("0", 0),
        ("120", 120),
        ("9999999999", MAX_RETRY_AFTER_SECONDS),
        ("99999999999", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (DATE, 60),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        ("Sun, 06 Nov 2094 08:49:37 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
    ],
)
def test_a_wait_is_a_number_of_seconds_within_a_day(value: str | None, wanted: int | None) -> None:
    assert retry_after(value, now=MOMENT - 60) == wanted


def test_a_date_is_the_moment_it_names() -> None:
    assert http_date(DATE) == MOMENT
    assert http_date(DATE + " ") is None


# Parts of a file: exactly the one that was asked for, whatever a server calls it.

HOST, STORE = "huggingface.co", "cas-bridge.xethub.hf.co"
PART = FetchQuestion(f"https://{HOST}/x", "*/*", 100, first_byte=200)
FIRST = FetchQuestion(f"https://{HOST}/x", "*/*", 100, first_byte=0)


def head(status: int, content_range: str | None = None) -> ResponseHead:
    headers = {} if content_range is None else {"content-range": content_range}
    return ResponseHead(status, headers, None, True)


@pytest.mark.parametrize(
    ("spelled", "size", "total"),
    [("bytes 200-299/1000", 100, 1000), ("bytes 200-249/250", 50, 250)],
)
def test_the_part_that_was_asked_for_is_taken(spelled: str, size: int, total: int) -> None:
    found = part_of(PART, head(206, spelled))
    assert (found.size, found.total) == (size, total)
    with pytest.raises(NotRetrieved, match=f"that was called {size}"):
        found.refuse_other(bytes(size - 1))
    found.refuse_other(bytes(size))


@pytest.mark.parametrize(
    "spelled",
    [
        *("bytes 0-99/1000", "bytes 200-298/1000", "bytes 200-300/1000", "bytes 201-300/1000"),
        *("bytes 200-299/250", "bytes 200-299/*", "bytes */1000", "bytes=200-299/1000", ""),
        *("bytes 200-299/01000", "bytes 200-199/200", "items 200-299/1000", "bytes 200-299"),
        *("bytes 200-299/1000, bytes 0-1/2", "bytes 200-299/99999999999999999"),
    ],
)
def test_another_part_is_refused(spelled: str) -> None:
    assert part_of(PART, head(206, "bytes 200-299/1000")).size == 100, "control"
    with pytest.raises(NotRetrieved, match="part"):
        part_of(PART, head(206, spelled))


def test_the_whole_is_taken_for_a_part_only_at_its_beginning() -> None:
    assert part_of(FIRST, head(200)).total is None
    with pytest.raises(NotRetrieved, match="sends no parts"):
        part_of(PART, head(200))
    for status in (204, 404, 416, 500):
        with pytest.raises(NotRetrieved):
            part_of(FIRST, head(status))


def asked(ask: FetchQuestion, said: dict[str, list[bytes]]) -> tuple[Got | NotGot, Servers]:
    with Servers(dict(said)) as servers:
        retriever = Retriever(rules_of(bundle(), downloads("models")), servers)
        found = retriever.answer(ask)
        retriever.close()
    return found, servers


SERVED = b"HTTP/1.1 206 Said\r\nContent-Range: bytes 200-203/204\r\nContent-Length: 4\r\n\r\nabcd"
MOVED = b"HTTP/1.1 302 Said\r\nContent-Length: 0\r\nLocation: https://%s/y\r\n\r\n"


# claim TG-C-205
def test_every_hop_is_asked_for_the_part_and_judged_by_the_list_of_downloads() -> None:
    good = {HOST: [MOVED % STORE.encode()], STORE: [SERVED]}
    found, servers = asked(PART, good)
    assert isinstance(found, Got)
    assert (found.body, found.total, found.status) == (b"abcd", 204, 206)
    assert [name for name, _ in servers.heard] == [HOST, STORE]
    assert all("\r\nRange: bytes=200-299\r\n" in request for _, request in servers.heard)
    found, servers = asked(PART, {HOST: [MOVED % b"api.crossref.org"]})
    assert isinstance(found, NotGot)
    assert found.code == "TG-FET-010", "a host of packets is none of downloads"
    assert servers.opened == [HOST]


# claim TG-C-200
def test_a_box_of_one_purpose_asks_for_nothing_of_another() -> None:
    packets = FetchQuestion(ASK.url, "*/*", 100, first_byte=0)
    found, servers = asked(packets, {})
    assert isinstance(found, NotGot)
    assert (found.code, servers.opened) == ("TG-FET-002", [])
    whole, servers = asked(FetchQuestion(PART.url, "*/*", 100), {})
    assert isinstance(whole, NotGot)
    assert (whole.code, servers.opened) == ("TG-FET-003", [])
    approved = FetchQuestion(
        PART.url, "*/*", 100, first_byte=0, authority=Authority(b"x", b"y", b"z")
    )
    found, servers = asked(approved, {})
    assert isinstance(found, NotGot)
    assert (found.code, servers.opened) == ("TG-FET-003", [])
    with Servers({}) as servers:
        found = Retriever(rules_of(bundle()), servers).answer(PART)
    assert isinstance(found, NotGot)
    assert (found.code, servers.opened) == ("TG-FET-002", [])
    for purpose in (MODEL, downloads("nothing")):
        with pytest.raises(PolicyDenied) as caught:
            rules_of(bundle(), purpose)
        assert caught.value.code == OTHER_PURPOSE
