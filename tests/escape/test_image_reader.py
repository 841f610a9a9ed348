"""Hostile images on their way into a report: real boxes, and a box that is owned.

What arbitrary Python in the box can reach is asked by the sandbox's own suite, which attacks the
profile `image-reader` like every other: test_sandbox_escape.py.
"""

import base64
import io
import re
import zlib
from functools import cache
from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.support.boxes import importable, start_with
from tests.support.holdings import (
    SCRIPT,
    SIDES,
    animated,
    bomb,
    chunk,
    chunks_of,
    huge,
    jpeg,
    png,
    points,
)
from tests.support.policies import policy
from tests.support.reports import drawn, small
from tests.support.samples import digest
from threegate.base.untrusted import Untrusted
from threegate.host import open_box
from threegate.host.provenance.headlines import Headline
from threegate.host.report.facts import Computed, LeftFile, ReportImage
from threegate.host.report.outputs import Viewer
from threegate.host.report.pdf_file import as_png
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.box import Start
from threegate.sandbox.profiles import IMAGE_READER

HIDDEN = b"HIDDEN-IN-THE-FILE"


def view(data: bytes) -> ReportImage | str:
    return Viewer(policy().bundle())(Untrusted(data))


def shown(data: bytes) -> bytes:
    """Return the file that a report holds for an image."""
    found = view(data)
    assert isinstance(found, ReportImage), found
    return as_png(found)


@cache
def ordinary() -> bytes:
    """Return what is shown of a file without anything hostile."""
    return shown(png())


def decoded(data: bytes) -> bytes:
    return Pillow.open(io.BytesIO(data)).tobytes()


CARRIERS = {
    "text": png(chunk(b"tEXt", b"Comment\0" + HIDDEN)),
    "packed text": png(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(HIDDEN))),
    "colour profile": png(chunk(b"iCCP", b"icc\0\0" + zlib.compress(HIDDEN * 20))),
    "private chunk": png(chunk(b"prIv", HIDDEN)),
    "page behind the end": png(behind=b"<!DOCTYPE html>" + SCRIPT + HIDDEN),
    "PDF behind the end": png(behind=b"%PDF-1.7\n" + HIDDEN),
}


@pytest.mark.parametrize("name", CARRIERS)
# claim TG-C-226
def test_nothing_of_a_file_but_its_points_is_shown(name: str) -> None:
    data = CARRIERS[name]
    assert HIDDEN in data or zlib.compress(HIDDEN)[:8] in data or name == "colour profile", (
        "control"
    )
    found = shown(data)
    assert decoded(found) == points(), "control: the picture is the one of the file"
    assert chunks_of(found) == [b"IHDR", b"IDAT", b"IEND"]
    assert found == ordinary(), "byte for byte what is shown of the same points without it"


# claim TG-C-226
def test_of_an_animation_and_of_a_photo_one_still_picture_is_shown() -> None:
    assert b"fdAT" in animated(), "control"
    assert decoded(shown(animated())) == points()
    photo = jpeg(comment=HIDDEN, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0" + HIDDEN)
    assert photo.count(HIDDEN) == 2, "control"
    found = shown(photo)
    assert chunks_of(found) == [b"IHDR", b"IDAT", b"IEND"]
    assert HIDDEN not in found
    assert Pillow.open(io.BytesIO(found)).size == SIDES


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (huge(65535, 65535), "more than 25000000 points"),
        (png()[: len(png()) // 2], "it is damaged"),
        (b"GIF89a" + png(), "it is neither a PNG nor a JPEG file"),
        (b"<svg/>", "it is neither a PNG nor a JPEG file"),
    ],
    ids=["too many points", "half a file", "another format before it", "svg"],
)
# claim TG-C-227
def test_a_hostile_image_is_refused_in_words(data: bytes, words: str) -> None:
    assert decoded(ordinary()) == points(), "control: an ordinary one is shown"
    found = view(data)
    assert isinstance(found, str)
    assert words in found


# claim TG-C-227
def test_a_bomb_ends_in_its_box_and_leaves_an_ordinary_one_alone() -> None:
    data = bomb()
    assert len(data) < 2**21, "control: a small file"
    found = view(data)
    assert found == "it is damaged, or not a picture that can be decoded"
    assert decoded(shown(png())) == points()


def owned(monkeypatch: pytest.MonkeyPatch, directory: Path, code: str) -> None:
    """Let the decoder's box run another program, as one does that an image took over."""

    def start(*_: object, **__: object) -> Start:
        return start_with(directory, code, IMAGE_READER)

    monkeypatch.setattr(open_box, "Start", start)


LIES = {
    "a page for an answer": "write_message(3, b'<!DOCTYPE html><script>alert(1)</script>')",
    "an image for an answer": "write_message(3, b'\\x89PNG\\r\\n\\x1a\\n' + bytes(500))",
    "more points than said": "write_message(3, Pixels(2, 2, 2, 2, bytes(12)).to_bytes() + b'xxx')",
    "sides of nobody": """
said = Pixels(2, 2, 2, 2, bytes(12)).to_bytes()
write_message(3, said.replace(b'"width":2', b'"width":6').replace(b'"height":2', b'"height":1'))
""",
    "two answers": "[write_message(3, Pixels(2, 2, 2, 2, bytes(12)).to_bytes()) for _ in '12']",
    "no end": "while True: write_message(3, bytes(1 << 20))",
    "nothing": "pass",
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-226
def test_an_owned_decoder_that_lies_shows_nothing(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded(ordinary()) == points(), "control: a decoder that does not is heard"
    head = (
        "from threegate.gates.image_reader.messages import Pixels\n"
        "def main():\n    read_message(0, 1 << 25)\n"
    )
    body = "\n".join(f"    {line}" for line in LIES[lie].strip().splitlines())
    owned(monkeypatch, tmp_path, f"{head}{body}\n")
    assert isinstance(view(png()), str)


# claim TG-C-226
def test_an_owned_decoder_puts_no_text_into_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = (b"<script>alert(1)</script><img src=x onerror=alert(2)>" * 8)[: 3 * 10 * 4]
    code = f"""
from threegate.gates.image_reader.messages import Pixels
def main():
    read_message(0, 1 << 25)
    write_message(3, Pixels(10, 4, 10, 4, {spelled!r}).to_bytes())
"""
    owned(monkeypatch, tmp_path, code)
    found = view(png())
    assert isinstance(found, ReportImage)
    assert decoded(as_png(found)) == spelled, "control: it chose the points"
    file = LeftFile("plot.png", 9, digest("x"), "", found)
    page = drawn(
        small(computed=(Computed(Headline("res-" + digest("r")), (file,)),)), "html"
    ).decode()
    (source,) = re.findall(r'<img [^>]*src="([^"]*)"', page)
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == as_png(found)
    assert page.count("<img") == 1
    assert "<script" not in page
    assert "img-src data:;" in page


# claim TG-C-227
def test_only_this_box_has_the_library_and_it_is_attacked_like_the_one_without(
    tmp_path: Path,
) -> None:
    natives = ("PIL._webp", "PIL._avif", "PIL._imagingft", "lxml.etree", "numpy")
    there = importable(tmp_path, IMAGE_READER, ("PIL.PngImagePlugin", *natives))
    assert there == ["PIL.PngImagePlugin"], "no other native part can be loaded"
    ours = {item.name for item in applicable(IMAGE_READER.name)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
