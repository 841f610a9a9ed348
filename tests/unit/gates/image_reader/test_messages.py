"""What the box of images may say: numbers in bounds, and exactly as many points as they name."""

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.messages import (
    MAX_IMAGE_BYTES,
    MAX_SHOWN_SIDE,
    MAX_SIDE,
    Decode,
    NotRead,
    Pixels,
    parse_pixels,
)

RIGHT = Pixels(3, 2, 30, 20, bytes(18))


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        (b'"width":3', b'"width":4'),
        (b'"width":3', b'"width":0'),
        (b'"width":3', b'"width":true'),
        (b'"width":3', b'"width":%d' % (MAX_SHOWN_SIDE + 1)),
        (b'"height":2', b'"height":-2'),
        (b'"file_width":30', b'"file_width":2'),
        (b'"file_width":30', b'"file_width":%d' % (MAX_SIDE + 1)),
        (b'"kind":"pixels"', b'"kind":"decode"'),
    ],
)
# claim TG-C-226
def test_points_that_do_not_fit_their_sides_are_not_taken(said: bytes, instead: bytes) -> None:
    data = RIGHT.to_bytes()
    assert parse_pixels(Untrusted(data)) == RIGHT, "control"
    with pytest.raises(ProtocolBroken):
        parse_pixels(Untrusted(data.replace(said, instead)))


@pytest.mark.parametrize("behind", [b"x", b"<script>", b"\0\0\0"])
# claim TG-C-226
def test_nothing_comes_with_the_points(behind: bytes) -> None:
    data = RIGHT.to_bytes()
    with pytest.raises(ProtocolBroken):
        parse_pixels(Untrusted(data + behind))
    longer = data.replace(b'"parts":[18]', b'"parts":[%d]' % (18 + len(behind)))
    assert longer != data
    with pytest.raises(ProtocolBroken, match="not as many points as said"):
        parse_pixels(Untrusted(longer + behind))


def test_a_reason_is_one_of_the_list() -> None:
    with pytest.raises(ProtocolBroken, match="reason is not one of the known values"):
        NotRead("<b>because</b>")


def test_a_file_that_is_too_large_is_not_sent() -> None:
    assert Decode(bytes(MAX_IMAGE_BYTES)).to_bytes(), "control"
    with pytest.raises(ProtocolBroken, match="image is too large"):
        Decode(bytes(MAX_IMAGE_BYTES + 1))
