"""Tables of every key a policy may hold, for the documents, from the schema itself."""

from collections.abc import Iterator

from threegate.policy.reasons import Reason
from threegate.policy.schema import Examples, Field, Record, Table
from threegate.policy.sections import BY_NAME, GATES
from threegate.policy.sections.gates import PROFILE

_HEAD = "| key | value | wider is | what it is |\n|---|---|---|---|\n"


def field_table(section: str) -> str:
    """Return the table of one section, as Markdown."""
    record, prefix = (PROFILE, "NAME.") if section == GATES else (BY_NAME[section].record, "")
    return _HEAD + "".join(f"{row}\n" for row in _rows(record, prefix, {}))


def reason_table() -> str:
    """Return the table of error codes, as Markdown."""
    rows = (f"| {reason.code} | {_cell(reason.hint)} |\n" for reason in Reason)
    return "| code | what to do |\n|---|---|\n" + "".join(rows)


def _rows(record: Record, prefix: str, seen: dict[Record, str]) -> Iterator[str]:
    if record in seen:
        yield f"| `{prefix}*` | as `{seen[record]}*` | | |"
        return
    seen[record] = prefix
    for entry in record.fields:
        name = f"{prefix}{entry.name}"
        if not isinstance(entry.kind, Record):
            yield _row(entry, name)
        if isinstance(entry.kind, Table):
            yield from _rows(entry.kind.row, f"{name}.NAME.", seen)
        elif isinstance(entry.kind, Record):
            yield from _rows(entry.kind, f"{name}.", seen)


def _row(entry: Field, name: str) -> str:
    kind = entry.kind
    wider = "tests only" if isinstance(kind, Examples) else kind.wider()
    cells = (f"`{name}`", kind.describe(), wider, entry.words)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
