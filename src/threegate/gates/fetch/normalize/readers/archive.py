"""Members of a ZIP file, within bounds: what DOCX, ODT, PPTX, XLSX and EPUB files are.

SECURITY
    Reads hostile bytes with `zipfile` and zlib.  What counts is the number of bytes that were
    inflated, not what the file says of itself, so overlapping members and files in themselves
    cost no more than others.  Names are compared and never become paths.  Nothing inside is
    opened as an archive again.
"""

import io
import stat
import struct
import zipfile
import zlib
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.text import Unread

MAX_MEMBERS: Final = 20_000
MAX_MEMBER_BYTES: Final = 64 * 2**20  # inflated
MAX_INFLATED_BYTES: Final = 256 * 2**20  # of all members that are read
MAX_RATIO: Final = 200  # of XML, 10 to 30 is usual
RATIO_FREE_BYTES: Final = 2**20  # a small member may be packed as tightly as it likes
_LISTED: Final = b"PK\x01\x02"  # begins each entry in the list of members
_ENCRYPTED: Final = 0x1
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAILURES: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OSError),
    *(OverflowError, RuntimeError, UnicodeError, ValueError, LookupError),
)


class Archive:
    """A ZIP file whose members are read by name."""

    def __init__(self, raw: Untrusted[bytes]) -> None:
        """Read the list of members; raise `Unread`."""
        untrusted = raw.open_for_validation()
        listed = untrusted.count(_LISTED)
        if listed > MAX_MEMBERS:
            raise Unread("too-large", f"{listed} members, limit {MAX_MEMBERS}")
        try:
            self._file = zipfile.ZipFile(io.BytesIO(untrusted))
            members = self._file.infolist()
        except _FAILURES as exc:
            raise Unread("damaged", "the list of its members cannot be read") from exc
        if any(item.flag_bits & _ENCRYPTED for item in members):
            raise Unread("encrypted", "its members are encrypted")
        self._members = {item.filename: item for item in members if not _is_link(item)}
        if len({item.filename for item in members}) != len(members):
            # Which of the two counts depends on the program.
            raise Unread("damaged", "a name is in its list twice")
        self._left = MAX_INFLATED_BYTES

    def names(self) -> list[str]:
        """Return the names of all members, in the order of the list."""
        return list(self._members)

    def read(self, name: str) -> Untrusted[bytes]:
        """Return the bytes of a member, or raise `Unread`."""
        item = self._members.get(name)
        if item is None:
            raise Unread("damaged", "a part that is named in it is missing")
        if item.compress_type not in _METHODS:
            raise Unread("other-kind", "a member is packed in a way that is not read")
        most = min(MAX_MEMBER_BYTES, self._left)
        try:
            with self._file.open(item) as member:
                data = member.read(most + 1)
        except _FAILURES as exc:
            raise Unread("damaged", "a member cannot be unpacked") from exc
        if len(data) > most:
            raise Unread("too-large", f"more than {most} bytes unpacked")
        if len(data) > max(RATIO_FREE_BYTES, MAX_RATIO * item.compress_size):
            raise Unread("too-large", f"a member is packed more than {MAX_RATIO} times")
        self._left -= len(data)
        return Untrusted(data)


def _is_link(item: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(item.external_attr >> 16)
