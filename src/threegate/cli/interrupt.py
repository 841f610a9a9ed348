"""Ctrl-C during long work: the first one ends it after what was begun, the second one at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from threegate.base.errors import EX_INTERRUPTED
from threegate.host.command_context import Context


@contextmanager
def patience(context: Context, *, first: str, second: str) -> Iterator[threading.Event]:
    """Yield an event that the first interrupt sets; both words are said at once."""
    stop = threading.Event()

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            context.out.urgent(f"stopped: {second}")
            os._exit(EX_INTERRUPTED)  # sandboxes end with this process
        stop.set()
        context.out.urgent(f"interrupted: {first}; again to stop at once")

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
