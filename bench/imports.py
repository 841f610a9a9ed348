"""A library of PDF files: import through sandboxes, next to bare pypdfium2 on all processors.

The files are invented papers of twelve pages.  The peer reads text and keeps nothing; ours starts a
sandbox for each file, checks its packet, and stores packet, record and raw bytes.
"""

import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]

from bench.figures import Plain, Sizes, alone, compare
from bench.measure import say
from bench.readers import PAPER_PAGES, paper
from tests.support.workspaces import make_workspace
from threegate.host.importing.batch import ALREADY, MADE, FileImport
from threegate.host.importing.selection import select
from threegate.host.workspace.workspace import Workspace

ONE_IN = 100  # of the packets that are validated elsewhere
MOST_TIMES = 1.7
MOST_SECONDS = 5.0


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    count = max(4, sizes.packets_to_validate // ONE_IN)
    library = directory / "library"
    library.mkdir()
    for number in range(count):
        (library / f"{number:04}.pdf").write_bytes(paper(number))
    ws = make_workspace(directory)
    ours = _imported(ws, library, MADE, count)
    say(f"imports: {count} files in {ours:.0f} s")
    again = _imported(ws, library, ALREADY, count)
    bare = _bare(library)
    ws.close()
    rows = [
        compare(
            f"{count} PDF files of {PAPER_PAGES} pages become packets, all processors",
            count / ours,
            peer="pypdfium2, the text alone, a process per processor",
            theirs=count / bare,
            unit="files/s",
            target=f"at most {MOST_TIMES} times the peer's time",
            met=ours <= MOST_TIMES * bare,
        ),
        alone(
            f"the same {count} files again",
            again,
            "s",
            target=f"at most {MOST_SECONDS:g} s for 1,000 files",
            met=again <= MOST_SECONDS,
        ),
    ]
    return {"rows": rows, "curves": []}


def _imported(ws: Workspace, library: Path, status: str, count: int) -> float:
    """Return the seconds of one import; every file must end with this status."""
    begin = time.perf_counter()
    with closing(FileImport(ws, level="internal")) as task:
        reports = list(task.run(select([str(library)], library, recursive=False)))
    seconds = time.perf_counter() - begin
    assert [one.status for one in reports] == [status] * count, reports[:3]
    return seconds


def _bare(library: Path) -> float:
    files = sorted(map(str, library.iterdir()))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_text, files[:2]))  # the processes are there and have imported
        begin = time.perf_counter()
        _drain(pool.map(_text, files, chunksize=8))
        return time.perf_counter() - begin


def _text(name: str) -> int:
    document = pypdfium2.PdfDocument(name)
    try:
        return sum(len(page.get_textpage().get_text_range()) for page in document)
    finally:
        document.close()


def _drain(found: Iterable[int]) -> None:
    assert all(found), "control: every file has text"
