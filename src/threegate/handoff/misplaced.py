"""A file that is not where or what the log says, set aside so that the others go on.

SECURITY
    Such a file says that somebody meddled.  It is never used, whoever asks: this module only
    decides whether it stops a command at once or is named at its end.  Without a place to
    name it in, it stops the command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from threegate.base.errors import HandoffTampered
from threegate.handoff.store import MISPLACED, OTHER_CONTENT

Aside = dict[str, HandoffTampered] | None  # by the id of the request
OF_ONE_FILE: Final = (MISPLACED, OTHER_CONTENT)


@contextmanager
def set_aside(aside: Aside, request_id: str) -> Iterator[None]:
    """Note in `aside` that this request was meddled with; raise what is not about one file."""
    try:
        yield
    except HandoffTampered as exc:
        if aside is None or exc.code not in OF_ONE_FILE:
            raise
        aside[request_id] = exc
