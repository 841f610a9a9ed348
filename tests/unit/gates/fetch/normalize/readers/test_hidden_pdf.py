"""What nobody sees on a page of a PDF: taken out, counted, and said where it is not known."""

import math
import re
import time
import zlib
from unittest.mock import patch

import pytest

from tests.support import odd_pdfs
from tests.support.pages import answer
from tests.support.pdfs import line, rectangle
from tests.support.pdfs import pdf as pdf_of
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import hidden_pdf, pdf
from threegate.gates.fetch.normalize.readers.hidden_pdf import judge
from threegate.gates.fetch.normalize.readers.pdf import read
from threegate.gates.fetch.normalize.readers.pdf_boxes import Box
from threegate.gates.fetch.normalize.readers.pdf_dictionaries import count_doubts
from threegate.gates.fetch.normalize.readers.pdf_objects import IMAGE, PATH, SHADING, TEXT, Drawn
from threegate.gates.fetch.normalize.text import Document, Unread

MAX_SECONDS = 10.0  # for what takes a tenth of one, and minutes with the square of the size
PAGE: Box = (0, 0, 600, 800)
AT: Box = (100, 100, 200, 112)
ALL: Box = (50, 50, 300, 300)
BLACK, WHITE, RED = (0, 0, 0), (255, 255, 255), (250, 10, 10)

HIDDEN = {
    "no ink": line("HIDE", before="3 Tr"),
    "white": line("HIDE", before="1 1 1 rg"),
    "nearly white": line("HIDE", before="0.97 0.97 0.97 rg"),
    "white outline": line("HIDE", before="1 Tr 1 1 1 RG"),
    "tiny": line("HIDE", size=1),
    "tiny by its matrix": b"q 0.1 0 0 0.1 72 700 cm BT /F1 12 Tf 0 0 Td (HIDE) Tj ET Q",
    "thin by its matrix": b"q 0.01 0 0 1 72 700 cm BT /F1 12 Tf 0 0 Td (HIDE) Tj ET Q",
    "left of the page": line("HIDE", x=-500),
    "above the page": line("HIDE", y=900),
    "painted over": line("HIDE") + rectangle("1 1 1", 50, 690, 300, 40),
    "black on black": rectangle("0 0 0", 50, 690, 300, 40) + line("HIDE"),
    "white on white on black": rectangle("0 0 0", 50, 690, 300, 40)
    + rectangle("1 1 1", 50, 690, 300, 40)
    + line("HIDE", before="1 1 1 rg"),
    "clipped": b"q 0 0 1 1 re W n " + line("HIDE") + b"Q",
}
SHOWN = {
    "plain": line("SEEN"),
    "white on black": rectangle("0 0 0", 50, 690, 300, 40) + line("SEEN", before="1 1 1 rg"),
    "grey": line("SEEN", before="0.6 0.6 0.6 rg"),
    "outline": line("SEEN", before="1 Tr"),
    "small": line("SEEN", size=3),
    "beside a box": line("SEEN") + rectangle("1 1 1", 300, 100, 50, 50),
    "on a white sheet": rectangle("1 1 1", 0, 0, 612, 792) + line("SEEN"),
    "inside its clip": b"q 0 0 600 780 re W n " + line("SEEN") + b"Q",
    "turned": b"BT /F1 12 Tf 0 1 -1 0 300 300 Tm (SEEN) Tj ET",
}


def text(box: Box = AT, colour: tuple[int, int, int] = BLACK, **other: object) -> Drawn:
    given = {"handle": 7, "alpha": 255, "size": 10.0, **other}
    return Drawn(TEXT, box=box, colour=colour, **given)  # type: ignore[arg-type]


def shape(colour: tuple[int, int, int], *, box: Box = ALL, kind: int = PATH, alpha: int = 255,
          simple: bool = True) -> Drawn:  # fmt: skip
    return Drawn(kind, 9, box, colour, alpha, simple=simple)


