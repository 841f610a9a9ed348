"""Tables of every key, section, limit and code of the formats, for the documents."""

from collections.abc import Iterable, Mapping

from threegate.artifacts import limits
from threegate.artifacts.reasons import Reason
from threegate.artifacts.registry import FORMATS
from threegate.base.schema import Either, ListOf, Nullable, Record, Shape, docs_of
from threegate.base.text import FORBIDDEN_RANGES

_HEAD = "| key | value | what it is |\n|---|---|---|\n"


def field_tables(prefix: str) -> str:
    """Return the front matter of a format: its keys, then those of each object, as Markdown."""
    form = FORMATS[prefix]
    tables = [_HEAD, f"| `format` | `{form.name}` | kind and version, always first |\n"]
    tables.append(_rows(form.shapes, docs_of(form.kind)))
    for kind, record in _records(form.shapes.values()).items():
        summary = (kind.__doc__ or "").strip()
        tables.append(f"\n**`{kind.__name__}`**: {summary}\n\n{_HEAD}")
        tables.append(_rows(record.shapes, docs_of(kind)))
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
        f"| `{form.prefix}-` | {form.max_bytes // limits.KIB} KiB |\n"
        for form in FORMATS.values()
    )
    return "| artifact | `format` | id | at most |\n|---|---|---|---|\n" + "".join(rows)


def reason_table() -> str:
    """Return the table of codes, as Markdown."""
    rows = (
        f"| {reason.code} | {reason.name.lower().replace('_', ' ')} | {_cell(reason.hint)} |\n"
        for reason in Reason
    )
    return "| code | rule | what the sender must do |\n|---|---|---|\n" + "".join(rows)


def character_table() -> str:
    """Return the characters that may not stand in an artifact, as Markdown."""
    rows = (
        f"| U+{low:04X}{f' to U+{high:04X}' if high > low else ''} | {kind} |\n"
        for low, high, kind in FORBIDDEN_RANGES
    )
    return "| characters | kind |\n|---|---|\n" + "".join(rows)


def _rows(shapes: Mapping[str, Shape], docs: Mapping[str, str]) -> str:
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
