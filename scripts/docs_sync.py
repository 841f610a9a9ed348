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
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import FORMATS
from threegate.base.limits import KIB
from threegate.base.messages import CheckedRecord, MessageForm
from threegate.base.schema import Either, ListOf, Nullable, Record, Shape, docs_of
from threegate.base.text import FORBIDDEN_RANGES
from threegate.policy.nodes import PolicyReason
from threegate.policy.schema import Examples, RuleField, RuleRecord, RuleTable
from threegate.policy.sections import BY_NAME, GATES
from threegate.policy.sections.gates import PROFILE

# Tables of every key, section, limit and code of the formats, for the documents.

_FORMAT_HEAD = "| key | value | what it is |\n|---|---|---|\n"


def field_tables(prefix: str) -> str:
    """Return the front matter of a format: its keys, then those of each object, as Markdown."""
    form = FORMATS[prefix]
    tables = [_FORMAT_HEAD, f"| `format` | `{form.name}` | kind and version, always first |\n"]
    tables.append(_format_rows(form.shapes, docs_of(form.kind)))
    for kind, record in _records(form.shapes.values()).items():
        summary = (kind.__doc__ or "").strip()
        tables.append(f"\n**`{kind.__name__}`**: {summary}\n\n{_FORMAT_HEAD}")
        tables.append(_format_rows(record.shapes, docs_of(kind)))
    return "".join(tables)


def section_table(prefix: str) -> str:
    """Return the sections of a format's body, as Markdown."""
    form = FORMATS[prefix]
    docs = docs_of(form.kind)
    rows = (
        f"| `## {spec.title}` | {spec.describe()} | {_cell(docs[name])} |\n"
        for name, spec in form.sections.items()
    )
    return "| section | text | what it is |\n|---|---|---|\n" + "".join(rows)


def kind_table() -> str:
    """Return all formats with their limits, as Markdown."""
    rows = (
        f"| [{form.title}]({form.title.lower().replace(' ', '-')}.md) | `{form.name}` "
        f"| `{form.prefix}-` | {form.max_bytes // KIB} KiB |\n"
        for form in FORMATS.values()
    )
    return "| artifact | `format` | id | at most |\n|---|---|---|---|\n" + "".join(rows)


def format_reason_table() -> str:
    """Return the table of codes, as Markdown."""
    rows = (
        f"| {reason.code} | {reason.name.lower().replace('_', ' ')} | {_cell(reason.hint)} |\n"
        for reason in ArtifactReason
    )
    return "| code | rule | what the sender must do |\n|---|---|---|\n" + "".join(rows)


def character_table() -> str:
    """Return the characters that may not stand in an artifact, as Markdown."""
    rows = (
        f"| U+{low:04X}{f' to U+{high:04X}' if high > low else ''} | {kind} |\n"
        for low, high, kind in FORBIDDEN_RANGES
    )
    return "| characters | kind |\n|---|---|\n" + "".join(rows)


def _format_rows(shapes: Mapping[str, Shape], docs: Mapping[str, str]) -> str:
    cells = ((f"`{key}`", shape.describe(), _cell(docs[key])) for key, shape in shapes.items())
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _records(shapes: Iterable[Shape]) -> dict[type, Record]:
    """Return every object below `shapes`, in the order a reader meets them."""
    found: dict[type, Record] = {}
    for shape in shapes:
        inner = shape
        while isinstance(inner, Nullable | ListOf | Either):
            inner = inner.record if isinstance(inner, Either) else inner.shape
        if isinstance(inner, Record):
            found |= {inner.kind: inner, **_records(inner.shapes.values())}
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# Tables of every message between host and gates, from the declarations themselves.

_MESSAGE_HEAD = "| field | value | what it is |\n|---|---|---|\n"
# Records that messages hold and that policy or every protocol share.
_SHARED_MESSAGES = ("threegate.base.greeting", "threegate.policy.ring.executor_profile")


def message_modules() -> list[ModuleType]:
    """Return every module that declares messages, those of the gates by their files."""
    source = ROOT / "src"
    files = sorted((source / "threegate" / "gates").rglob("*messages.py"))
    names = [
        path.relative_to(source).with_suffix("").as_posix().replace("/", ".") for path in files
    ]
    return [import_module(name) for name in (*_SHARED_MESSAGES, *names)]


def message_tables() -> str:
    """Return every message and every record in one, module by module, as Markdown."""
    tables = []
    for module in message_modules():
        place = module.__name__.removeprefix("threegate.").replace(".", "/")
        tables.append(f"\n## `{place}.py`\n")
        kinds = (kind for kind in vars(module).values() if isinstance(kind, type))
        declared = (kind for kind in kinds if kind.__module__ == module.__name__)
        tables += [_message_table(kind) for kind in declared if issubclass(kind, CheckedRecord)]
    return "".join(tables)


def _message_table(kind: type[CheckedRecord]) -> str:
    summary = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    form: MessageForm | None = getattr(kind, "form", None)
    if form is not None:
        answer = f" Answered by {form.answer}." if form.answer else ""
        about = f"`{form.kind}` of `{form.protocol}`, from {form.sender}"
        summary = f"{about}; up to {form.most_bytes:,} bytes. {summary}{answer}"
    rows = (f"| `{one.name}` | {one.describe()} | {_cell(one.doc)} |\n" for one in kind.declared)
    table = f"\n{_MESSAGE_HEAD}{''.join(rows)}" if kind.declared else ""
    return f"\n**`{kind.__name__}`**: {summary}\n{table}"


# Tables of every key a policy may hold, for the documents, from the schema itself.

_POLICY_HEAD = "| key | value | wider is | what it is |\n|---|---|---|---|\n"


def policy_field_table(section: str) -> str:
    """Return the table of one section, as Markdown."""
    record, prefix = (PROFILE, "NAME.") if section == GATES else (BY_NAME[section].record, "")
    return _POLICY_HEAD + "".join(f"{row}\n" for row in _policy_rows(record, prefix, {}))


def policy_reason_table() -> str:
    """Return the table of error codes, as Markdown."""
    rows = (f"| {reason.code} | {_cell(reason.hint)} |\n" for reason in PolicyReason)
    return "| code | what to do |\n|---|---|\n" + "".join(rows)


def _policy_rows(record: RuleRecord, prefix: str, seen: dict[RuleRecord, str]) -> Iterator[str]:
    if record in seen:
        yield f"| `{prefix}*` | as `{seen[record]}*` | | |"
        return
    seen[record] = prefix
    for entry in record.fields:
        name = f"{prefix}{entry.name}"
        if not isinstance(entry.kind, RuleRecord):
            yield _policy_row(entry, name)
        if isinstance(entry.kind, RuleTable):
            yield from _policy_rows(entry.kind.row, f"{name}.NAME.", seen)
        elif isinstance(entry.kind, RuleRecord):
            yield from _policy_rows(entry.kind, f"{name}.", seen)


def _policy_row(entry: RuleField, name: str) -> str:
    kind = entry.kind
    wider = "tests only" if isinstance(kind, Examples) else kind.wider()
    cells = (f"`{name}`", kind.describe(), wider, entry.words)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


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
    "format-characters": lambda _: character_table(),
    "format-codes": lambda _: format_reason_table(),
    "format-example": vector_block,
    "format-fields": field_tables,
    "format-kinds": lambda _: kind_table(),
    "format-sections": section_table,
    "fuzz-counts": fuzz_block,
    "help": help_block,
    "messages": lambda _: message_tables(),
    "policy-codes": lambda _: policy_reason_table(),
    "policy-fields": policy_field_table,
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