@pytest.mark.parametrize("way", HIDDEN)
# claim TG-C-122
def test_hidden_text_is_taken_out_and_counted(way: str) -> None:
    content = b"\n".join([line("before", y=740), HIDDEN[way], line("after", y=500)])
    found = read(Untrusted(pdf_of(content)), answer())
    shown = found.parts[0].text.open_for_validation()
    assert shown.split() == ["before", "after"]
    assert found.found == {"hidden-text": 4}


@pytest.mark.parametrize("way", SHOWN)
def test_text_that_is_seen_stays(way: str) -> None:
    found = read(Untrusted(pdf_of(SHOWN[way] + b"\n" + line("after", y=500))), answer())
    assert sorted(found.parts[0].text.open_for_validation().split()) == ["SEEN", "after"]
    assert not found.found


def test_a_line_that_runs_off_the_page_ends_at_its_edge() -> None:
    found = read(
        Untrusted(pdf_of(line("shown and then a long way off HIDDENHIDDEN", x=440))), answer()
    )
    shown = found.parts[0].text.open_for_validation()
    assert shown.startswith("shown and then")
    assert "HIDDEN" not in shown
    assert found.found["hidden-text"] >= 12


@pytest.mark.parametrize(
    "ground",
    [
        shape(WHITE, kind=IMAGE),
        shape(BLACK, kind=SHADING),
        shape(BLACK, simple=False),
        shape(BLACK, alpha=100),
    ],
)
# claim TG-C-122
def test_on_a_ground_of_unknown_look_it_is_undecided(ground: Drawn) -> None:
    verdict = judge([ground, text()], PAGE)
    assert (verdict.hidden, verdict.undecided) == (set(), 1)
    assert judge([text()], PAGE).undecided == 0, "control: on paper it is not"


def test_under_a_picture_it_is_undecided() -> None:
    verdict = judge([text(), shape(WHITE, kind=IMAGE)], PAGE)
    assert (verdict.hidden, verdict.undecided) == (set(), 1)


def test_a_shape_of_another_colour_changes_nothing_for_dark_text() -> None:
    verdict = judge([shape(RED, simple=False), text()], PAGE)
    assert (verdict.hidden, verdict.undecided) == (set(), 0)


def test_a_white_sheet_over_everything_begins_anew() -> None:
    covered, over = shape(BLACK), shape(WHITE, box=PAGE)
    assert judge([covered, over, text()], PAGE).hidden == set()
    assert judge([covered, text()], PAGE).hidden == {7}, "control"


def test_a_place_that_is_no_number_is_nowhere_on_the_page() -> None:
    assert judge([text(box=(math.nan, math.nan, math.nan, math.nan))], PAGE).hidden == {7}


def test_too_many_comparisons_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    things = [shape(WHITE, simple=False) for _ in range(50)] + [text(colour=WHITE)]
    assert judge(things, PAGE).undecided == 1
    monkeypatch.setattr(hidden_pdf, "MAX_COMPARISONS", 40)
    assert judge([*things, *([shape(WHITE)] * 50)], PAGE).undecided > 1


@pytest.mark.parametrize("way", odd_pdfs.UNDECIDED)
# claim TG-C-423
def test_ink_that_is_not_understood_is_undecided(way: str) -> None:
    found = read(Untrusted(odd_pdfs.UNDECIDED[way]), answer())
    assert "HIDE" in found.parts[0].text.open_for_validation()
    assert found.found.keys() == {"hidden-undecided"}
    control = read(Untrusted(odd_pdfs.CONTROL), answer())
    assert "SEEN" in control.parts[0].text.open_for_validation()
    assert not control.found


@pytest.mark.parametrize("way", odd_pdfs.PAIRS)
# claim TG-C-423
def test_a_trick_is_counted_and_its_harmless_twin_is_not(way: str) -> None:
    trick, twin = odd_pdfs.PAIRS[way]
    found = read(Untrusted(trick), answer())
    assert found.found["hidden-undecided"] >= 1
    found = read(Untrusted(twin), answer())
    assert "HIDE" in found.parts[0].text.open_for_validation().split(), "control"
    assert not found.found


