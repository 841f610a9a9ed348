"""Types: listed for the host, and not contradicted by the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.retrieve.messages import HTML, JSON, PDF, READ_AS, TEXT, XML
from threegate.gates.fetch.retrieve.types import declared_type, read_as, sniff
from threegate.gates.http_library.client import Failure, NotRetrieved

ALLOWED = frozenset({JSON, HTML, "application/atom+xml"})
PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
FEED = b'<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom"/>'
XHTML = b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x">\n<html xmlns="x"/>'
PAPER = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
RECORD = b' {"status":"ok"}'
PROGRAM = b"\x7fELF\x02\x01\x01" + b"\0" * 60
WORDS = "Ünsere Ergebnisse, in short.\n".encode()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("application/json", JSON),
        ("Application/JSON; charset=UTF-8", JSON),
        ('text/html;charset="x"', HTML),
        ("application/atom+xml ; type=feed", "application/atom+xml"),
    ],
)
def test_a_listed_type_is_taken_without_its_parameters(value: str, name: str) -> None:
    assert declared_type(value, ALLOWED) == name


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "text", "application/pdf", "text/html, application/json", "*/*"),
        *("application/json\x00", "text/html text/plain", "application/" + "x" * 100, "ä/b"),
    ],
)
def test_any_other_type_is_refused(value: str | None) -> None:
    with pytest.raises(NotRetrieved) as caught:
        declared_type(value, ALLOWED)
    assert caught.value.failure is Failure.TYPE


@pytest.mark.parametrize(
    ("name", "body", "wanted"),
    [
        (JSON, RECORD, JSON),
        (JSON, b"\xef\xbb\xbf[]", JSON),
        (JSON, b'"10.1000/182"', JSON),
        (JSON, b"{\n}", JSON),
        ("application/vnd.api+json", RECORD, JSON),
        ("application/atom+xml", FEED, XML),
        ("text/xml", b"<!-- x --><article><front/></article>", XML),
        ("text/xml", FEED.decode().encode("utf-16"), XML),
        ("application/xhtml+xml", XHTML, HTML),
        (HTML, PAGE, HTML),
        (HTML, b"\n\n<!-- a comment -->" + PAGE, HTML),
        (HTML, b"Just words", HTML),
        (PDF, PAPER, PDF),
        (PDF, b"junk before it\n" + PAPER, PDF),
        (TEXT, WORDS, TEXT),
        (TEXT, RECORD, TEXT),
        (TEXT, b"\xff\xfeH\0i\0", TEXT),
    ],
)
def test_bytes_of_the_type_they_are_called_are_read_as_it(
    name: str, body: bytes, wanted: str
) -> None:
    assert read_as(name, body) == wanted
    assert wanted in READ_AS


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (JSON, PAGE),
        (JSON, b"Resource not found."),
        (JSON, FEED),
        (JSON, PAPER),
        (JSON, b""),
        (JSON, b" \n"),
        ("application/atom+xml", PAGE),
        ("application/atom+xml", RECORD),
        ("text/xml", WORDS),
        (HTML, PAPER),
        (HTML, RECORD),
        (HTML, PROGRAM),
        (HTML, b"PK\x03\x04" + b"a" * 100),
        (HTML, b"#!/bin/sh\nrm -rf /\n"),
        (HTML, b"\x1f\x8b\x08" + b"a" * 100),
        (HTML, b"words \x00 and a zero"),
        (PDF, PAGE),
        (PDF, WORDS),
        (PDF, PROGRAM),
        (PDF, b"x" * 2000 + PAPER),
        (TEXT, PAGE),
        (TEXT, PAPER),
        (TEXT, PROGRAM),
        (TEXT, b"MZ\x90\x00"),
    ],
)
def test_bytes_that_contradict_their_type_are_refused(name: str, body: bytes) -> None:
    with pytest.raises(NotRetrieved) as caught:
        read_as(name, body)
    assert caught.value.failure is Failure.MISLABELLED


@pytest.mark.parametrize("name", ["application/octet-stream", "image/png", "video/mp4"])
def test_a_type_nobody_reads_is_refused_even_if_listed(name: str) -> None:
    with pytest.raises(NotRetrieved) as caught:
        read_as(name, b"x")
    assert caught.value.failure is Failure.TYPE


@given(st.binary(max_size=80))
def test_any_bytes_look_like_something(data: bytes) -> None:
    kinds = {"PDF", "HTML", "XHTML", "XML", "JSON", "text", "binary data"}
    assert sniff(data) in kinds | {"a program, an archive or a picture"}
