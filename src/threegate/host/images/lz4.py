"""LZ4 as Debian compresses kernels with it: the legacy frame, blocks of up to 8 MiB.

SECURITY
    Reads bytes out of a package.  Every length is compared with what is there and with what a
    block may hold.  Raises ValueError and nothing else for any bytes.
"""

import struct
from typing import Final

MAGIC: Final = b"\x02\x21\x4c\x18"
BLOCK_BYTES: Final = 8 * 1024 * 1024
_LEAST_MATCH: Final = 4
_MORE: Final = 15


def unpack(data: bytes, *, max_bytes: int) -> bytes:
    """Return what a frame holds; the last four bytes are the size of that, as kernels have it."""
    if not data.startswith(MAGIC) or len(data) < 8:
        raise ValueError("no frame")
    (size,) = struct.unpack_from("<I", data, len(data) - 4)
    if size > max_bytes:
        raise ValueError("larger than allowed")
    at, end, parts, found = len(MAGIC), len(data) - 4, [], 0
    while at < end:
        if at + 4 > end:
            raise ValueError("ends too early")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > end:
            raise ValueError("ends too early")
        parts.append(_block(data[at : at + length]))
        found += len(parts[-1])
        if found > size:
            raise ValueError("holds more than it says")
        at += length
    if found != size:
        raise ValueError("holds less than it says")
    return b"".join(parts)


def _block(data: bytes) -> bytes:
    out, at, end = bytearray(), 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            count = token >> 4
            if count == _MORE:
                count, at = _longer(data, at, count)
            if count > end - at:
                raise ValueError("ends too early")
            out += data[at : at + count]
            at += count
            if at == end:  # the last sequence has no match
                break
            back = data[at] | data[at + 1] << 8
            at += 2
            count = token & 15
            if count == _MORE:
                count, at = _longer(data, at, count)
            _copy(out, back, count + _LEAST_MATCH)
    except IndexError as exc:
        raise ValueError("ends too early") from exc
    if len(out) > BLOCK_BYTES:
        raise ValueError("a block is too large")
    return bytes(out)


def _longer(data: bytes, at: int, count: int) -> tuple[int, int]:
    while True:
        more = data[at]
        at += 1
        count += more
        if more != 255:
            return count, at


def _copy(out: bytearray, back: int, count: int) -> None:
    start = len(out) - back
    if back == 0 or start < 0 or len(out) + count > BLOCK_BYTES:
        raise ValueError("a match lies outside")
    if count <= back:
        out += out[start : start + count]
        return
    piece = bytes(out[start:])  # it repeats what it makes itself
    out += (piece * (count // back + 1))[:count]
