"""Bounds of what a web server or a proxy may say."""

from typing import Final

KIB: Final = 1024

MAX_HEADERS: Final = 100  # whoever asks bounds their bytes
MAX_VALUE_CHARS: Final = 8 * KIB  # of one header that is looked at
MAX_INTERIM: Final = 4  # answers 1xx before the real one
MAX_PROXY_HEAD_BYTES: Final = 8 * KIB
MAX_CHUNK_LINE_BYTES: Final = 1 * KIB
MAX_CHUNK_DIGITS: Final = 8
PIECE_BYTES: Final = 64 * KIB
SLICE_SECONDS: Final = 0.2  # how long somebody who stops asking is waited for

# A tunnel of an earlier hop is gone for the proxy a moment after it is for us.
BUSY_TRIES: Final = 8
BUSY_SECONDS: Final = 0.02  # doubled each time: 5 seconds together
