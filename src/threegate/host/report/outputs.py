"""Files that runs behind an answer left: listed, exported, and shown if they are images or tables.

The kind of a file follows from its name, which the request promised; its content may be anything.

SECURITY
    Opens files that attacker-influenced code wrote.  An image goes to a sandbox and only its points
    come back; a table is split into cells of text within bounds.  Every other file is listed and
    not opened.  SVG is never shown: it is text of a program.
"""

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.tool_result import OutputFile, ToolResult
from threegate.base.errors import GateUnavailable, ProtocolBroken, StorageFailed, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.messages import (
    DAMAGED,
    MAX_IMAGE_BYTES,
    MAX_PIXELS,
    MAX_SIDE,
    OTHER_KIND,
    TOO_LARGE,
    Decode,
    NotRead,
    parse_pixels,
)
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.atomic_file import write_together
from threegate.host.open_box import ended, open_box
from threegate.host.output import counted
from threegate.host.provenance.headlines import headline_of, own_words
from threegate.host.report.facts import Computed, LeftFile, ReportImage, Table
from threegate.host.report.pdf_file import image_of
from threegate.host.workspace.packets import logged_origins
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.setup import OURS
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.leaves import sized
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import IMAGE_READER
from threegate.sandbox.session import run_gate

MOST_IMAGES: Final = 8  # in one report, and as many tables
MOST_TABLES: Final = 8
MAX_SHOWN_BYTES: Final = MAX_IMAGE_BYTES  # of a table too
MOST_ROWS: Final = 50
MOST_COLUMNS: Final = 12
MOST_CELL_CHARS: Final = 60
MAX_LINE_CHARS: Final = 128 * 1024  # csv bounds a cell by the same; a row of commas has millions
CUT: Final = "..."

_IMAGES: Final = (".png", ".jpg", ".jpeg")
_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_NEVER: Final = (".svg", ".svgz")

See = Callable[[Untrusted[bytes]], ReportImage | str]


def computed_behind(store: Store, derived_from: Sequence[str], see: See) -> tuple[Computed, ...]:
    """Return the results behind an answer that left files, with what can be shown of these."""
    left = {"images": MOST_IMAGES, "tables": MOST_TABLES}
    found = []
    for artifact_id in derived_from:
        result = read_anywhere(store, artifact_id) if prefix_of(artifact_id) == "res" else None
        if isinstance(result, ToolResult) and result.files:
            here = store.locate(artifact_id) is not None
            files = (_file(store, one, see, left, here=here) for one in result.files)
            look = own_words(partial(read_anywhere, store), logged_origins(store))
            headline = headline_of(artifact_id, look)
            found.append(Computed(headline, tuple(files)))
    return tuple(found)


def _file(
    store: Store, file: OutputFile, see: See, left: dict[str, int], *, here: bool
) -> LeftFile:
    shown: ReportImage | Table | None = None
    kind, words = _kind_of(file.name)
    if kind is not None and not here:
        words = "not shown: its result was withdrawn"
    elif kind is not None and left[kind] == 0:
        words = f"not shown: no more {kind} are shown"
    elif kind is not None:
        left[kind] -= 1
        found = _image(store, file, see) if kind == "images" else _table(store, file)
        shown = None if isinstance(found, str) else found
        words = f"not shown: {found}" if isinstance(found, str) else _about(found)
    return LeftFile(file.name, file.bytes, file.sha256, words, shown)


def _kind_of(name: str) -> tuple[str | None, str]:
    ending = name.lower()[name.rfind(".") :] if "." in name else ""
    if ending in _IMAGES:
        return "images", ""
    if ending in _TABLES:
        return "tables", ""
    return None, "not shown: SVG is never shown" if ending in _NEVER else ""


def _image(store: Store, file: OutputFile, see: See) -> ReportImage | str:
    data = _bytes_of(store, file)
    return data if isinstance(data, str) else see(data)


def _bytes_of(store: Store, file: OutputFile) -> Untrusted[bytes] | str:
    if file.bytes > MAX_SHOWN_BYTES:
        return f"it has more than {MAX_SHOWN_BYTES} bytes"
    try:
        return Untrusted(store.read_file(states.BLOBS, file.sha256))
    except FileNotFoundError:
        return "its bytes are not here any more"


def _table(store: Store, file: OutputFile) -> Table | str:
    data = _bytes_of(store, file)
    if isinstance(data, str):
        return data
    return parse_table(data, _TABLES[file.name.lower()[file.name.rfind(".") :]])


def parse_table(data: Untrusted[bytes], separator: str) -> Table | str:
    """Return the first rows and columns of a table as text, or in words why there are none."""
    untrusted = data.open_for_validation()
    try:
        text = untrusted.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    rows = csv.reader(_lines(text), delimiter=separator, strict=True)
    try:
        first = list(islice(rows, 1 + MOST_ROWS))  # the first one mostly names the columns
        more = sum(1 for _ in rows)
    except csv.Error:
        return "it is not a table"
    columns = max(map(len, first), default=0)
    if columns == 0:
        return "it is empty"
    wide = min(columns, MOST_COLUMNS)
    shown = tuple(tuple(_cells(row, wide)) for row in first)
    return Table(shown, more_rows=more, more_columns=columns - wide)


