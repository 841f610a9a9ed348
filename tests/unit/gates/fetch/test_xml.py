"""The XML reader: what it reads, and every way to make it read something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.xml import (
    MAX_XML_BYTES,
    MAX_XML_DEPTH,
    MAX_XML_NODES,
    XmlRefused,
    parse_xml,
)

DOCTYPE = b'<!DOCTYPE a PUBLIC "-//NLM//DTD X//EN" "https://dtd.example/x.dtd">'


def read(data: bytes) -> str:
    """Return the reason of a refusal, or `read`."""
    try:
        parse_xml(Untrusted(data))
    except XmlRefused as exc:
        return exc.reason
    return "read"


def test_names_attributes_and_text_are_read() -> None:
    root = parse_xml(
        Untrusted(b'<f xmlns="urn:n" xmlns:x="urn:x"><e x:k="v">a<i>b</i>&amp;c</e><e/></f>')
    )
    first = root.first("e")
    assert (root.name, root.namespace) == ("f", "urn:n")
    assert first is not None
    assert first.attributes == {"k": "v"}
    assert first.text() == "a&c"
    assert [item.name for item in root.every("e", "i")] == ["i"]
    assert root.first("e", "none") is None


def test_a_document_type_is_accepted_and_never_loaded() -> None:
    assert read(DOCTYPE + b"<a>x</a>") == "read"


LAUGHS = b'<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>'
ENTITIES = {
    "billion laughs": LAUGHS,
    "an unused entity": b'<!DOCTYPE a [<!ENTITY a "ha">]><a/>',
    "a file": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
    "a parameter entity": b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://h.example/x"> %x;]><a/>',
    "an unparsed entity": b'<!DOCTYPE a [<!NOTATION n SYSTEM "n">'
    b'<!ENTITY x SYSTEM "x" NDATA n>]><a/>',
    "an undeclared parameter entity": b"<!DOCTYPE a [ %x; ]><a/>",
    "a declaration after a part not read": b'<!DOCTYPE a [ %x; <!ENTITY b "c">]><a>&b;</a>',
    "a default for many elements": b'<!DOCTYPE a [<!ATTLIST b x CDATA "long">]><a><b/><b/></a>',
    "nothing": b"<!DOCTYPE a []><a/>",
}


@pytest.mark.parametrize("attack", sorted(ENTITIES))
def test_document_that_declares_is_refused(attack: str) -> None:
    assert read(DOCTYPE + b"<a>&lt;&#65;</a>") == "read", "control: a type without declarations"
    assert read(ENTITIES[attack]) == "doctype"


def test_entity_of_the_outside_type_is_refused() -> None:
    assert read(DOCTYPE + b"<a>caf\xc3\xa9</a>") == "read", "control"
    assert read(DOCTYPE + b"<a>caf&eacute;</a>") == "entity"


def test_undeclared_entity_without_a_type_is_no_xml() -> None:
    assert read(b"<a>&eacute;</a>") == "not-xml"


@pytest.mark.parametrize("name", ["utf-7", "iso-8859-1", "utf-16", "idna", "no-such-codec"])
def test_a_document_chooses_no_codec(name: str) -> None:
    assert read(b'<?xml version="1.0" encoding="UTF-8"?><a/>') == "read", "control"
    assert read(f'<?xml version="1.0" encoding="{name}"?><a/>'.encode("ascii")) == "encoding"


def test_utf_16_is_no_way_around() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        assert read("<a>x</a>".encode(encoding)) == "encoding"


def nested(depth: int) -> bytes:
    return b"<a>" * depth + b"</a>" * depth


def test_depth_is_bounded() -> None:
    assert read(nested(MAX_XML_DEPTH)) == "read"
    assert read(nested(MAX_XML_DEPTH + 1)) == "too-deep"
    assert read(b"<a>" * 1_000_000) == "too-deep"


def test_nodes_are_bounded() -> None:
    assert read(b"<a>" + b"<b/>" * 1000 + b"</a>") == "read", "control"
    assert read(b"<a>" + b"<b/>" * MAX_XML_NODES + b"</a>") == "too-large"


def test_bytes_are_bounded() -> None:
    assert read(b" " * (MAX_XML_BYTES + 1)) == "too-large"


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert read(data) == read(data)


@given(st.text(alphabet="<>/!?[]&;%#aE \"'=-DOCTYPEN", max_size=80))
def test_any_markup_is_read_or_refused(text: str) -> None:
    inside = b"<a>" + text.encode("ascii") + b"</a>"
    assert read(inside) in ("read", "not-xml", "entity", "doctype", "too-deep")
