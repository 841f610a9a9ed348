"""A process that reviews what the test wrote down, on a real terminal, without a workspace.

Stored requests hold no control characters: the formats refuse them.  This desk hands them
out nevertheless, because the terminal must not depend on that.
Usage: python -m tests.support.reviewdesk TEXT_FILE LOG_FILE
"""

import os
import sys
from pathlib import Path

from threegate.host.output import terminal_encoding
from threegate.host.review.approval import TermBounds
from threegate.host.review.parts import StyledLine, StyledSpan
from threegate.host.review.terminal.cells import spelling
from threegate.host.review.terminal.loop import ReviewSession
from threegate.host.review.terminal.pager import PagedDocument, document
from threegate.host.review.terminal.screen import taken
from threegate.host.review.terminal.state import (
    OpenedSheet,
    ReviewQueue,
    TermsChoice,
    WaitingRequest,
)

TERMS = TermsChoice(1, 3600, TermBounds(3600, 5, 86_400))
ID = "tr-" + "0123456789abcdef" * 4


class TextDesk:
    """One request, whose every text is the file's."""

    def __init__(self, text: str, log: Path, encoding: str) -> None:
        self._text, self._log, self._spell = text, log, spelling(encoding)
        self._here = True

    def changed(self) -> bool:
        return False

    def waiting(self) -> ReviewQueue:
        item = WaitingRequest(ID, "held", "core", 60, 1, self._spell(self._text))
        return ReviewQueue((item,), 1) if self._here else ReviewQueue((), 0)

    def state(self, request_id: str) -> str:
        return f"{request_id} is denied"

    def sheet(self, request_id: str) -> OpenedSheet:
        return OpenedSheet(request_id, self.raw(request_id), TERMS, (self._text,), (self._text,))

    def raw(self, request_id: str) -> PagedDocument:
        lines = [
            StyledLine(
                (StyledSpan(line, "string"),),
                StyledSpan(f"{number:>4} | "),
                StyledSpan("     : "),
                "code",
            )
            for number, line in enumerate(self._text.split("\n"), 1)
        ]
        return document(
            [*lines, StyledLine((StyledSpan(f"the end of {request_id}"),))], self._spell
        )

    def approve(self, request_id: str, *, uses: int, seconds: int) -> str:
        if "raise" in self._text:
            raise RuntimeError(self._text)
        return self._decided(request_id, f"approved {uses} {seconds}")

    def deny(self, request_id: str, reason: str) -> str:
        return self._decided(request_id, f"denied {reason}")

    def _decided(self, request_id: str, words: str) -> str:
        assert request_id == ID
        self._here = False
        self._log.write_text(words)
        return words


def main() -> int:
    text, log = (Path(name) for name in sys.argv[1:])
    encoding = terminal_encoding(os.environ.get("TEST_ENCODING", "utf-8"))
    colour = not os.environ.get("NO_COLOR")
    with taken(encoding=encoding, colour=colour) as screen:
        desk = TextDesk(text.read_bytes().decode("utf-8", "surrogatepass"), log, encoding)
        return ReviewSession(desk, screen).run()


if __name__ == "__main__":
    sys.exit(main())
