"""The main function of every gate: work until it is done, then end with a code.

SECURITY
    Runs inside a sandbox.  The text of an error may hold foreign bytes, so only an exit code
    leaves: 76 if the other side broke the protocol, 70 for anything unexpected.
"""

import os
import sys
from collections.abc import Callable
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.sandbox.channel import ChannelBroken, read_message, write_message

REQUESTS_FD: Final = 0
ANSWERS_FD: Final = 3
EX_UNAVAILABLE: Final = 69
EX_SOFTWARE: Final = 70
EX_PROTOCOL: Final = 76


def serve(work: Callable[[], int | None], *broken: type[Exception]) -> None:
    """Do the work of a gate; errors of the types `broken` count as a broken protocol."""
    counts: tuple[type[Exception], ...] = (ProtocolBroken, ChannelBroken, *broken)
    try:
        code = work() or 0
    except counts:
        sys.exit(EX_PROTOCOL)
    except Exception:  # noqa: BLE001  # see SECURITY
        sys.exit(EX_SOFTWARE)
    if code:
        sys.exit(code)


def serve_abruptly(work: Callable[[], int | None]) -> None:
    """Do the same and end at once, without waiting for threads that hang; never returns."""
    try:
        os._exit(work() or 0)
    except (ProtocolBroken, ChannelBroken):
        os._exit(EX_PROTOCOL)
    except BaseException:  # noqa: BLE001  # see SECURITY
        os._exit(EX_SOFTWARE)


def answer_once(answer: Callable[[bytes], bytes], most_bytes: int) -> None:
    """Answer the one message of the host; the work of gates that are started for each message."""

    def work() -> None:
        message = read_message(REQUESTS_FD, most_bytes)
        if message is not None:  # else the host changed its mind
            write_message(ANSWERS_FD, answer(message))

    serve(work)


# Where the Monty worker's files are inside the tool-lite box.

LAUNCHER = "/run/launcher"
BINARY = "/run/monty"
LOCK = "/run/lock.so"

# Where Tesseract is inside the fetch-ocr sandbox: its library and the data of its languages.

TESSERACT = "/in/libtesseract.so"
TESSDATA = "/in/tessdata"
