"""Messages between the host and the sandbox that turns an image file of a run into plain pixels.

`Pixels` is three bytes for each point, row by row, and nothing else: no colour profile, no
text, no second picture.  The host writes the file that people open from these.

SECURITY
    The sandbox has just read a stranger's image with native code, so the host believes nothing of
    what it says but numbers: sides within bounds, and exactly as many bytes as they need.
    Whatever a compromised sandbox sends is a picture, at worst another one.
"""

from typing import Final

from threegate.base.limits import MIB
from threegate.base.message_parts import RawPart
from threegate.base.messages import Message, head, message, parser_of, part
from threegate.base.schema import Choice, Integer
from threegate.base.wire import need

PROTOCOL: Final = "image-reader/1"
MAX_IMAGE_BYTES: Final = 16 * MIB
MAX_SIDE: Final = 30_000  # of the file
MAX_PIXELS: Final = 25_000_000  # of the file; four bytes each while it is read
MAX_SHOWN_SIDE: Final = 1_600  # of what comes back; a larger one is made smaller
POINT_BYTES: Final = 3

OTHER_KIND: Final = "other-kind"
DAMAGED: Final = "damaged"
TOO_LARGE: Final = "too-large"


@message(PROTOCOL, "decode", sender="host", answer="`Pixels` or `NotRead`; the sandbox ends")
class Decode(Message):
    """An image file to decode."""

    image: bytes = part(RawPart(MAX_IMAGE_BYTES), "the bytes of the file")


@message(PROTOCOL, "pixels", sender="sandbox")
class Pixels(Message):
    """A picture of `width` times `height` points, made from a file of other sides or the same."""

    width: int = head(Integer(1, MAX_SHOWN_SIDE), "points in a row")
    height: int = head(Integer(1, MAX_SHOWN_SIDE), "rows")
    file_width: int = head(Integer(1, MAX_SIDE), "of the file, at least `width`")
    file_height: int = head(Integer(1, MAX_SIDE), "of the file, at least `height`")
    points: bytes = part(RawPart(POINT_BYTES * MAX_SHOWN_SIDE**2), "three bytes for each point")

    def check(self) -> None:
        need(self.file_width >= self.width, "a picture wider than its file")
        need(self.file_height >= self.height, "a picture higher than its file")
        size = POINT_BYTES * self.width * self.height
        need(len(self.points) == size, "not as many points as said")


@message(PROTOCOL, "not-read", sender="sandbox")
class NotRead(Message):
    """There are no pixels."""

    reason: str = head(Choice(DAMAGED, OTHER_KIND, TOO_LARGE), "why")


parse_decode: Final = parser_of(Decode)
parse_pixels: Final = parser_of(Pixels, NotRead)
