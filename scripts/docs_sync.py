"""Keep the generated blocks of the documents true.

A block lies between two markers; the first names a generator and its argument:

    <!-- generated: help policy diff -->
    ...
    <!-- end -->

`docs_sync.py` rewrites every block; `--check` changes nothing and exits 1 if a block
differs.  To add a generator, write `(argument) -> str` and name it in GENERATORS.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from threegate.artifacts import fields as formats
from threegate.policy.fields import field_table, reason_table

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?P<open><!-- generated: (?P<name>[a-z-]+)(?: (?P<argument>[^\n]*?))? -->\n)"
    r"(?P<body>.*?)(?P<close>^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)
OPENING = re.compile(r"^<!-- generated: ", re.MULTILINE)

Generator = Callable[[str], str]


def help_block(argument: str) -> str:
    """Return what `threegate ARGUMENT --help` prints, as a fenced block."""
    command = ["threegate", *argument.split(), "--help"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    run = [sys.executable, "-m", *command]
    shown = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    return f"```console\n$ {' '.join(command)}\n{shown.stdout.rstrip()}\n```\n"


def vector_block(argument: str) -> str:
    """Return the artifact in an accept vector, as a fenced block."""
    path = ROOT / "tests" / "vectors" / "artifacts" / "accept" / f"{argument}.md"
    return f"````markdown\n{path.read_text('utf-8').partition(chr(10) * 2)[2]}````\n"


def fuzz_block(_: str) -> str:
    """Return the counts that the last long fuzz run recorded."""
    rows = json.loads((ROOT / "docs" / "evidence" / "fuzzing.json").read_text("utf-8"))
    head = "| target | seeds | executions | findings |\n|---|---|---|---|\n"
    lines = [
        f"| {row['target']} | {row['seeds']} | {row['executions']:,} | {len(row['findings'])} |\n"
        for row in rows
    ]
    total = sum(row["executions"] for row in rows)
    findings = sum(len(row["findings"]) for row in rows)
    return f"{head}{''.join(lines)}| all | | {total:,} | {findings} |\n"


def bench_block(argument: str) -> str:
    """Return a table of the figures that `make bench` recorded last."""
    run = [sys.executable, str(ROOT / "bench" / "run.py"), "--show", argument]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def transcript_block(argument: str) -> str:
    """Return a session with the real command, as a fenced block."""
    run = [sys.executable, str(ROOT / "scripts" / "transcript.py"), *argument.split()]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


GENERATORS: Mapping[str, Generator] = {
    "bench": bench_block,
    "format-characters": lambda _: formats.character_table(),
    "format-codes": lambda _: formats.reason_table(),
    "format-example": vector_block,
    "format-fields": formats.field_tables,
    "format-kinds": lambda _: formats.kind_table(),
    "format-sections": formats.section_table,
    "fuzz-counts": fuzz_block,
    "help": help_block,
    "policy-codes": lambda _: reason_table(),
    "policy-fields": field_table,
    "transcript": transcript_block,
}


class SyncError(Exception):
    """A document has a marker that cannot be filled."""


def render(text: str, generators: Mapping[str, Generator]) -> str:
    """Return `text` with every block regenerated."""

    def fill(match: re.Match[str]) -> str:
        generator = generators.get(match["name"])
        if generator is None:
            raise SyncError(f"no generator is called {match['name']}")
        return match["open"] + generator(match["argument"] or "") + match["close"]

    # An unclosed block would be skipped, and its content would drift from the program.
    if len(OPENING.findall(text)) != sum(1 for _ in BLOCK.finditer(text)):
        raise SyncError("a generated block is not closed, or its marker is misspelt")
    return BLOCK.sub(fill, text)


def documents(root: Path) -> Iterator[Path]:
    """Yield the documents that may hold blocks."""
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))


def _unified(name: str, old: str, new: str) -> str:
    lines = old.splitlines(), new.splitlines()
    return "\n".join(difflib.unified_diff(*lines, name, "generated", lineterm=""))


def sync(root: Path, generators: Mapping[str, Generator], *, check: bool) -> list[str]:
    """Rewrite the documents, or only compare them; return one line or diff per finding."""
    findings = []
    for path in documents(root):
        name, old = str(path.relative_to(root)), path.read_text("utf-8")
        try:
            new = render(old, generators)
        except SyncError as exc:
            findings.append(f"{name}: {exc}")
            continue
        if new != old and check:
            findings.append(_unified(name, old, new))
        elif new != old:
            path.write_text(new, "utf-8")
            print(f"{name}: rewritten")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description="keep the generated blocks of the documents true")
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 on a difference"
    )
    findings = sync(ROOT, GENERATORS, check=parser.parse_args().check)
    print("\n".join(findings) or "documents: in sync")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
