"""How well PDF files are read: words in reading order, next to pdftotext and pypdf.

    python -m bench.pdf_reading                     # invented files, whose words are known
    python -m bench.pdf_reading FOLDER [--limit N]  # other files: how far the readers agree

The measure is the share of runs of eight words, one after the other, that are found in what a
reader gives.  A reader that goes across two columns has hardly any.  Each file is read in a
process of its own with a limit of time, without the sandbox.  `pdftotext` is part of
poppler-utils; pypdf is compared with where it is installed.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]

from bench.data import sentences
from tests.support.pages import answer
from tests.support.pdf_layouts import Typeset, in_columns
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import pdf
from threegate.gates.fetch.normalize.text import Unread

RUN = 8
SECONDS = 30
FAILED = "\0"
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
Reader = Callable[[bytes], str]


def ours(raw: bytes) -> str:
    """Return the text of our reader, or why there is none."""
    try:
        found = pdf.read(Untrusted(raw), answer())
    except Unread as exc:
        return f"{FAILED}{exc.reason}: {exc.detail}"
    return "\n".join(part.text.open_for_validation() for part in found.parts)


def bare(raw: bytes) -> str:
    """Return what PDFium gives."""
    document = pypdfium2.PdfDocument(raw)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


def poppler(*options: str) -> Reader:
    """Return `pdftotext` with options."""

    def read(raw: bytes) -> str:
        command = ["pdftotext", *options, "-", "-"]
        done = subprocess.run(command, input=raw, capture_output=True, check=False)
        return done.stdout.decode("utf-8", "replace")

    return read


def pypdf_text(raw: bytes) -> str:
    """Return what pypdf gives."""
    import io
    import logging

    import pypdf  # type: ignore[import-not-found]

    logging.disable()  # it warns of every font
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(raw)).pages)


READERS: dict[str, Reader] = {
    "threegate": ours,
    "PDFium alone": bare,
    "pdftotext": poppler(),
    "pdftotext -layout": poppler("-layout"),
    "pypdf": pypdf_text,
}


def apart(read: Reader, raw: bytes) -> tuple[str, float]:
    """Return a text and how long it took, from a process of its own; `FAILED` begins a failure."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        signal.alarm(SECONDS)
        try:
            start = sum(os.times()[:4])
            text = read(raw)
            took = sum(os.times()[:4]) - start  # with that of a program it started
        except Exception as exc:  # noqa: BLE001 - whatever another reader raises
            text, took = f"{FAILED}!{type(exc).__name__}: {exc}"[:200], 0.0
        with os.fdopen(send, "wb") as pipe:
            pipe.write(f"{took}\n{text}".encode("utf-8", "replace"))
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answered = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if not answered:
        ended = os.waitstatus_to_exitcode(status)
        return f"{FAILED}!ended with {ended}", 0.0
    seconds, _, answered = answered.partition("\n")
    return answered, float(seconds)


def runs(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Return the runs of words, one from each word on."""
    words = [word.lower() for word in words]
    return Counter(tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def share(truth: Sequence[str], text: str) -> float:
    """Return which share of the runs of `truth` is in a text."""
    wanted, found = runs(truth), runs(_WORD.findall(text))
    return sum((wanted & found).values()) / max(1, sum(wanted.values()))


def invented() -> dict[str, list[Typeset]]:
    """Return files whose words are known."""
    chooser = random.Random(18)
    title = "On gates and what they keep"
    kinds: dict[str, dict[str, object]] = {
        "one column": {"columns": 1},
        "two columns": {"columns": 2},
        "two columns, painted line by line": {"columns": 2, "by_row": True},
        "two columns, the second painted first": {"columns": 2, "backwards": True},
        "three columns": {"columns": 3},
        "three columns, painted line by line": {"columns": 3, "by_row": True},
    }
    return {
        name: [
            in_columns(" ".join(chooser.choices(sentences(), k=120)), title=title, **how)  # type: ignore[arg-type]
            for _ in range(5)
        ]
        for name, how in kinds.items()
    }


def compare_invented() -> None:
    """Print the share of runs of known words that each reader finds."""
    print("| |", " | ".join(READERS), "|\n|---|" + "---|" * len(READERS))
    for name, files in invented().items():
        row = []
        for read in READERS.values():
            found = [
                share(_WORD.findall(" ".join(made.words)), apart(read, made.raw)[0])
                for made in files
            ]
            row.append(f"{sum(found) / len(found):.3f}")
        print(f"| {name} |", " | ".join(row), "|")


def compare_files(paths: Iterable[Path], readers: dict[str, Reader]) -> None:
    """Print what became of each file, and how far the readers agree on those with text."""
    ends: Counter[str] = Counter()
    agreed: dict[str, list[float]] = {name: [] for name in readers}
    spent = dict.fromkeys(readers, 0.0)
    for path in paths:
        raw = path.read_bytes()
        found = {name: apart(read, raw) for name, read in readers.items()}
        mine, theirs = found["threegate"][0], _WORD.findall(found["pdftotext"][0])
        ends[mine[1:].split(";")[0][:90] if mine.startswith(FAILED) else "read"] += 1
        if mine.startswith(f"{FAILED}!"):
            print(f"{path}: {mine[1:120]}", file=sys.stderr)
        compared = len(theirs) > 10 * RUN and not mine.startswith(FAILED)
        for name, (text, took) in found.items():
            spent[name] += took
            agreed[name] += [share(theirs, text)] * compared
    for end, count in ends.most_common():
        print(f"| {end} | {count} |")
    print(
        "\n| reader | mean share of pdftotext's runs | median | files | CPU seconds |\n"
        + "|---" * 5
    )
    for name, values in agreed.items():
        middle, mean = sorted(values)[len(values) // 2], sum(values) / len(values)
        print(f"| {name} | {mean:.3f} | {middle:.3f} | {len(values)} | {spent[name]:.1f} |")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="take this many files, at random")
    parser.add_argument("--pypdf", action="store_true", help="also pypdf, which is slow")
    options = parser.parse_args()
    if not options.folders:
        compare_invented()
        return
    paths = sorted(path for folder in options.folders for path in folder.rglob("*.pdf"))
    if options.limit:
        paths = sorted(random.Random(18).sample(paths, min(options.limit, len(paths))))
    compare_files(paths, {k: v for k, v in READERS.items() if k != "pypdf" or options.pypdf})


if __name__ == "__main__":
    main()
