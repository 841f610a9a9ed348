"""From an image file to points of three bytes: PNG and JPEG, the first picture of either.

SECURITY
    Hands hostile bytes to native code (Pillow's core, zlib, libjpeg).  Two readers are called by
    name and the list that Pillow would try one by one is never asked, so no other format is
    reachable.  Sides are looked at before a point is decoded.  If a reader is wrong, this
    process is owned: it has no network, no file and one answer, which is a picture.
"""

import io
from collections.abc import Callable
from typing import Final

from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from threegate.base.untrusted import Untrusted
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

_READERS: Final[tuple[tuple[bytes, Callable[[io.BytesIO], ImageFile]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", PngImageFile),
    (b"\xff\xd8\xff", JpegImageFile),
)
_DEEP: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # grey of more than 8 bits


def points_of(image: Untrusted[bytes]) -> Pixels | NotRead:
    """Return the points of the first picture in a file, or why there are none."""
    untrusted = image.open_for_validation()
    reader = next((read for head, read in _READERS if untrusted.startswith(head)), None)
    if reader is None:
        return NotRead(OTHER_KIND)
    try:
        opened = reader(io.BytesIO(untrusted))
        if not _fits(*opened.size):
            return NotRead(TOO_LARGE)
        opened.load()
        plain = _plain(opened)
    except MemoryError:
        return NotRead(TOO_LARGE)
    except Exception:  # noqa: BLE001  # the library raises nearly anything for a damaged file
        return NotRead(DAMAGED)
    return Pixels(*plain.size, *opened.size, plain.tobytes())


def _fits(width: int, height: int) -> bool:
    return 1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and width * height <= MAX_PIXELS


def _plain(image: Image.Image) -> Image.Image:
    """Return a picture of three bytes for each point, on white where the file is transparent."""
    if image.mode in _DEEP:
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    image = image.convert("RGBA")
    image.thumbnail((MAX_SHOWN_SIDE, MAX_SHOWN_SIDE))
    ground = Image.new("RGB", image.size, (255, 255, 255))
    ground.paste(image, mask=image.getchannel("A"))
    return ground