@pytest.mark.parametrize("ink", odd_pdfs.INKS)
# claim TG-C-423
def test_text_that_is_not_seen_in_any_kind_of_ink_is_removed_or_counted(ink: str) -> None:
    unseen, seen = (read(Untrusted(raw), answer()) for raw in odd_pdfs.INKS[ink])
    if ink == "Pattern":  # what it paints is not known
        assert unseen.found == seen.found == {"hidden-undecided": 1}
    else:
        assert (unseen.found, seen.found) == ({"hidden-text": 4}, {})
        assert "HIDE" not in unseen.parts[0].text.open_for_validation()
    assert seen.parts[0].text.open_for_validation().split() == ["before", "HIDE"], "control"


def test_text_after_letters_that_clip_is_undecided() -> None:
    content = b"\n".join([line("before", y=740), line("HIDE", before="7 Tr"), line("after", y=500)])
    found = read(Untrusted(pdf_of(content)), answer())
    assert found.parts[0].text.open_for_validation().split() == ["before", "after"]
    assert found.found == {"hidden-text": 4, "hidden-undecided": 1}


@pytest.mark.parametrize("gap", [b" ", b"%\n", b"% x\r" * 150, b"%" + b"x" * 300 + b"\n"])
@pytest.mark.parametrize(
    ("named", "harmless"),
    [
        (b"/OC@5@0@R", b"/OX@5@0@R"),
        (b"/DeviceN@[/None]", b"/DeviceX@[/None]"),
        (b"/PaintType@2 ", b"/PaintTypes@2 "),
        (b"/TR@<<", b"/TRX@<<"),
        (b"/Type@5@0@R", b"/Type@/Page"),
    ],
)
# claim TG-C-423
def test_comments_before_a_value_hide_no_doubt(named: bytes, harmless: bytes, gap: bytes) -> None:
    assert count_doubts(b"<<" + named.replace(b"@", gap) + b">>") == 1
    if gap in (b" ", b"%\n"):  # more comments, or longer ones, are a doubt in any case
        assert count_doubts(b"<<" + harmless.replace(b"@", gap) + b">>") == 0, "control"


@pytest.mark.parametrize(
    "piece",
    [
        *(b"/OC" + b"%\n" * 5_000, b"/Type" + b"%\n" * 5_000),
        *(b"/DeviceN[", b"/DeviceN[]", b"/OC%", b"/OC ", b"/ObjStm ", b"/ObjStm stream\n"),
        *(b"/ObjStm stream\n" + zlib.compress(b"1 0 x"), b"/Type ", b"/PaintType 1 ", b"/TR 1 "),
    ],
)
# claim TG-C-423
def test_looking_for_names_takes_time_in_proportion_to_the_file(piece: bytes) -> None:
    start = time.process_time()
    count_doubts(piece * (4 * 2**20 // len(piece)))
    assert time.process_time() - start < MAX_SECONDS


def _looked_at_closely(raw: bytes) -> Document:
    with patch.object(pdf, "is_seen", lambda *_: False):
        return read(Untrusted(raw), answer())


@pytest.mark.parametrize(
    "raw",
    [
        *(pdf_of(content) for content in (*HIDDEN.values(), *SHOWN.values())),
        *odd_pdfs.UNDECIDED.values(),
        *(raw for pair in (*odd_pdfs.PAIRS.values(), *odd_pdfs.INKS.values()) for raw in pair),
    ],
)
# claim TG-C-122, TG-C-423
def test_a_page_that_is_judged_at_once_is_judged_as_it_is_thing_by_thing(raw: bytes) -> None:
    try:
        closely = _looked_at_closely(raw)
    except Unread as exc:
        with pytest.raises(Unread, match=re.escape(exc.detail)):
            read(Untrusted(raw), answer())
        return
    assert read(Untrusted(raw), answer()) == closely


def test_an_ordinary_page_is_judged_at_once() -> None:
    """The control of the test above: `judge` is not called for a page of plain text."""
    with patch.object(pdf, "judge", side_effect=AssertionError):
        read(Untrusted(pdf_of(line("plain") + line("text", y=600))), answer())
        with pytest.raises(AssertionError):
            read(Untrusted(pdf_of(line("plain") + line("HIDE", before="1 g"))), answer())
