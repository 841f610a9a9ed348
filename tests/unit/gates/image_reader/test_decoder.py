"""Image files become points of three bytes, or a word that says why not."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.support.holdings import (
    SCRIPT,
    SIDES,
    SIGNATURE,
    animated,
    chunk,
    head,
    huge,
    jpeg,
    png,
    points,
    saved,
)
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.decoder import points_of
from threegate.gates.image_reader.messages import (
    DAMAGED,
    MAX_PIXELS,
    MAX_SHOWN_SIDE,
    MAX_SIDE,
    OTHER_KIND,
    TOO_LARGE,
    NotRead,
    Pixels,
)


def read(data: bytes) -> Pixels | NotRead:
    return points_of(Untrusted(data))


def seen(data: bytes) -> bytes:
    found = read(data)
    assert isinstance(found, Pixels), found
    return found.points


def test_a_png_file_is_its_points() -> None:
    assert read(png()) == Pixels(*SIDES, *SIDES, points())


@pytest.mark.parametrize(
    "between",
    [
        chunk(b"tEXt", b"Comment\0" + SCRIPT),
        chunk(b"zTXt", b"Comment\0\0" + zlib.compress(SCRIPT)),
        chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + SCRIPT),
        chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\0"),
        chunk(b"iCCP", b"icc\0\0" + zlib.compress(b"\0" * 200)),
        chunk(b"gAMA", struct.pack(">I", 1)),
        chunk(b"prIv", SCRIPT),
    ],
)
def test_what_is_not_a_point_has_no_say(between: bytes) -> None:
    assert seen(png(between)) == points()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_is_read(mode: str) -> None:
    white = {"1": 1, "LA": (255, 255), "RGB": (255,) * 3, "RGBA": (255,) * 4, "I;16": 65535}
    picture = Image.new(mode, (3, 2), white.get(mode, 255))  # type: ignore[arg-type]
    assert len(set(seen(saved(picture)))) <= 3, "one colour"
    if mode != "P":
        assert set(seen(saved(picture))) == {255}


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_every_kind_of_jpeg_is_read(mode: str) -> None:
    assert set(seen(saved(Image.new(mode, (16, 16), 0), "JPEG"))) <= {0, 255}


def test_what_is_transparent_is_white() -> None:
    assert set(seen(saved(Image.new("RGBA", (4, 4), (200, 0, 0, 0))))) == {255}
    half = seen(saved(Image.new("RGBA", (1, 1), (0, 0, 0, 128))))
    assert half == bytes((127,) * 3)


def test_of_an_animation_the_first_picture_is_read() -> None:
    assert seen(animated()) == points()


def test_a_large_picture_is_made_smaller_and_says_so() -> None:
    found = read(saved(Image.new("RGB", (4000, 1000))))
    assert isinstance(found, Pixels)
    assert (found.width, found.height) == (MAX_SHOWN_SIDE, MAX_SHOWN_SIDE // 4)
    assert (found.file_width, found.file_height) == (4000, 1000)


@pytest.mark.parametrize(
    "sides",
    [(MAX_SIDE + 1, 1), (1, MAX_SIDE + 1), (5001, 5000), (2**31 - 1, 2**31 - 1), (65535, 65535)],
)
# claim TG-C-227
def test_a_picture_of_too_many_points_is_refused_by_its_head(sides: tuple[int, int]) -> None:
    assert read(huge(5000, MAX_PIXELS // 5000)) == NotRead(DAMAGED), "control: these sides are read"
    assert read(huge(*sides)) == NotRead(TOO_LARGE)


@pytest.mark.parametrize(
    "data",
    [
        SIGNATURE,
        SIGNATURE + head(3, 2),
        png()[:-30],
        png()[:60],
        png().replace(b"IDAT", b"IDAX"),
        head(3, 2),
        SIGNATURE + chunk(b"IHDR", b"\0" * 13) + png()[33:],
        jpeg()[: len(jpeg()) // 2],
        b"\xff\xd8\xff\xe0",
        SIGNATURE + b"\xff" * 500,
    ],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    found = read(data)
    assert isinstance(found, NotRead)
    assert found.reason == (OTHER_KIND if data == head(3, 2) else DAMAGED)


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF", "WEBP", "ICO", "PPM"])
# claim TG-C-227
def test_no_other_format_is_decoded_though_the_library_could(form: str) -> None:
    data = saved(Image.new("RGB", (16, 16)), form)
    assert read(data) == NotRead(OTHER_KIND)
    assert read(SIGNATURE + data) == NotRead(DAMAGED), "nor by its neighbour's name"


def test_svg_is_no_image() -> None:
    assert read(b'<svg xmlns="http://www.w3.org/2000/svg"/>') == NotRead(OTHER_KIND)


def test_the_library_is_never_asked_which_format_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    photo = jpeg()
    monkeypatch.setattr(Image, "open", asked)
    monkeypatch.setattr(Image, "preinit", asked)
    monkeypatch.setattr(Image, "init", asked)
    assert seen(png()) == points()
    assert isinstance(read(photo), Pixels)
    with pytest.raises(AssertionError, match="asked"):  # control: that is how it would be
        saved(Image.new("RGB", (1, 1)))


@settings(max_examples=60)
@given(st.data())
def test_any_change_of_a_file_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([png(), jpeg(), animated()])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(read(bytes(raw)), Pixels | NotRead)
