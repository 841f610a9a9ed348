"""Image files, ordinary and hostile, made chunk by chunk."""

import io
import struct
import zlib
from typing import Any

from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SCRIPT = b"<script>alert(1)</script>"
SIDES = (60, 40)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def head(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def png(
    *between: bytes, width: int = SIDES[0], height: int = SIDES[1], behind: bytes = b""
) -> bytes:
    """Return a file whose points differ from place to place, with chunks before its points."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x % 256, y % 256, 7)) for x in range(width)) for y in range(height)
    )
    points = chunk(b"IDAT", zlib.compress(rows))
    return (
        SIGNATURE + head(width, height) + b"".join(between) + points + chunk(b"IEND", b"") + behind
    )


def points(width: int = SIDES[0], height: int = SIDES[1]) -> bytes:
    """Return what is to be seen in `png`."""
    return b"".join(bytes((x % 256, y % 256, 7)) for y in range(height) for x in range(width))


def huge(width: int, height: int) -> bytes:
    """Return a small file that says it is large."""
    return SIGNATURE + head(width, height) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))


def bomb() -> bytes:
    """Return a small file with a text of 128 MiB."""
    packer = zlib.compressobj(1)
    zeros = bytes(1 << 20)
    text = b"".join(packer.compress(zeros) for _ in range(128)) + packer.flush()
    return png(chunk(b"zTXt", b"Comment\0\0" + text))


def saved(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """Return an image as a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def jpeg(**options: Any) -> bytes:
    return saved(Image.frombytes("RGB", SIDES, points()), "JPEG", **options)


def animated() -> bytes:
    """Return a file with a first picture of the points above and a second one in red."""
    first, second = Image.frombytes("RGB", SIDES, points()), Image.new("RGB", SIDES, (255, 0, 0))
    return saved(first, save_all=True, append_images=[second], duration=10)


def chunks_of(data: bytes) -> list[bytes]:
    """Return the kinds of the chunks of a file, which must be nothing but chunks."""
    assert data.startswith(SIGNATURE)
    at, kinds = len(SIGNATURE), []
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kinds.append(data[at + 4 : at + 8])
        assert chunk(kinds[-1], data[at + 8 : at + 8 + length]) == data[at : at + 12 + length]
        at += 12 + length
    assert at == len(data), "nothing behind the end"
    return kinds
