"""Output of commands: results on stdout; errors, notes and progress on stderr.

SECURITY
    The only place that prints.  Every text goes through `threegate.base.text.visible`, so a
    title, a file name or a log entry cannot drive the operator's terminal; JSON is plain
    ASCII.  Foreign text is last in its line, or behind a gutter, so that right-to-left
    letters cannot reorder our words.  The encoding is that of the locale:
    UTF-8 sent to a terminal of another encoding would hold bytes that are controls there.
"""

import codecs
import io
import json
import locale
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from threegate.base.errors import StorageFailed, ThreeGateError, UsageError, WaitingForHuman
from threegate.base.text import visible, visible_lines

GUTTER: Final = "    | "
PROGRESS_SECONDS: Final = 0.2
LAST_COLUMN: Final = 20  # of a table: with less room on a terminal it goes below
PIPE_COLUMNS: Final = 100  # where lines are broken that no terminal gives a width
MOST_ROWS: Final = 12  # of a board
# With the two of a board, the only controls that are ever written, around text without any.
STYLES: Final[Mapping[str, str]] = {
    "title": "1",
    "dim": "2",
    "good": "32",
    "warn": "33",
    "bad": "1;31",
    "spelled": "1;7",
    "keyword": "35",
    "string": "32",
    "number": "36",
    "comment": "34",
    "added": "32",
    "removed": "31",
}
_YES: Final = frozenset({"y", "yes"})
_MAX_ANSWER_CHARS: Final = 64

Progress = Callable[[int], None]


