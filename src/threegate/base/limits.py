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
MAX_SIGNATURE_BYTES: Final = 4 * KIB
MAX_INPUTS: Final = 64
MAX_INPUT_BYTES: Final = 256 * MIB  # all inputs together: what any policy can allow at most
MAX_CODE_BYTES: Final = 256 * KIB

MAX_ERROR_BYTES: Final = 16 * KIB
MAX_STREAM_BYTES: Final = 4 * MIB + MAX_ERROR_BYTES
MAX_CALLS: Final = 2**31
MAX_CPU_MS: Final = 2**40
MAX_LINE: Final = 1_000_000

MAX_VERSIONS: Final = 32
MAX_WARNINGS: Final = 16
MAX_CONSTRUCT_CHARS: Final = 200
MAX_LINE_CHARS: Final = 500  # of one line of text

# What one side reads before it looks at anything: the largest message there can be.
MAX_ASK_BYTES: Final = (
    MAX_HEADER_BYTES + MAX_REQUEST_BYTES + MAX_APPROVAL_BYTES + MAX_SIGNATURE_BYTES
) + MAX_INPUT_BYTES
MAX_ANSWER_BYTES: Final = MAX_HEADER_BYTES + 3 * MAX_STREAM_BYTES

# A retrieval record, the bytes it names and the packet made from them.
MAX_ANSWERS: Final = 1 + 16  # the main one, and as many further ones as a packet may name
MAX_MISSES: Final = 32  # with one gap per answer still within a packet's list of gaps
MAX_RECORD_BYTES: Final = 1 * MIB
MAX_RAWS_BYTES: Final = 192 * MIB  # of all answers together; the box holds them three times
MAX_PACKET_BYTES: Final = 2 * MIB
MAX_NORMALIZE_BYTES: Final = MAX_HEADER_BYTES + MAX_RECORD_BYTES + MAX_RAWS_BYTES
MAX_MADE_BYTES: Final = MAX_HEADER_BYTES + MAX_PACKET_BYTES

# Between the host and fetch-retrieve.
MAX_ANCHORS: Final = 8
MAX_ANCHOR_BYTES: Final = 1 * MIB  # the whole of a system's store is a quarter of that
MAX_URL_CHARS: Final = 2_048
MAX_HOPS: Final = 10
MAX_BODY_BYTES: Final = 128 * MIB  # the most that one answer can hold under any policy
MAX_DOWNLOAD_BYTES: Final = 2**40  # a file that comes in parts; policy allows less
MAX_PART_SECONDS: Final = 600  # for one part of a download, all redirects
MAX_RATE_HEADERS: Final = 16
MAX_RETRY_AFTER_SECONDS: Final = 86_400  # a host that asks for more gets a day
MAX_RETRIEVE_OPENING_BYTES: Final = (
    MAX_HEADER_BYTES + MAX_BUNDLE_BYTES + MAX_ANCHORS * MAX_ANCHOR_BYTES
)
MAX_RETRIEVE_ASK_BYTES: Final = (
    MAX_HEADER_BYTES + MAX_REQUEST_BYTES + MAX_APPROVAL_BYTES + MAX_SIGNATURE_BYTES
)
MAX_RETRIEVE_ANSWER_BYTES: Final = MAX_HEADER_BYTES + MAX_BODY_BYTES
