"""A page as pixels: its size, what is on it, and where the marker lies."""

from collections import Counter

import pytest

from tests.support.pdfs import PdfWriter, cycle, encrypted, line, many_pages, pdf, rectangle
from threegate.gates.page_drawer.drawing import draw
from threegate.gates.page_drawer.messages import (
    ALL,
    MAX_DRAWN_PIXELS,
    MAX_DRAWN_SIDE,
    NONE,
    PART,
    DrawnPage,
    DrawPage,
    PageNotDrawn,
)

WHITE, MARKED, RED = (255, 255, 255), (255, 226, 92), (255, 0, 0)
TEXT = "The strength of sea ice was 1.31 MPa."


def drawn(data: bytes, page: str = "1", words: str = "", scale: int = 100) -> DrawnPage:
    found = draw(DrawPage(page, scale, words, data))
    assert isinstance(found, DrawnPage), found
    return found


def pixel(found: DrawnPage, x: int, y: int) -> tuple[int, ...]:
    at = 3 * (y * found.width + x)
    return tuple(found.points[at : at + 3])


def colours(found: DrawnPage) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(found.points[channel::3] for channel in range(3)), strict=True))


def marked_box(data: bytes, words: str) -> tuple[int, int, int, int]:
    """Return the rectangle around every pixel that marks change: left, top, right, bottom."""
    plain, found = drawn(data), drawn(data, words=words)
    assert found.marked == ALL
    pixels = zip(
        *(one.points[channel::3] for one in (plain, found) for channel in range(3)), strict=True
    )
    changed = [at for at, colour in enumerate(pixels) if colour[:3] != colour[3:]]
    across, down = [at % found.width for at in changed], [at // found.width for at in changed]
    return min(across), min(down), max(across), max(down)


def test_a_page_is_drawn_in_its_colours() -> None:
    found = drawn(pdf(rectangle("1 0 0", 0, 0, 306, 792)))
    assert (found.width, found.height, found.page, found.pages) == (612, 792, 1, 1)
    assert (pixel(found, 10, 10), pixel(found, 600, 10)) == (RED, WHITE)
    assert drawn(pdf(b""), scale=50).width == 306


def test_the_words_are_marked_and_nothing_else() -> None:
    data = pdf(line(TEXT, y=700) + line("Another line of other words.", y=400))
    assert colours(drawn(data, words="sea ice was"))[MARKED] > 100, "white became yellow"
    left, top, right, bottom = marked_box(data, "sea ice was")
    assert 792 - 720 < top < bottom < 792 - 690, "on the line, in pixels from above"
    assert 72 < left < right < 300
    assert marked_box(data, "Another line")[1] > 380, "control: other words, another place"


def test_words_that_are_not_there_leave_the_page_as_it_is() -> None:
    data = pdf(line(TEXT))
    found = drawn(data, words="zebras and other animals")
    assert (found.marked, found.points) == (NONE, drawn(data).points)


def test_a_part_of_a_long_quote_is_marked() -> None:
    found = drawn(pdf(line(TEXT)), words="The strength of sea ice was 99 in some other place")
    assert found.marked == PART
    assert colours(found)[MARKED] > 100


def _turned(rotation: int, crop: bytes = b"") -> bytes:
    data = pdf(line(TEXT, x=200, y=500))
    return data.replace(b"/Type/Page/", b"/Type/Page/Rotate %d%b/" % (rotation, crop), 1)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_marks_follow_the_rotation_of_the_page(rotation: int) -> None:
    data = _turned(rotation)
    found = drawn(data, words="sea ice")
    left, top, right, bottom = marked_box(data, "sea ice")
    upright = rotation in (0, 180)
    assert (found.width < found.height) == upright
    assert (right - left > bottom - top) == upright, "the words run along the line"
    dark = [
        sum(pixel(found, x, y)) < 250
        for x in range(left, right + 1)
        for y in range(top, bottom + 1)
    ]
    assert sum(dark) > 20, "there are letters under the marker"


def test_marks_follow_the_crop_box() -> None:
    data = _turned(0, b"/CropBox[150 400 550 600]")
    assert (drawn(data).width, drawn(data).height) == (400, 200)
    left, top, _, bottom = marked_box(data, "sea ice")
    assert 50 < left < 250
    assert 80 < top < bottom < 110


@pytest.mark.parametrize("box", ["0 0 14400 14400", "0 0 100000 10", "0 0 3000 9000"])
def test_a_large_page_is_drawn_smaller(box: str) -> None:
    found = drawn(pdf(line(TEXT), box=box), scale=400)
    assert max(found.width, found.height) <= MAX_DRAWN_SIDE
    assert found.width * found.height <= MAX_DRAWN_PIXELS


def labelled() -> bytes:
    data = pdf(*(line(f"This is sheet {number}.") for number in range(1, 6)))
    ranges = b"/PageLabels<</Nums[0<</S/r>>2<</S/D/St 117>>4<</P(A-)/S/D>>]>>"
    # The references behind the catalogue move; PDFium rebuilds the table.
    return data.replace(b"/Type/Catalog", b"/Type/Catalog" + ranges, 1)


@pytest.mark.parametrize(
    ("name", "number"), [("2", 2), ("ii", 2), ("117", 3), ("118", 4), ("A-1", 5), (" i ", 1)]
)
def test_a_page_is_named_by_its_number_or_else_by_its_label(name: str, number: int) -> None:
    found = drawn(labelled(), page=name, words=f"This is sheet {number}.")
    assert (found.page, found.pages, found.marked) == (number, 5, ALL)


@pytest.mark.parametrize("name", ["0", "6", "119", "x", "9" * 32, "-1"])
def test_a_page_that_is_not_there_is_refused(name: str) -> None:
    assert draw(DrawPage(name, 100, "", labelled())) == PageNotDrawn("no-such-page", 5)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", PageNotDrawn("damaged", 0)),
        (b"<!DOCTYPE html>", PageNotDrawn("damaged", 0)),
        (b"%PDF-1.7\n1 0 obj\n<</Type/Cat", PageNotDrawn("damaged", 0)),
        (encrypted(), PageNotDrawn("encrypted", 0)),
    ],
    ids=["nothing", "a page of the web", "half a file", "a password"],
)
def test_a_file_that_cannot_be_opened_is_refused(data: bytes, why: PageNotDrawn) -> None:
    assert draw(DrawPage("1", 100, "", data)) == why


def test_a_tree_of_pages_without_end_is_refused() -> None:
    found = draw(DrawPage("1", 100, "", cycle()))
    assert isinstance(found, PageNotDrawn)
    assert found.reason == "damaged"


def test_the_last_of_many_pages_is_drawn() -> None:
    found = drawn(many_pages(3000), page="3000", words="the same on every page")
    assert (found.page, found.pages, found.marked) == (3000, 3000, ALL)


def test_a_script_in_the_document_is_not_run_and_no_form_is_filled() -> None:
    writer = PdfWriter()
    writer.objects[1] = (
        b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(this.getField('x').value=1)>>>>"
    )
    writer.objects[2] = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    writer.objects[3] = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 50 50]>>"
    assert colours(drawn(writer.to_bytes())) == {WHITE: 2500}
