"""A terminal for tests: runs a command on it, types, waits for text, and reads every byte.

It understands the sequences the interactive review may send and no other: whatever else
arrives is kept in `foreign`, for the test to find.

Usage: python -m tests.support.terminal TEXT_FILE LOG_FILE
reviews what the test wrote down, on a real terminal and without a workspace.
"""

import os
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from typing import Self

from threegate.base.text import FORBIDDEN
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

DEADLINE_SECONDS = 60
_SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([HJKhlm])")
_PRIVATE = {"?1049", "?2004", "?25", "?7"}


@dataclass
class Glass:
    """What a terminal of this size shows after the bytes it got."""

    columns: int
    rows: int
    alternate: bool = False
    foreign: list[str] = field(default_factory=list)
    looks: set[str] = field(default_factory=set)
    _cells: dict[tuple[int, int], str] = field(default_factory=dict)
    _at: tuple[int, int] = (0, 0)
    _rest: str = ""

    def feed(self, text: str) -> None:
        """Take in what was sent; an unfinished sequence waits for its end."""
        text = self._rest + text
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None and re.fullmatch(r"\x1b(\[[?0-9;]*)?", text[at:]):
                    break
                self._control(text[at : at + 12], found)
                at = found.end() if found else at + 1
            else:
                self._put(text[at])
                at += 1
        self._rest = text[at:]

    def text(self) -> str:
        """Return the rows as they stand there."""
        rows = []
        for row in range(self.rows):
            cells = (self._cells.get((row, column), " ") for column in range(self.columns))
            rows.append("".join(cells).rstrip())
        return "\n".join(rows)

    def _control(self, raw: str, found: re.Match[str] | None) -> None:
        if found is None or (found[2] in "hl" and found[1] not in _PRIVATE):
            self.foreign.append(raw)
            return
        if found[2] == "H":
            row, _, column = found[1].partition(";")
            self._at = (int(row or 1) - 1, int(column or 1) - 1)
        elif found[2] in "JK":
            row = self._at[0]
            last = self.rows if found[2] == "J" else row
            ahead = [place for place in self._cells if self._at <= place <= (last, self.columns)]
            for place in ahead:
                del self._cells[place]
        elif found[2] == "m":
            self.looks.add(found[1])
        elif found[1] == "?1049":
            self.alternate = found[2] == "h"
            self._cells, self._at = {}, (0, 0)

    def _put(self, character: str) -> None:
        row, column = self._at
        if character in "\r\n" and not self.alternate:
            self._at = (min(row + 1, self.rows - 1), 0) if character == "\n" else (row, 0)
            return
        if not character.isprintable() or FORBIDDEN.match(character):
            self.foreign.append(character)
            return
        self._cells[self._at] = character
        wide = unicodedata.east_asian_width(character) in "WF"
        if wide:
            self._cells[row, column + 1] = ""
        self._at = (row, column + (2 if wide else 1))


class Terminal:
    """A real process on a real pseudo-terminal."""

    def __init__(
        self, argv: Sequence[str], env: dict[str, str], cwd: Path, *, columns: int, rows: int
    ) -> None:
        self.glass = Glass(columns, rows)
        self.sent = b""
        self._bytes = b""
        # Both ends are held here: the mode of the terminal can be read after the process.
        self._far, self._near = os.openpty()
        self.resize(columns, rows)
        self.mode_before = self.mode()
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(self._near)
            os.chdir(cwd)
            os.execve(argv[0], list(argv), env)  # noqa: S606
        self._ended = os.pidfd_open(self.pid)

    def type(self, data: bytes | str) -> None:
        os.write(self._far, data.encode() if isinstance(data, str) else data)

    def resize(self, columns: int, rows: int) -> None:
        self.glass.columns, self.glass.rows = columns, rows
        ioctl(self._far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._ended, number)

    def until(self, *words: str, without: str = "") -> str:
        """Wait until every word is on the screen; return what the screen shows."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            text = self.glass.text()
            if self._shows(words) and not (without and without in text):
                return text
            alive = self._read(deadline)
            assert alive or self._shows(words), (
                f"{words} never came:\n{self.glass.text()}\n{self.sent[-2000:]!r}"
            )

    def _shows(self, words: Sequence[str]) -> bool:
        """Tell whether all stand there; where a line was broken depends on what it names."""
        text = self.glass.text()
        flat = " ".join(text.split())
        return all(word in text or word in flat for word in words)

    def mode(self) -> list[object]:
        return termios.tcgetattr(self._near)

    def end(self) -> int:
        """Wait for the process to end by itself; return its exit code."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read(deadline):
            pass
        assert _ready([self._ended], 0), f"still there:\n{self.glass.text()}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            self.signal(signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for fd in (self._far, self._near, self._ended):
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, deadline: float) -> bool:
        """Take in what the process writes; tell whether more may come."""
        left = max(deadline - time.monotonic(), 0)
        ready = _ready([self._far, self._ended], left)
        if self._far not in ready:
            return False  # it ended and everything is read, or the time is over
        data = os.read(self._far, 65536)
        self.sent += data
        self.glass.feed(self._decoded(data))
        return True

    def _decoded(self, data: bytes) -> str:
        self._bytes += data
        # A character may be split between two readings.
        for cut in range(4):
            end = len(self._bytes) - cut
            try:
                text = self._bytes[:end].decode("utf-8")
            except UnicodeDecodeError:
                continue
            self._bytes = self._bytes[end:]
            return text
        raise AssertionError(f"not UTF-8: {self._bytes!r}")


def _ready(fds: list[int], seconds: float) -> list[int]:
    """Wait for one of the descriptors; unlike select, for any number."""
    waiter = select.poll()
    for fd in fds:
        waiter.register(fd, select.POLLIN)
    return [fd for fd, _ in waiter.poll(seconds * 1000)]


# -- A process that reviews what the test wrote down, on a real terminal, without a workspace.
# Stored requests hold no control characters: the formats refuse them. This desk hands them out
# nevertheless, because the terminal must not depend on that. Usage: python -m
# tests.support.terminal TEXT_FILE LOG_FILE

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
