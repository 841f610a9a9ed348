"""Readers without a library: plain text, JSON, XML, feeds and JATS."""

from collections.abc import Callable

import pytest

from tests.support.normalization import got, hazards, made, texts
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.answers import reader_for
from threegate.gates.fetch.normalize.readers import json_text, plain, xml_text
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.normalize.text import Document, Read, Unread
from threegate.gates.fetch.xml import MAX_XML_DEPTH

ENTRY = got("url", b"", "text/plain", role="document").answer
FEED = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title>Gate news</title>'
    b"<entry><title>One</title><content>&lt;p&gt;First &amp;amp; last&lt;/p&gt;</content></entry>"
    b"<entry><title>Two</title><summary>Short</summary></entry></feed>"
)
JATS = b"""<!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS.dtd"><article article-type="research">
<front><journal-meta><journal-title>J. Gates</journal-title></journal-meta><article-meta>
<article-id pub-id-type="doi">10.5555/tg.1</article-id>
<title-group><article-title>On gates</article-title></title-group>
<abstract><p>Short.</p></abstract>
<related-article related-article-type="retraction-forward" ext-link-type="doi" href="10.5555/r"/>
</article-meta></front>
<body><p>Before.</p><sec><title>Methods</title><p>We <italic>open</italic> 10<sup>6</sup>.</p>
<sec><title>Inner</title><p>Deep.</p></sec>
<table><tr><td>12</td><td>34</td></tr></table></sec><sec><p>Untitled.</p></sec></body>
<back><ref-list><title>References</title><ref>Gate A.</ref></ref-list></back></article>"""


def opened(document: Document) -> list[tuple[str, str]]:
    return [(p.label.open_for_display(), p.text.open_for_display()) for p in document.parts]


def reason(read: Read, raw: bytes) -> str:
    with pytest.raises(Unread) as caught:
        read(Untrusted(raw), ENTRY)
    return caught.value.reason


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"),
        ("Zürich 北京".encode(), "Zürich 北京"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("mark €".encode("utf-16"), "mark €"),
        (b"\xfe\xff" + "mark".encode("utf-16-be"), "mark"),
        (b"Z\xfcrich \x93quoted\x94 \x80", "Zürich “quoted” €"),
    ],
)
def test_plain_text_is_decoded_in_one_documented_way(raw: bytes, text: str) -> None:
    assert opened(plain.read(Untrusted(raw), ENTRY)) == [("text", text)]


@pytest.mark.parametrize("raw", [b"a\x00b", b"\x81\x8d", b"\xff\xfe\x00", b"\xef\xbb\xbf\xff"])
def test_what_is_no_text_is_refused(raw: bytes) -> None:
    assert reason(plain.read, raw) == "encoding"


def test_too_much_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_TEXT_BYTES", 10)
    assert opened(plain.read(Untrusted(b"0123456789"), ENTRY)), "control"
    assert reason(plain.read, b"0123456789+") == "too-large"


def test_json_is_shown_as_json_in_its_own_order() -> None:
    found = json_text.read(Untrusted(b'{"b":[1,"x\\ny"],"a":null}'), ENTRY)
    assert opened(found) == [("text", '{\n "b": [\n  1,\n  "x\\ny"\n ],\n "a": null\n}')]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a":1,"a":2}', "damaged"),
        (b"{", "damaged"),
        (b"\xff", "encoding"),
        (b"[" * 100 + b"]" * 100, "too-large"),
        (b"[NaN]", "damaged"),
    ],
)
def test_json_of_two_meanings_is_refused(raw: bytes, why: str) -> None:
    assert reason(json_text.read, raw) == why


def test_a_feed_is_read_by_its_entries() -> None:
    assert opened(xml_text.read(Untrusted(FEED), ENTRY)) == [
        ("feed", "Gate news"),
        ("entry 1", "One\nFirst & last"),
        ("entry 2", "Two\nShort"),
    ]


def test_other_xml_is_read_by_its_lines() -> None:
    raw = b"<a>one<b> two </b><!-- no --><c/>three</a>"
    assert opened(xml_text.read(Untrusted(raw), ENTRY)) == [("text", "one\ntwo\nthree")]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"<a>", "damaged"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "damaged"),
        ("<a/>".encode("utf-16"), "encoding"),
        (b"<a>" * (MAX_XML_DEPTH + 1) + b"</a>" * (MAX_XML_DEPTH + 1), "too-large"),
        (b"<pmc-articleset/>", "other-kind"),
        (b"<pmc-articleset><article/><article/></pmc-articleset>", "other-kind"),
    ],
)
def test_xml_that_is_not_read_is_refused_for_its_reason(raw: bytes, why: str) -> None:
    assert reason(xml_text.read, raw) == why


def test_jats_is_read_by_its_sections_and_its_front_matter_counts() -> None:
    answer = got("europepmc", JATS, "application/xml", role="document")
    packet = made(answer, scheme="pmcid", want="full-text")
    assert texts(packet) == {
        "abstract": "Short.",
        "text": "Before.",
        "text: Methods": "Methods\nWe open 10^6.\nInner\nDeep.\n12 | 34 |",
        "text: sec": "Untitled.",
        "back matter: References": "References\nGate A.",
    }
    assert packet.title.open_for_display() == "On gates"
    assert packet.retraction == "retracted"
    assert packet.notices[0].source == "europepmc"
    elsewhere = made(got("url", JATS, "application/xml", role="document"), scheme="url")
    assert elsewhere.notices[0].source == "url", "in the name of whoever was asked"
    assert hazards(packet) == {}


def test_jats_metadata_is_heard_as_metadata() -> None:
    packet = made(got("europepmc", JATS, "application/xml"))
    assert (packet.source, texts(packet)) == ("europepmc", {"abstract": "Short."})


@pytest.mark.parametrize(
    ("read_as", "read"),
    [
        ("text/json", json_text.read),
        ("application/ld+json", json_text.read),
        ("application/atom+xml", xml_text.read),
        ("text/plain", plain.read),
    ],
)
def test_a_type_finds_its_reader(read_as: str, read: Callable[..., Document]) -> None:
    assert reader_for(read_as, PLAIN) is read


@pytest.mark.parametrize("read_as", ["text/html", "application/pdf", "image/svg"])
def test_a_type_without_a_reader_is_refused(read_as: str) -> None:
    with pytest.raises(Unread) as caught:
        reader_for(read_as, PLAIN)
    assert caught.value.reason == "other-kind"
