"""The run of an import, and the words that all kinds of import share."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from threegate.base.forms import OCR_LANGUAGE
from threegate.base.text import quote
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.fetch.scans import ScanReader
    from threegate.host.importing.selection import ImportSelection
    from threegate.host.workspace.workspace import Workspace

NEXT_TIME: Final = "the same command again goes on from here"
_WORDS: Final = {
    "made": "imported",
    "already": "already here",
    "refused": "refused",
    "skipped": "skipped",
    "gone": "gone",
}


@dataclass(slots=True)
class ImportDone:
    """What became of all files."""

    counts: dict[str, int]
    made: list[str] = field(default_factory=list)  # the new packets
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    told: list[dict[str, Any]] = field(default_factory=list)  # for scripts

    @property
    def code(self) -> int:
        """Return the exit code."""
        return os.EX_DATAERR if self.counts["refused"] else 0


def perform(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    selection: "ImportSelection",
    stop: Callable[[], bool],
) -> ImportDone:
    """Import a selection and print a line for each file."""
    from threegate.host.importing.batch import MADE, SKIPPED, STATUSES, FileImport
    from threegate.host.importing.text_form import document, lines

    done = ImportDone(dict.fromkeys(STATUSES, 0))
    task = FileImport(
        ws, level=args.confidentiality, again=args.again, scans=scans_of(args), stop=stop
    )
    started = time.monotonic()
    with closing(task), context.out.board(context.environ) as draw:
        for report in task.run(selection):
            done.counts[report.status] += 1
            if report.status == MADE and report.packet_id is not None:
                done.made.append(report.packet_id)
            if report.status == SKIPPED and report.error is not None:
                done.skipped[report.error.message] += 1
            if args.json:
                done.told.append(document(report))
            else:
                for text in lines(report):
                    context.out.line(text)
                context.out.flush()  # a pipe shows each file as it is done, too
            draw(_progress(sum(done.counts.values()), len(selection.files), started))
    return done


def scans_of(args: argparse.Namespace) -> "ScanReader":
    """Return how scans are read; raise `UsageError`."""
    from threegate.artifacts.media_types import MAX_OCR_LANGUAGES
    from threegate.base.errors import UsageError
    from threegate.host.fetch.scans import ScanReader

    named = tuple(dict.fromkeys(args.ocr_language.split("+")))
    if len(named) > MAX_OCR_LANGUAGES or not all(map(OCR_LANGUAGE.fullmatch, named)):
        hint = f"up to {MAX_OCR_LANGUAGES} codes of Tesseract joined by +, such as eng+deu"
        raise UsageError(f"--ocr-language {quote(args.ocr_language)} is not a language", hint=hint)
    return ScanReader(() if args.no_ocr else named)


def prepare(context: Context, ws: "Workspace") -> None:
    """Let new packets be found by meaning, where that can be told on this machine."""
    from threegate.host.ask.nearness import prepare_new

    prepare_new(context, ws)


def _progress(done: int, total: int, started: float) -> list[str]:
    seconds = max(time.monotonic() - started, 0.001)
    left = round(seconds * (total - done) / done) if done else 0
    rate = f"{done / seconds:.1f} files/s"
    return [f"importing: {done} of {total}, {rate}, {left // 60}:{left % 60:02} left"]


def totals(counts: dict[str, int]) -> str:
    """Return how many files had each end."""
    said = [f"{counts[name]} {words}" for name, words in _WORDS.items() if counts.get(name)]
    return ", ".join(said) or "no files"
