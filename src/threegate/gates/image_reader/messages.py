"""Messages between the host and the box that turns an image file of a run into plain pixels.

| message | sent by | answered by |
|---|---|---|
| `Decode` | host, the only one | `Pixels` or `NotRead`, and the box ends |

`Pixels` is three bytes for each point, row by row, and nothing else: no colour profile, no
text, no second picture.  The host writes the file that people open from these.

SECURITY
    The box has just read a stranger's image with native code, so the host believes nothing of
    what it says but numbers: sides within bounds, and exactly as many bytes as they need.
    Whatever an owned box sends is a picture, at worst another one.
"""

from dataclasses import dataclass, field
from typing import Final

from threegate.base import limits, wire
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    parts_of,
)

PROTOCOL: Final = "image-reader/1"
MAX_IMAGE_BYTES: Final = 16 * limits.MIB
MAX_SIDE: Final = 30_000  # of the file
MAX_PIXELS: Final = 25_000_000  # of the file; four bytes each while it is read
MAX_SHOWN_SIDE: Final = 1_600  # of what comes back; a larger one is made smaller
POINT_BYTES: Final = 3
MAX_DECODE_BYTES: Final = limits.MAX_HEADER_BYTES + MAX_IMAGE_BYTES
MAX_PIXELS_BYTES: Final = limits.MAX_HEADER_BYTES + POINT_BYTES * MAX_SHOWN_SIDE**2

OTHER_KIND: Final = "other-kind"
DAMAGED: Final = "damaged"
TOO_LARGE: Final = "too-large"
REASONS: Final = (DAMAGED, OTHER_KIND, TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Decode:
    """The bytes of one file."""

    image: bytes = field(repr=False)

    def __post_init__(self) -> None:
        need_bytes(self.image, MAX_IMAGE_BYTES, "the image")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "decode", {}, [self.image])


@dataclass(frozen=True, slots=True)
class Pixels:
    """A picture of `width` times `height` points, made from a file of other sides or the same."""

    width: int
    height: int
    file_width: int
    file_height: int
    points: bytes = field(repr=False)

    def __post_init__(self) -> None:
        need_number(self.width, MAX_SHOWN_SIDE, "width", least=1)
        need_number(self.height, MAX_SHOWN_SIDE, "height", least=1)
        need_number(self.file_width, MAX_SIDE, "file_width", least=self.width)
        need_number(self.file_height, MAX_SIDE, "file_height", least=self.height)
        size = POINT_BYTES * self.width * self.height
        need(type(self.points) is bytes and len(self.points) == size, "not as many points as said")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "file_height": self.file_height,
            "file_width": self.file_width,
            "height": self.height,
            "width": self.width,
        }
        return wire.pack(PROTOCOL, "pixels", fields, [self.points])


@dataclass(frozen=True, slots=True)
class NotRead:
    """Why there are no pixels: one word of a fixed list."""

    reason: str

    def __post_init__(self) -> None:
        need(self.reason in REASONS, "no such reason")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "not-read", {"reason": self.reason}, [])


def parse_decode(data: Untrusted[bytes]) -> Decode:
    """Return the file in `data`, or raise `ProtocolBroken`; used in the box."""
    packed = _unpacked(data, MAX_DECODE_BYTES, "decode")
    fields_of(packed)
    return Decode(*parts_of(packed, 1))


def parse_pixels(data: Untrusted[bytes]) -> Pixels | NotRead:
    """Return what a box says, or raise `ProtocolBroken`; used by the host."""
    packed = _unpacked(data, MAX_PIXELS_BYTES, "pixels", "not-read")
    if packed.kind == "not-read":
        parts_of(packed, 0)
        return NotRead(*fields_of(packed, "reason"))
    file_height, file_width, height, width = fields_of(
        packed, "file_height", "file_width", "height", "width"
    )
    return Pixels(width, height, file_width, file_height, *parts_of(packed, 1))


def _unpacked(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)
