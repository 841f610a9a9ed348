"""Hostile PDFs on their way to a picture of a page: real sandboxes, and one that is owned.

What arbitrary Python in the sandbox can reach is asked by the sandbox's own suite, which attacks
the profile `page-drawer` like every other: test_sandbox_escape.py.
"""

import io
from functools import cache
from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.support.boxes import importable, start_with
from tests.support.holdings import chunks_of
from tests.support.pdfs import encrypted, flate_bomb, form_bomb, form_loop, line, pdf
from tests.support.policies import policy
from threegate.base.errors import GateUnavailable, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.page_drawer.messages import MAX_DRAWN_PIXELS, MAX_DRAWN_SIDE
from threegate.host import open_box
from threegate.host.report.page_drawer import PageDrawer, PagePicture
from threegate.host.report.pdf_file import as_png
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.box import Start
from threegate.sandbox.profiles import PAGE_DRAWER

TEXT = "The strength of sea ice was 1.31 MPa."
ORDINARY = pdf(line(TEXT))


def picture(data: bytes, words: str = TEXT) -> PagePicture:
    return PageDrawer(policy().bundle()).draw(Untrusted(data), "1", words, 100)


@cache
def is_drawn() -> bool:
    """Tell whether an ordinary page is drawn and its words are marked: the control of each test."""
    found = picture(ORDINARY)
    shown = Pillow.open(io.BytesIO(as_png(found.image)))
    return (shown.size, found.found, found.whole) == ((612, 792), True, True)


def hostile_image(width: int, height: int) -> bytes:
    """Return a page with an image that says it has very many points."""
    inline = f"q 612 0 0 792 0 0 cm BI /W {width} /H {height} /BPC 8 /CS /RGB ID x EI Q"
    return pdf(inline.encode() + b"\n" + line(TEXT))


BOMBS = {
    "content of 600 MB": flate_bomb(),
    "forms in forms": form_bomb(14),
    "a form in itself": form_loop(),
}
LIMITS = (
    "the page drawer ended: it crashed or reached a limit",
    "the page drawer ended: it took longer than allowed",  # on a busy machine
)


@pytest.mark.parametrize("name", BOMBS)
# claim TG-C-531
def test_a_bomb_ends_with_its_sandbox(name: str) -> None:
    assert is_drawn(), "control"
    assert len(BOMBS[name]) < 2**21, "control: a small file"
    with pytest.raises(GateUnavailable) as caught:
        picture(BOMBS[name])
    assert caught.value.message in LIMITS
    assert picture(ORDINARY).found, "the next page is drawn by another process"


ODD = {
    "an image of 10 billion points": hostile_image(100_000, 100_000),
    "a page of no size": pdf(line(TEXT), box="0 0 0 0"),
    "a page of numbers that are none": pdf(line(TEXT), box="0 0 1e39 1e39"),
    "the largest page": pdf(line(TEXT), box="0 0 14400 14400"),
}


@pytest.mark.parametrize("name", ODD)
# claim TG-C-531
def test_sides_that_a_pdf_invents_do_not_make_a_picture_larger_than_allowed(name: str) -> None:
    image = picture(ODD[name]).image
    assert image.width * image.height <= MAX_DRAWN_PIXELS
    assert max(image.width, image.height) <= MAX_DRAWN_SIDE


# claim TG-C-531
def test_a_pdf_that_needs_a_password_is_refused_in_words() -> None:
    assert is_drawn(), "control"
    with pytest.raises(ThreeGateError, match="the PDF needs a password"):
        picture(encrypted())


HIDDEN = b"HIDDEN-IN-THE-FILE"


# claim TG-C-530
def test_nothing_of_the_pdf_but_its_pixels_is_in_the_file() -> None:
    carrier = pdf(line(TEXT), title="HIDDEN-IN-THE-FILE") + b"\n%" + HIDDEN
    assert carrier.count(HIDDEN) == 1, "control: the other is in UTF-16"
    made = as_png(picture(carrier).image)
    assert chunks_of(made) == [b"IHDR", b"IDAT", b"IEND"]
    assert made == as_png(picture(ORDINARY).image), "byte for byte the same without it"


def owned(monkeypatch: pytest.MonkeyPatch, directory: Path, body: str) -> None:
    """Let the sandbox run another program, as if a PDF had taken it over."""
    head = (
        "from threegate.gates.page_drawer.messages import DrawnPage, PageNotDrawn\n"
        "def main():\n    read_message(0, 1 << 27)\n"
    )
    code = head + "\n".join(f"    {one}" for one in body.strip().splitlines()) + "\n"

    def start(*_: object, **__: object) -> Start:
        return start_with(directory, code, PAGE_DRAWER)

    monkeypatch.setattr(open_box, "Start", start)


RIGHT = "DrawnPage(1, 1, 'all', 2, 2, bytes(12)).to_bytes()"
LIES = {
    "a page for an answer": "write_message(3, b'<!DOCTYPE html><script>alert(1)</script>')",
    "an image for an answer": "write_message(3, b'\\x89PNG\\r\\n\\x1a\\n' + bytes(500))",
    "more points than said": f"write_message(3, {RIGHT} + b'xxx')",
    "other sides": f"write_message(3, {RIGHT}.replace(b'\"width\":2', b'\"width\":6'))",
    "words of its own": f"write_message(3, {RIGHT}.replace(b'\"all\"', b'\"<b>you won</b>\"'))",
    "two answers": f"[write_message(3, {RIGHT}) for _ in '12']",
    "no end": "while True: write_message(3, bytes(1 << 20))",
    "nothing": "pass",
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-530
def test_an_owned_sandbox_that_lies_shows_nothing(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_drawn(), "control: a sandbox that does not lie is heard"
    owned(monkeypatch, tmp_path, LIES[lie])
    with pytest.raises(GateUnavailable, match="the page drawer ended: it "):
        picture(ORDINARY)


# claim TG-C-530
def test_an_owned_sandbox_chooses_pixels_and_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = (b"<script>alert(1)</script><img src=x onerror=alert(2)>" * 8)[: 3 * 10 * 4]
    owned(
        monkeypatch,
        tmp_path,
        f"write_message(3, DrawnPage(1, 1, 'all', 10, 4, {spelled!r}).to_bytes())",
    )
    made = as_png(picture(ORDINARY).image)
    assert Pillow.open(io.BytesIO(made)).tobytes() == spelled, "control: it chose the pixels"
    assert chunks_of(made) == [b"IHDR", b"IDAT", b"IEND"]
    assert b"<script" not in made


# claim TG-C-531
def test_only_pdfium_is_there_and_the_sandbox_is_attacked_like_the_one_without(
    tmp_path: Path,
) -> None:
    natives = ("PIL.PngImagePlugin", "lxml.etree", "numpy", "selectolax.lexbor")
    there = importable(tmp_path, PAGE_DRAWER, ("pypdfium2_raw.bindings", *natives))
    assert there == ["pypdfium2_raw.bindings"], "no other native part can be loaded"
    ours = {item.name for item in applicable(PAGE_DRAWER.name)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
