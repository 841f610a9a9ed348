"""The payload of a page-drawer sandbox: one PDF in, one page as pixels out, then the end.

SECURITY
    Reads hostile bytes.  Only messages of `messages` leave: an unexpected error ends the sandbox,
    and its text stays inside.
"""

from threegate.base.untrusted import Untrusted
from threegate.gates.page_drawer.drawing import draw
from threegate.gates.page_drawer.messages import parse_draw
from threegate.sandbox.payload import answer_once


def serve() -> None:
    """Answer one message."""
    answer_once(_answer, parse_draw.most_bytes)


def _answer(message: bytes) -> bytes:
    return draw(parse_draw(Untrusted(message))).to_bytes()
