"""PDF files: text page by page, what they say of themselves, bounds, and no other error."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import pdfs
from tests.support.pages import answer
from tests.support.pdfs import cycle, encrypted, form_bomb, line, many_pages, pdf
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import pdf as reader
from threegate.gates.fetch.normalize.text import Document, Unread

SMALL = pdf(line("one"), line("two"))


def read(raw: bytes) -> Document:
    return reader.read(Untrusted(raw), answer())


def texts(found: Document) -> list[tuple[int | None, str]]:
    return [(part.page, part.text.open_for_validation()) for part in found.parts]


def refused(raw: bytes) -> tuple[str, str]:
    with pytest.raises(Unread) as caught:
        read(raw)
    return caught.value.reason, caught.value.detail


def test_each_page_is_a_part_with_its_number() -> None:
    found = read(pdf(line("first page"), b"", line("third") + line("below", y=600)))
    assert texts(found) == [(1, "first page"), (3, "third\n\nbelow")]
    assert [part.label.open_for_validation() for part in found.parts] == ["page 1", "page 3"]
    assert not found.found


def test_a_hyphen_between_numbers_at_the_end_of_a_line_stays() -> None:
    """Numbers would run together without it: 2010-2015."""
    found = read(pdf(line("from 2010-") + line("2015 and so on", y=688)))
    assert texts(found) == [(1, "from 2010-2015 and so on")]


def test_what_a_document_says_of_itself() -> None:
    about = read(pdf(line("x"), title="Ω on gates", author="Gate, Ada; B; ")).about
    assert about is not None
    assert about.title == Untrusted("Ω on gates")
    assert [author.name.open_for_validation() for author in about.authors] == ["Gate, Ada", "B"]


def test_an_absurd_title_is_none() -> None:
    about = read(pdf(line("x"), title="x" * 9000)).about
    assert about is not None
    assert about.title is None


def test_documents_that_cannot_be_read() -> None:
    assert refused(b"") == ("damaged", "the PDF is not a PDF or is broken")
    assert refused(b"%PDF-1.7\nnothing") == ("damaged", "the PDF is not a PDF or is broken")
    assert refused(encrypted()) == ("encrypted", "the PDF needs a password")
    assert refused(cycle()) == ("damaged", "no page of the PDF can be read")
    no_text = "no text on any page; a scan needs text recognition (OCR) first"
    assert refused(pdf(b"")) == ("scan", no_text)
    hidden = ("empty", "no visible text; 6 characters are hidden")
    assert refused(pdf(line("hidden", before="3 Tr"))) == hidden
    assert len(read(SMALL).parts) == 2, "control: one like them is read"


def test_bytes_pages_and_letters_are_bounded() -> None:
    with patch.object(reader, "MAX_PDF_BYTES", len(SMALL) - 1):
        assert refused(SMALL)[0] == "too-large"
    with patch.object(reader, "MAX_PDF_PAGES", 5):
        found = read(many_pages(12))
        assert (len(found.parts), found.found) == (5, {"truncated": 7})
    with patch.object(reader, "MAX_PDF_CHARS", 30):
        found = read(many_pages(12))
        assert (len(found.parts), found.found) == (2, {"truncated": 10})
    with patch.object(reader, "MAX_PAGE_CHARS", 2):
        found = read(SMALL)
        assert (texts(found), found.found) == ([(1, "on"), (2, "tw")], {"truncated": 2})


def test_things_on_a_page_are_bounded_and_the_rest_is_undecided() -> None:
    with patch.object(reader, "MAX_PAGE_OBJECTS", 3):
        assert read(pdf(line("a") * 9)).found == {"hidden-undecided": 1}
    with patch.object(reader, "MAX_FORM_DEPTH", 2):
        assert read(form_bomb(3, 1)).found == {"hidden-undecided": 1}


def test_reading_again_gives_the_same() -> None:
    raw = pdf(line("a") + line("hidden", before="3 Tr"), title="t")
    assert read(raw) == read(raw)


@given(st.binary(max_size=200), st.integers(0, len(SMALL)), st.integers(0, 40))
def test_any_damage_leaves_a_document_or_unread(piece: bytes, at: int, gone: int) -> None:
    for raw in (SMALL[:at] + piece + SMALL[at + gone :], SMALL[:at], b"%PDF-1.7\n" + piece):
        try:
            assert read(raw).parts
        except Unread as exc:
            assert exc.reason in ("damaged", "empty", "encrypted", "scan")


@pytest.mark.parametrize(
    "filters",
    [b"/FlateDecode/FlateDecode", b"/Fl /Fl", b"/Flate#44ecode\n/FlateDecode", b"/Fl%]\n/Fl"],
)
# claim TG-C-424
def test_a_stream_packed_twice_is_refused(filters: bytes) -> None:
    content = pdfs.line("packed")
    once = read(pdfs.packed_twice(content, b"/FlateDecode"))
    assert "packed" in once.parts[0].text.open_for_validation(), "control"
    with pytest.raises(Unread) as caught:
        read(pdfs.packed_twice(content, filters))
    detail = "more than one layer of packing in a stream"
    assert (caught.value.reason, caught.value.detail) == ("too-large", detail)
