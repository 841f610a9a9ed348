"""Scanned pages: text that was recognised is read and counted; other invisible text is not."""

import pytest

from tests.support.pages import answer
from tests.support.pdf_layouts import scan
from tests.support.pdfs import line, pdf, rectangle
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers.pdf import read
from threegate.gates.fetch.normalize.text import Document, Unread

LAYER = line("recognised words", before="3 Tr") + line("below", y=680, before="3 Tr")
VISIBLE = b"".join(line("visible words on every line of a page", y=60 + 14 * n) for n in range(30))


def text(found: Document) -> str:
    return "\n".join(part.text.open_for_validation() for part in found.parts)


def refused(raw: bytes) -> tuple[str, str]:
    with pytest.raises(Unread) as caught:
        read(Untrusted(raw), answer())
    return caught.value.reason, caught.value.detail


# claim TG-C-545
def test_the_text_layer_of_a_scan_is_read_and_counted() -> None:
    found = read(Untrusted(scan(LAYER)), answer())
    assert text(found).split() == ["recognised", "words", "below"]
    assert found.found == {"recognised": 1}


def test_a_stamp_on_a_scan_changes_nothing() -> None:
    found = read(Untrusted(scan(LAYER + line("copied on Monday", y=20, size=8))), answer())
    assert text(found).split()[:3] == ["recognised", "words", "below"]
    assert found.found["recognised"] == 1


# Each is a page on which a reader sees something else than a scan.
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(scan(LAYER + VISIBLE), id="visible text over the picture"),
        pytest.param(scan(VISIBLE + LAYER), id="invisible text over visible text"),
        pytest.param(scan(LAYER, place=(0, 0, 300, 400)), id="a small picture"),
        pytest.param(scan(LAYER, pixels=(1, 1)), id="a picture of one point"),
        pytest.param(scan(LAYER, over=rectangle("1 1 1", 0, 0, 612, 792)), id="picture covered"),
        pytest.param(scan(LAYER, place=(0, 0, 612, 600)), id="text beside the picture"),
        pytest.param(scan(LAYER, state=b"/ca 0"), id="a picture without ink"),
        pytest.param(scan(LAYER, state=b"/BM/Multiply"), id="a blended picture"),
        pytest.param(pdf(LAYER + line("seen", y=500)), id="no picture"),
        pytest.param(scan(line("recognised words below", size=1, before="3 Tr")), id="tiny"),
        pytest.param(scan(line("recognised words below", before="7 Tr")), id="a clip"),
        pytest.param(scan(line("recognised words below", x=900, before="3 Tr")), id="off the page"),
    ],
)
# claim TG-C-545
def test_invisible_text_on_other_pages_stays_hidden(raw: bytes) -> None:
    control = read(Untrusted(scan(LAYER)), answer())
    assert "recognised words" in text(control), "control: the same layer on a scan is read"
    try:
        found = read(Untrusted(raw), answer())
    except Unread as exc:
        assert (exc.reason, exc.detail.split(";")[0]) == ("empty", "no visible text")
        return
    assert "recognised" not in text(found)
    assert found.found["hidden-text"] == 20
    assert "recognised" not in found.found


def test_a_scan_without_a_text_layer_says_what_it_needs() -> None:
    reason = "no text on any page; a scan needs text recognition (OCR) first"
    assert refused(scan(b"")) == ("scan", reason)
