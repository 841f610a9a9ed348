"""The payload of an image-reader box: one file in, its points or one word out, then the end.

SECURITY
    Reads hostile bytes after a host that may be confused.  Nothing but our own messages leaves:
    an error nobody thought of ends the box, and its text stays inside.
"""

import sys
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.decoder import points_of
from threegate.protocol.pixels import MAX_DECODE_BYTES, parse_decode
from threegate.sandbox.channel import ChannelBroken, read_message, write_message

EX_SOFTWARE, EX_PROTOCOL = 70, 76
REQUESTS_FD: Final = 0
ANSWERS_FD: Final = 3


def serve() -> None:
    """Answer one message."""
    try:
        message = read_message(REQUESTS_FD, MAX_DECODE_BYTES)
        if message is not None:
            image = parse_decode(Untrusted(message)).image
            write_message(ANSWERS_FD, points_of(Untrusted(image)).to_bytes())
    except (ProtocolBroken, ChannelBroken):
        sys.exit(EX_PROTOCOL)
    except Exception:  # noqa: BLE001  # see SECURITY
        sys.exit(EX_SOFTWARE)
