"""The terminal: raw mode, the alternate screen, drawing, reading keys, and restoring it.

SECURITY
    The only module that writes control sequences to the terminal: the constants below and the
    colours of `_STYLES`.  Text goes through `threegate.base.text.visible` once more, in the
    encoding of the locale.  However the session ends, the terminal is restored.

    Reads what is typed and pasted.  Pasted text comes from elsewhere and must not press keys: a
    paste arrives as one event, between marks that the terminal is asked to send, and every
    sequence that is not in the tables below is dropped.  If this is wrong, text on a clipboard
    approves a request.
"""

import codecs
import os
import re
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from threegate.base.errors import ThreeGateError, WaitingForHuman
from threegate.base.text import visible
from threegate.host.review.parts import StyledRow

# -- keys ------------------------------------------------------------------------------------

PASTE: Final = "paste"
MAX_PASTE_CHARS: Final = 16_384
_MAX_SEQUENCE_CHARS: Final = 32
_ESCAPE: Final = "\x1b"
_PASTE_BEGIN: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")

_CURSOR: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
}
_SEQUENCES: Final = {
    **{f"\x1b{lead}{end}": name for lead in "[O" for end, name in _CURSOR.items()},
    "\x1bOM": "enter",
    "\x1b[1~": "home",
    "\x1b[7~": "home",
    "\x1b[4~": "end",
    "\x1b[8~": "end",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[Z": "back-tab",
}
_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x02": "page-up",
    "\x03": "interrupt",
    "\x04": "half-down",
    "\x06": "page-down",
    "\x0c": "redraw",
    "\x15": "erase",
    "\x1a": "suspend",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: a name of the tables above, a printable character, or a paste with its text."""

    name: str
    text: str = ""


class KeyReader:
    """Turns bytes into keys, regardless of how reads split them."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="ignore")
        self._rest = ""
        self._pasted: str | None = None

    @property
    def undecided(self) -> bool:
        """True while an Escape may be the key or the start of another one."""
        return self._pasted is None and self._rest != ""

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that are complete now."""
        self._rest += self._decoder.decode(data)
        return list(self._keys())

    def settle(self) -> list[Key]:
        """Return the pending bytes as a key of their own, because nothing followed."""
        if not self.undecided:
            return []
        alone, self._rest = self._rest == _ESCAPE, ""
        return [Key("escape")] if alone else []

    def forget(self) -> None:
        """Drop bytes that are not a complete key yet."""
        self._decoder.reset()
        self._rest, self._pasted = "", None

    def _keys(self) -> Iterator[Key]:
        while self._rest:
            if self._pasted is not None:
                found = self._paste()
            elif self._rest[0] == _ESCAPE:
                found = self._sequence()
            else:
                found = _plain(self._rest[0])
                self._rest = self._rest[1:]
            if found is None:
                return
            if found.name:
                yield found

    def _paste(self) -> Key | None:
        """Return the paste once its end is here; keep what may be the start of the end mark."""
        assert self._pasted is not None
        text, end, after = self._rest.partition(_PASTE_END)
        if end:
            whole, self._rest, self._pasted = self._pasted + text, after, None
            return Key(PASTE, whole[:MAX_PASTE_CHARS])
        kept = next((n for n in range(5, 0, -1) if text.endswith(_PASTE_END[:n])), 0)
        self._rest = text[len(text) - kept :]
        self._pasted = (self._pasted + text[: len(text) - kept])[:MAX_PASTE_CHARS]
        return None

    def _sequence(self) -> Key | None:
        match = _SEQUENCE.match(self._rest)
        if match is None:
            if len(self._rest) <= _MAX_SEQUENCE_CHARS and _BEGUN.match(self._rest):
                return None
            # Alt and a key, or noise: neither half of it is a key of ours.
            self._rest = self._rest[2:]
            return Key("")
        self._rest = self._rest[match.end() :]
        if match[0] == _PASTE_BEGIN:
            self._pasted = ""
        return Key(_SEQUENCES.get(match[0], ""))


def _plain(character: str) -> Key:
    if character in _CONTROLS:
        return Key(_CONTROLS[character])
    return Key(character, character) if character.isprintable() else Key("")


# Alternate screen; marks around a paste; no cursor; no wrapping, so that a terminal that draws a
# character wider than we expect cannot break the frame.
CLEAR: Final = "\x1b[0m\x1b[H\x1b[J"
ENTER: Final = "\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[?7l" + CLEAR
LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l\x1b[?1049l"
RESET: Final = "\x1b[0m"
TO_END_OF_LINE: Final = "\x1b[K"
ESCAPE_SECONDS: Final = 0.05  # how long the rest of a key may be on its way
EXIT_SIGNALLED: Final = 128
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_DUMB: Final = frozenset({"", "dumb", "unknown"})
_READ_BYTES: Final = 4096
_HINT: Final = (
    "without one: `threegate review list`, `threegate review show ID`, "
    "`threegate review approve ID`, `threegate review deny ID --reason TEXT`"
)
# Style: its look with colours, and without (NO_COLOR): emphasis is not a colour.
_STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "bar": ("7", "7"),
    "cursor": ("1;36", "1"),
    "title": ("1", "1"),
    "said": ("1;33", "1"),
    "warn": ("33", "1"),
    "bad": ("1;31", "1"),
    "good": ("32", ""),
    "dim": ("2", ""),
    "match": ("7", "7"),
    "spelled": ("1;31", "7"),
    "keyword": ("35", ""),
    "string": ("32", ""),
    "number": ("36", ""),
    "comment": ("34", ""),
    "added": ("32", ""),
    "removed": ("31", ""),
}


def refuse_unfit(environ: Mapping[str, str]) -> None:
    """Raise `WaitingForHuman` unless there is a terminal that can show a frame."""
    streams = (sys.stdin, sys.stdout)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise WaitingForHuman("the interactive review needs a terminal", hint=_HINT)
    if environ.get("TERM", "") in _DUMB:
        raise WaitingForHuman("this terminal cannot show the interactive review", hint=_HINT)


class Screen:
    """A terminal that is ours; made by `taken`."""

    def __init__(self, source: int, sink: int, *, encoding: str, colour: bool) -> None:
        self._source, self._sink = source, sink
        self._encoding, self._colour = encoding, colour
        self._found = termios.tcgetattr(source)
        self._keys = KeyReader(encoding)
        self._drawn: tuple[StyledRow, ...] = ()
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ours = False

    # -- what a loop needs ---------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as the terminal says now."""
        try:
            columns, rows = os.get_terminal_size(self._sink)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24

    def draw(self, rows: Sequence[StyledRow]) -> None:
        """Draw a frame; an unchanged frame costs nothing."""
        frame = tuple(rows)
        if frame == self._drawn:
            return
        lines = (f"\x1b[{n};1H{self._line(row)}" for n, row in enumerate(frame, 1))
        self._write("".join(lines) + "\x1b[H")
        self._drawn = frame

    def redraw(self) -> None:
        """Let the next frame be drawn whole, on an empty screen."""
        self._write(CLEAR)
        self._drawn = ()

    def keys(self, seconds: float) -> list[Key]:
        """Return the typed keys; none after so many seconds or on a signal."""
        data = self._read(seconds)
        keys = self._keys.feed(data) if data else []
        while self._keys.undecided:
            data = self._read(ESCAPE_SECONDS)
            keys += self._keys.feed(data) if data else self._keys.settle()
        return keys

    def forget_typed(self) -> None:
        """Drop keys typed so far: they cannot answer a question that was not on the screen."""
        termios.tcflush(self._source, termios.TCIFLUSH)
        self._keys.forget()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Restore the terminal for a while, so that another program can ask the human.

        Our own errors go on to the caller; any other exception ends the session, and the terminal
        is not taken again.
        """
        self.leave()
        try:
            yield
        except ThreeGateError:
            self.enter()
            raise
        self.enter()

    def suspend(self) -> None:
        """Stop the job, as Ctrl-Z does, until the shell continues it."""
        with self.aside():
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(0, signal.SIGTSTP)  # the whole job, or the shell would not notice
            signal.signal(signal.SIGTSTP, before)

    # -- taking and giving back ------------------------------------------------------------

    def enter(self) -> None:
        """Take the terminal."""
        mode: list[Any] = termios.tcgetattr(self._source)
        mode[0] &= ~(termios.ICRNL | termios.IXON | termios.ISTRIP)
        mode[1] &= ~termios.OPOST
        # Without signals from keys: Ctrl-C is a key, and cannot come between two writes.
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        mode[6] = [*mode[6]]
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        self._ours = True
        termios.tcsetattr(self._source, termios.TCSAFLUSH, mode)
        self._write(ENTER)
        self._drawn = ()

    def leave(self) -> None:
        """Restore the terminal; keys typed meanwhile are dropped."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            if self._ours:
                self._ours = False
                with suppress(OSError):  # it may be gone
                    self._write(LEAVE)
            # Always: the program that had the terminal may have died with the echo off.
            with suppress(termios.error):
                termios.tcsetattr(self._source, termios.TCSAFLUSH, self._found)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals for a new size and the end; the old handlers are restored afterwards."""
        handlers: dict[int, Callable[[int, object], None] | signal.Handlers] = {
            signal.SIGWINCH: _hear,
            signal.SIGTSTP: signal.SIG_IGN,
            signal.SIGTERM: _end,
            signal.SIGHUP: _end,
        }
        rung = signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)
        before = {number: signal.signal(number, one) for number, one in handlers.items()}
        try:
            yield
        finally:
            signal.set_wakeup_fd(rung)
            for number, one in before.items():
                signal.signal(number, one)
            os.close(self._bell)
            os.close(self._ring)

    # -- helpers -----------------------------------------------------------------------------

    def _read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._source, self._bell], [], [], seconds)
        if self._bell in ready:
            os.read(self._bell, _READ_BYTES)
        if self._source not in ready:
            return b""
        try:
            data = os.read(self._source, _READ_BYTES)
        except OSError:  # EIO: the terminal is gone
            data = b""
        if not data:
            _end(signal.SIGHUP, None)
        return data

    def _line(self, row: StyledRow) -> str:
        shown = "".join(self._styled(span.text, span.style) for span in row)
        return f"{shown}{TO_END_OF_LINE}"

    def _styled(self, text: str, style: str) -> str:
        look = _STYLES[style][0 if self._colour else 1] if style else ""
        words = visible(text)
        return f"\x1b[{look}m{words}{RESET}" if look else words

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "backslashreplace"))
        while data:
            data = data[os.write(self._sink, data) :]


@contextmanager
def taken(*, encoding: str, colour: bool) -> Iterator[Screen]:
    """Take the terminal of this process, and restore it however the session ends."""
    screen = Screen(0, 1, encoding=encoding, colour=colour)
    with screen.listening():
        try:
            screen.enter()
            yield screen
        finally:
            screen.leave()


def _hear(_: int, __: object) -> None:
    """Do nothing: the wakeup descriptor ends the waiting."""


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(EXIT_SIGNALLED + number)
