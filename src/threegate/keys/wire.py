"""The SSH wire format (RFC 4251 section 5), read strictly and written.

SECURITY
    Reads bytes that anybody may have written.  Every length is compared with the
    caller's bound and with what is left before a byte is sliced, and `end` refuses
    what nobody asked for.  Raises `SignatureRefused` and nothing else.
"""

from typing import Final

from threegate.base.errors import SignatureRefused

MALFORMED: Final = "TG-KEY-001"


def malformed(reason: str) -> SignatureRefused:
    """Return the refusal of bytes that are not what they should be."""
    return SignatureRefused(reason, code=MALFORMED)


class WireReader:
    """A cursor over foreign bytes."""

    __slots__ = ("_data", "_offset", "_what")

    def __init__(self, data: bytes, *, what: str) -> None:
        self._data = data
        self._offset = 0
        self._what = what

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, all of them."""
        if count > len(self._data) - self._offset:
            raise malformed(f"{self._what} ends early")
        start, self._offset = self._offset, self._offset + count
        return self._data[start : self._offset]

    def u8(self) -> int:
        """Return the next byte as a number."""
        return self.take(1)[0]

    def u32(self) -> int:
        """Return the next four bytes as a number."""
        return int.from_bytes(self.take(4), "big")

    def string(self, limit: int) -> bytes:
        """Return the next length-prefixed string, which may hold `limit` bytes."""
        length = self.u32()
        if length > limit:
            raise malformed(f"{self._what} has a field of {length} bytes, limit {limit}")
        return self.take(length)

    def end(self) -> None:
        """Refuse bytes behind the last field: nobody would have looked at them."""
        if self._offset != len(self._data):
            raise malformed(f"{self._what} has {len(self._data) - self._offset} trailing bytes")


def wire_string(data: bytes) -> bytes:
    """Return `data` with its length in front."""
    return len(data).to_bytes(4, "big") + data