def _lines(text: str) -> Iterator[str]:
    for line in io.StringIO(text, newline=""):
        if len(line) > MAX_LINE_CHARS:
            raise csv.Error("a line is too long")
        yield line


def _cells(row: Sequence[str], wide: int) -> Iterator[str]:
    for cell in islice(chain(row, repeat("")), wide):
        yield cell if len(cell) <= MOST_CELL_CHARS else cell[:MOST_CELL_CHARS] + CUT


def _about(shown: ReportImage | Table) -> str:
    if isinstance(shown, ReportImage):
        whole = (shown.width, shown.height) == (shown.file_width, shown.file_height)
        smaller = "" if whole else f", made smaller from {shown.file_width} x {shown.file_height}"
        return f"re-encoded from its points, {shown.width} x {shown.height}{smaller}"
    rest = [counted(shown.more_rows, "more row")] if shown.more_rows else []
    rest += [counted(shown.more_columns, "more column")] if shown.more_columns else []
    return "as text" + (f", without {' and '.join(rest)}" if rest else "")


# From an image file of a run to one that can be shown: a fresh sandbox each, then our own writer.
#
# SECURITY: hands a stranger's bytes to a process without network and takes pixels from it, within
# bounds. No byte of the file itself is shown. A sandbox that dies, takes too long or breaks the
# protocol is a refusal in words; so is a machine without sandboxes.

_WHY: Final = {
    OTHER_KIND: "it is neither a PNG nor a JPEG file",
    DAMAGED: "it is damaged, or not a picture that can be decoded",
    TOO_LARGE: f"it has more than {MAX_PIXELS} points, or a side of more than {MAX_SIDE}",
}


class Viewer:
    """Decodes images under one policy; a sandbox starts with the first image."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine: Machine | None = None

    def __call__(self, image: Untrusted[bytes]) -> ReportImage | str:
        """Return a re-encoded image, or in words why there is none."""
        try:
            asked = Decode(image.open_for_validation()).to_bytes()
            self._machine = self._machine or find_machine()
            kind = partial(run_gate, request=asked)
            answer = open_box(kind, self._machine, self._bundle, IMAGE_READER)
        except ProtocolBroken as exc:
            return exc.message
        except GateUnavailable as exc:
            hint = f"; {exc.hint}" if exc.hint else ""
            return f"there is no sandbox to decode it in: {exc.message}{hint}"
        with answer.message as file:
            said = file.read()
        if answer.ended.why != "done":
            return ended(IMAGE_READER, answer.ended.why).message
        try:
            found = parse_pixels(Untrusted(said))
        except ProtocolBroken as exc:
            return f"the image decoder broke the protocol: {exc.message}"
        return _WHY[found.reason] if isinstance(found, NotRead) else image_of(found)


# The files that a run left: named, and written where the operator says.
#
# SECURITY: writes bytes of attacker-influenced code under names that the code chose. The format of
# results admits plain file names only; none leaves the directory or begins with a dot. Nothing is
# written over a file without `over`, through a link, or into the workspace's own parts.


def plain_files(result: ToolResult) -> list[dict[str, Any]]:
    """Return name, size and digest of each file."""
    return [{"name": one.name, "bytes": one.bytes, "sha256": one.sha256} for one in result.files]


def file_lines(result_id: str, result: ToolResult) -> list[str]:
    """Return a line for each file a run left, and one that says how to get them."""
    if not result.files:
        return []
    lines = [f"left {one.name}, {sized(one.bytes)}" for one in result.files]
    return [*lines, f"`threegate result export {short(result_id)} DIRECTORY` writes them"]


def export_files(ws: Workspace, result_id: str, directory: Path, *, over: bool) -> ToolResult:
    """Write every file of a result into `directory`, or none of them; return the result."""
    result = ws.store.read(result_id)
    assert isinstance(result, ToolResult)
    if not result.files:
        hint = f"`threegate result show {short(result_id)}` shows what it printed"
        raise UsageError(f"{short(result_id)} left no files", hint=hint)
    _refuse_ours(ws.root, directory)
    files = {directory / one.name: _bytes_of_file(ws, one.name, one.sha256) for one in result.files}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as exc:
        why = (getattr(exc, "strerror", None) or "no such name").lower()
        raise StorageFailed(f"cannot make {quote(str(directory))}: {why}") from exc
    write_together(files, over=over)
    return result


def _bytes_of_file(ws: Workspace, name: str, digest: str) -> bytes:
    if not ws.store.has_blob(digest):
        raise UsageError(f"the bytes of {name} are not here any more")
    return ws.store.read_file(states.BLOBS, digest)


def _refuse_ours(root: Path, directory: Path) -> None:
    """Refuse the workspace itself: an exported file could replace one of its own."""
    try:
        inside = Path(os.path.realpath(directory)).relative_to(os.path.realpath(root)).parts
    except ValueError:
        return
    if not inside or inside[0] in OURS:
        hint = "name a directory of its own"
        raise UsageError(f"{quote(str(directory))} belongs to the workspace", hint=hint)
