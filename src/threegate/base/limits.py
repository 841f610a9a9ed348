"""Bounds that formats and messages share, checked before the bytes they bound are used."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
MAX_COUNT: Final = 2**53 - 1  # what every JSON reader holds exactly

MAX_HEADER_BYTES: Final = 64 * KIB
MAX_PARTS: Final = 3 + 64  # request, approval, signature and as many inputs as a request may name

MAX_BUNDLE_BYTES: Final = 8 * MIB
MAX_REQUEST_BYTES: Final = 1 * MIB
MAX_APPROVAL_BYTES: Final = 64 * KIB
# A signature by a plain key is about 300 bytes, by a FIDO2 key about 400.
MAX_SIGNATURE_BYTES: Final = 4 * KIB
MAX_INPUTS: Final = 64

MAX_ERROR_BYTES: Final = 16 * KIB
MAX_STREAM_BYTES: Final = 4 * MIB + MAX_ERROR_BYTES
MAX_LINE: Final = 1_000_000  # the number of a line of code
MAX_LINE_CHARS: Final = 500  # of one line of text
MAX_URL_CHARS: Final = 2_048
MAX_HOPS: Final = 10

MAX_ANCHORS: Final = 8
MAX_ANCHOR_BYTES: Final = 1 * MIB  # the whole of a system's store is a quarter of that
