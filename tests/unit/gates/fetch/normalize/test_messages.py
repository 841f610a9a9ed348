"""The retrieval record and the messages about it: one spelling each, or refused."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import ANSWER, MISS, RECORD
from threegate.base import canonical, limits
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import (
    MAX_ANSWERS,
    MAX_MISSES,
    MAX_RAWS_BYTES,
    Normalize,
    parse_normalize,
    parse_record,
    spelled_reference,
)


@given(st.binary(), st.lists(st.binary(), max_size=MAX_ANSWERS))
def test_raw_bytes_travel_unchanged(record: bytes, raws: list[bytes]) -> None:
    message = Normalize(record, tuple(raws))
    assert parse_normalize(Untrusted(message.to_bytes())) == message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": "elsewhere"}, "source is not one of"),
        ({"role": "guess"}, "role is not one of"),
        ({"reference": ""}, "reference has 0 characters"),
        ({"reference": "a\u202eb"}, "not allowed there"),
        ({"reference": "10.1/<b>x"}, "markup"),
        ({"url": "http://api.crossref.org/"}, "url is not an https URL"),
        ({"url": "https://user@api.crossref.org/"}, "url is not an https URL"),
        ({"url": "https://api.crossref.org/" + "x" * 2048}, "url has .* characters, limit"),
        ({"hops": (("https://a.test/", 200),)}, "hops is not within"),
        ({"hops": (("https://a.test/", 301),) * 11}, "hops has 11 items"),
        ({"status": 99}, "status"),
        ({"status": True}, "status"),
        ({"media_type": "text/html; charset=utf-8"}, "media_type"),
        ({"read_as": ""}, "read_as"),
        ({"retrieved": "2026-02-31T00:00:00Z"}, "no such moment"),
        ({"retrieved": "2026-11-16 04:30:00"}, "retrieved"),
        ({"sha256": "0" * 63}, "sha256"),
        ({"bytes": -1}, "bytes"),
        ({"trust_anchor": "sha256:" + "0" * 64}, "trust_anchor"),
    ],
)
def test_an_answer_that_breaks_a_rule_cannot_be_built(change: dict[str, Any], reason: str) -> None:
    assert replace(ANSWER, status=404).status == 404, "control"
    with pytest.raises(ProtocolBroken, match=reason):
        replace(ANSWER, **change)
    with pytest.raises(ProtocolBroken):
        replace(MISS, reason="tired")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("doi:10.5555/1<E1::AID>3", "doi:10.5555/1%3CE1::AID>3"),
        ("doi:10.5555/1<270::AID>3", "doi:10.5555/1<270::AID>3"),
        ("search:crossref:p<q </b> <<!x", "search:crossref:p%3Cq %3C/b> <%3C!x"),
    ],
)
def test_a_reference_that_looks_like_markup_has_a_spelling(text: str, spelled: str) -> None:
    assert spelled_reference(text) == spelled
    assert replace(RECORD, reference=spelled).reference == spelled
    assert spelled_reference(spelled) == spelled


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scheme": "isbn"}, "scheme is not one of"),
        ({"want": "everything"}, "want is not one of"),
        ({"want": "search"}, "a search is a search"),
        ({"request": "tr-" + "1" * 64}, "request"),
        ({"confidentiality": "secret"}, "confidentiality is not one of"),
        ({"answers": (ANSWER,) * 18}, "answers has 18 items"),
        ({"misses": (MISS,) * 33}, "misses has 33 items"),
        ({"answers": (replace(ANSWER, bytes=MAX_RAWS_BYTES),) * 2}, "too large"),
    ],
)
def test_a_record_that_breaks_a_rule_cannot_be_built(change: dict[str, Any], reason: str) -> None:
    assert replace(RECORD, scheme="search", want="search").want == "search", "control"
    with pytest.raises(ProtocolBroken, match=reason):
        replace(RECORD, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "retrieval/2"},
        {"answers": {}},
        {"answers": [1]},
        {"answers": [ANSWER.plain() | {"note": "obey"}]},
        {"answers": [ANSWER.plain() | {"hops": [["https://a.test/"]]}]},
        {"misses": [MISS.plain() | {"detail": 1}]},
        {"extra": 1},
    ],
)
def test_a_record_of_another_form_is_refused(change: dict[str, Any]) -> None:
    value = canonical.decode(RECORD.to_bytes())
    assert parse_record(Untrusted(canonical.encode(value))) == RECORD, "control"
    with pytest.raises(ProtocolBroken):
        parse_record(Untrusted(canonical.encode(value | change)))


def test_the_largest_record_fits_its_bound() -> None:
    reference = "\U0001f9ea" * limits.MAX_URL_CHARS
    url = "https://a.test/" + "x" * (limits.MAX_URL_CHARS - 15)
    answer = replace(ANSWER, reference=reference, url=url, hops=((url, 301),) * limits.MAX_HOPS)
    miss = replace(MISS, reference=reference, detail="\U0001f9ea" * limits.MAX_LINE_CHARS)
    answers, misses = (answer,) * MAX_ANSWERS, (miss,) * MAX_MISSES
    record = replace(RECORD, reference=reference, answers=answers, misses=misses)
    assert parse_record(Untrusted(record.to_bytes())) == record