class Output:
    """The output of one command."""

    def __init__(self, stdout: TextIO, stderr: TextIO, stdin: TextIO) -> None:
        self._stdout, self._stderr, self._stdin = stdout, stderr, stdin
        self._drawn = 0  # characters of the progress line on the terminal
        self._rows = 0  # lines of the board on the terminal

    @classmethod
    def standard(cls) -> "Output":
        """Return the output of this process, in the encoding of its locale."""
        encoding = terminal_encoding(locale.getencoding())
        out, err = sys.stdout or _nowhere(), sys.stderr or _nowhere()
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=encoding, errors="backslashreplace")
        return cls(out, err, sys.stdin or _nowhere())

    # -- results --------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """Print one line; a line break in `text` is spelled out like any control."""
        self._write(self._stdout, visible(text) + "\n")

    def foreign(self, text: str) -> None:
        """Print foreign text of many lines behind a gutter, so that none passes for ours."""
        for line in visible_lines(text).split("\n"):
            self._write(self._stdout, f"{GUTTER}{line}".rstrip() + "\n")

    def styled(self, spans: Iterable[tuple[str, str]], *, colour: bool) -> None:
        """Print one line made of (text, style); styles need `colour`."""
        shown = [(visible(text), STYLES.get(style) if colour else None) for text, style in spans]
        line = "".join(f"\x1b[{code}m{text}\x1b[0m" if code else text for text, code in shown)
        self._write(self._stdout, line + "\n")  # with every blank: they are part of what is shown

    @property
    def encoding(self) -> str:
        """The encoding results are printed in."""
        return self._stdout.encoding or "utf-8"

    @property
    def room(self) -> int:
        """How many columns a line may take before a terminal breaks it."""
        return self._columns() or PIPE_COLUMNS

    def in_colour(self, environ: Mapping[str, str]) -> bool:
        """Tell whether results go to a terminal whose user did not ask for no colour."""
        plain = environ.get("NO_COLOR") or environ.get("TERM", "dumb") == "dumb"
        return self._stdout.isatty() and not plain

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print aligned columns; foreign text belongs into the last one.

        On a narrow terminal the last column gets a row of its own.
        """
        shown = [[visible(cell) for cell in row] for row in rows]
        widths = [max(map(_width, column)) for column in zip(head, *shown, strict=True)]
        room = self._columns()
        before = sum(widths[:-1]) + 2 * len(widths[:-1])
        below = room is not None and room - before < min(widths[-1], LAST_COLUMN)
        for row in (list(head), *shown):
            cells = [_padded(cell, width) for cell, width in zip(row, widths, strict=True)]
            lines = [cells[:-1], [GUTTER + cells[-1]]] if below else [cells]
            for line in lines:
                self._write(self._stdout, _cut("  ".join(line).rstrip(), room) + "\n")

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one pair a line."""
        found = list(pairs)
        width = max((len(name) for name, _ in found), default=0)
        for name, value in found:
            self.line(f"{name:<{width}}  {value}".rstrip())

    def showing(self, page: int, limit: int, count: int, total: int) -> None:
        """Print which part of a listing this was."""
        first = (page - 1) * limit + 1
        nothing = f"nothing on page {page}, {total} in all" if total else "none"
        part = f"showing {first}-{first + count - 1} of {total}" if count else nothing
        more = f"; --page {page + 1} for more" if count and first + count - 1 < total else ""
        self.line(part + more)

    def text(self, text: str) -> None:
        """Print lines of our own making: a script, a picture, a table of rules."""
        self._write(self._stdout, visible_lines(text).rstrip("\n") + "\n")

    def document(self, value: Any) -> None:
        """Print one JSON document, in ASCII."""
        self._write(self._stdout, as_json(value) + "\n")

    def bytes(self, data: bytes) -> None:
        """Write bytes as they are; refused where a terminal would interpret them."""
        if self._stdout.isatty():
            hint = "send it to a file or a pipe"
            raise UsageError("raw bytes are not written to a terminal", hint=hint)
        with _failures_named():
            self._stdout.flush()
            self._stdout.buffer.write(data)
            self._stdout.buffer.flush()

    # -- everything else ------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a note on stderr, after the results before it."""
        self._erase()
        self.flush()
        self._write(self._stderr, f"threegate: {visible(text)}\n")

    def error(self, error: ThreeGateError) -> None:
        """Print an error and its hint."""
        self.note(f"error: {error.message} [{error.code}]")
        if error.hint:
            self.note(f"hint: {error.hint}")

    def urgent(self, text: str) -> None:
        """Print our own words from a signal handler, where another write may be half done."""
        with suppress(OSError):
            os.write(2, f"threegate: {visible(text)}\n".encode("ascii", "backslashreplace"))

    def trace(self, text: str) -> None:
        """Print a traceback, which may hold foreign text."""
        self._erase()
        self._write(self._stderr, visible_lines(text) + "\n")

    def confirm(self, question: str) -> bool:
        """Return the operator's answer; raise `WaitingForHuman` where nobody can be asked."""
        if not (self._stdin.isatty() and self._stderr.isatty()):
            hint = "run it in a terminal, or add --yes"
            raise WaitingForHuman("this needs the operator's yes", hint=hint)
        self._write(self._stderr, f"threegate: {visible(question)} [y/N] ")
        self.flush()
        return self._stdin.readline(_MAX_ANSWER_CHARS).strip().lower() in _YES

    @contextmanager
    def progress(
        self, what: str, total: int | None = None, *, noted: int = 0
    ) -> Iterator[Progress]:
        """Yield a function that shows how far long work is, on a terminal.

        Elsewhere it prints nothing, or with a total a note `noted` times.
        """
        if not self._stderr.isatty():
            yield self._noting(what, total, noted) if total and noted else _silent
            return
        due = time.monotonic() + PROGRESS_SECONDS  # short work shows nothing

        def show(done: int) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_SECONDS
                self._draw(f"{what}: {done}" + (f" of {total}" if total is not None else ""))

        try:
            yield show
        finally:
            self._erase()

    def _noting(self, what: str, total: int, times: int) -> Progress:
        said = 0

        def show(done: int) -> None:
            nonlocal said
            if done * times // total > said:
                said = done * times // total
                self.note(f"{what}: {done} of {total}")

        return show

    @contextmanager
    def board(self, environ: Mapping[str, str]) -> Iterator[Callable[[Sequence[str]], None]]:
        """Yield a function that shows several lines of progress at once, on a terminal only."""
        if not self._stderr.isatty() or environ.get("TERM", "dumb") == "dumb":
            yield lambda _: None
            return
        room = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns
        with suppress(OSError, ValueError):  # results may go elsewhere; this is on stderr
            room = os.get_terminal_size(self._stderr.fileno()).columns or room
        due = time.monotonic() + PROGRESS_SECONDS

        def show(lines: Sequence[str]) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_SECONDS
                self._erase()
                shown = [_cut(visible(line), room - 1) for line in lines[:MOST_ROWS]]
                self._write(self._stderr, "".join(f"{line}\n" for line in shown))
                self._stderr.flush()
                self._rows = len(shown)

        try:
            yield show
        finally:
            self._erase()

    def flush(self) -> None:
        """Hand everything to the operating system, so that a failure is noticed."""
        with _failures_named():
            self._stdout.flush()
            self._stderr.flush()

    # -- helpers --------------------------------------------------------------------

    def _write(self, stream: TextIO, text: str) -> None:
        if stream is self._stdout and stream.isatty():
            self._erase()  # else the result would continue the line of the progress
        if (stream.encoding or "").lower().replace("-", "") != "utf8":
            text = text.replace("…", "...")
        with _failures_named():
            stream.write(text)

    def _draw(self, text: str) -> None:
        shown = _cut(visible(text), self._columns() or 80)
        self._write(self._stderr, "\r" + shown.ljust(self._drawn))
        self._stderr.flush()
        self._drawn = len(shown)

    def _erase(self) -> None:
        if self._drawn:
            blank, self._drawn = " " * self._drawn, 0
            self._write(self._stderr, f"\r{blank}\r")
            self._stderr.flush()
        if self._rows:
            rows, self._rows = self._rows, 0
            self._write(self._stderr, f"\x1b[{rows}A\x1b[J")
            self._stderr.flush()

    def _columns(self) -> int | None:
        return shutil.get_terminal_size().columns if self._stdout.isatty() else None


def terminal_encoding(name: str) -> str:
    """Return the encoding to write: the locale's if it has one byte meaning, else ASCII."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return "ascii"
    return found if found == "utf-8" or found.startswith("iso8859-") else "ascii"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def as_json(value: Any) -> str:
    """Return `value` as JSON of printable ASCII."""
    # DEL is the one control that JSON leaves as it is.
    return json.dumps(value, indent=2, ensure_ascii=True).replace("\x7f", "\\u007f")


def fill_descriptors() -> None:
    """Open those of the first three descriptors that are closed.

    Otherwise the audit log could become descriptor 1, and output would go into it.
    """
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        os.set_inheritable(fd, True)  # noqa: FBT003 -- the name says it
    os.close(fd)


def _nowhere() -> TextIO:
    return open(os.devnull, "r+", encoding="utf-8")


def say_nowhere() -> None:
    """Discard the interpreter's last flush: the reader of our output has closed it."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    if sys.stdout is not None:
        os.dup2(null, sys.stdout.fileno())


@contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise StorageFailed(f"cannot write the output: {os.strerror(exc.errno or 0)}") from exc


def _silent(_: int) -> None:
    return None


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _cut(text: str, room: int | None) -> str:
    if room is None or _width(text) <= room:
        return text
    used = 0
    for index, character in enumerate(text):
        used += _cells(character)
        if used > room - 3:
            return text[:index] + "..."
    return text
