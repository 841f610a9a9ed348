"""What the sandbox that draws pages may say: numbers in bounds, and as many points as they name."""

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.page_drawer.messages import (
    MAX_DRAWN_PIXELS,
    MAX_DRAWN_SIDE,
    MAX_LABEL_CHARS,
    PIXEL_BYTES,
    DrawnPage,
    DrawPage,
    PageNotDrawn,
    parse_drawn,
)
from threegate.sandbox.profiles import PAGE_DRAWER

RIGHT = DrawnPage(3, 12, "all", 3, 2, bytes(18))


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        (b'"width":3', b'"width":4'),
        (b'"width":3', b'"width":0'),
        (b'"width":3', b'"width":true'),
        (b'"width":3', b'"width":%d' % (MAX_DRAWN_SIDE + 1)),
        (b'"height":2', b'"height":-2'),
        (b'"page":3', b'"page":13'),
        (b'"page":3', b'"page":"iv"'),
        (b'"marked":"all"', b'"marked":"<b>"'),
        (b'"kind":"drawn"', b'"kind":"draw"'),
    ],
)
# claim TG-C-530
def test_points_that_do_not_fit_their_sides_are_not_taken(said: bytes, instead: bytes) -> None:
    data = RIGHT.to_bytes()
    assert parse_drawn(Untrusted(data)) == RIGHT, "control"
    assert said in data, "control"
    with pytest.raises(ProtocolBroken):
        parse_drawn(Untrusted(data.replace(said, instead)))


# claim TG-C-530
def test_nothing_comes_with_the_points() -> None:
    data = RIGHT.to_bytes()
    with pytest.raises(ProtocolBroken):
        parse_drawn(Untrusted(data + b"<script>"))
    longer = data.replace(b'"parts":[18]', b'"parts":[26]')
    assert longer != data
    with pytest.raises(ProtocolBroken, match="not as many points as said"):
        parse_drawn(Untrusted(longer + b"<script>"))


def test_a_reason_is_one_of_the_list() -> None:
    with pytest.raises(ProtocolBroken, match="reason is not one of the known values"):
        PageNotDrawn("<b>because</b>", 0)


def test_a_page_is_named_in_a_few_characters() -> None:
    assert DrawPage("i" * MAX_LABEL_CHARS, 100, "", b"").to_bytes(), "control"
    for page in ("", "i" * (MAX_LABEL_CHARS + 1), "i\nv", "i\u202ev"):
        with pytest.raises(ProtocolBroken, match="page"):
            DrawPage(page, 100, "", b"")


def test_the_largest_picture_fits_into_the_output_of_the_sandbox() -> None:
    assert PAGE_DRAWER.output_bytes > PIXEL_BYTES * MAX_DRAWN_PIXELS
