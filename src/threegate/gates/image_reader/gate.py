"""The payload of an image-reader box: one file in, its points or one word out, then the end.

SECURITY
    Reads hostile bytes after a host that may be confused.  Nothing but our own messages leaves:
    an error nobody thought of ends the box, and its text stays inside.
"""

from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.decoder import points_of
from threegate.gates.image_reader.messages import parse_decode
from threegate.sandbox.payload import answer_once


def serve() -> None:
    """Answer one message."""
    answer_once(_answer, parse_decode.most_bytes)


def _answer(message: bytes) -> bytes:
    image = parse_decode(Untrusted(message)).image
    return points_of(Untrusted(image)).to_bytes()
