"""Jupyter notebooks of format 4: notes, code and text outputs, with the number of each cell.

Outputs are read as text only: pictures, HTML and widgets are left out, and nothing is run.

SECURITY
    Reads foreign bytes through `strict_json`.  A value of another type than the format says is
    left out.  Colours of a terminal in an error are removed.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.json_text import parsed
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources.fields import Fields, Record
from threegate.gates.fetch.sources.metadata import Metadata

MAX_NOTEBOOK_BYTES: Final = 64 * 2**20  # most of it pictures
FORMAT: Final = 4
_COLOUR: Final = re.compile("\x1b\\[[0-9;]{0,50}[A-Za-z]")
_KINDS: Final = {"markdown": "notes", "code": "code", "raw": "raw"}


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the cells in order, or raise `Unread`."""
    record = Record(answer.source)
    book = Fields(record, parsed(raw, most_bytes=MAX_NOTEBOOK_BYTES))
    version = book.get("nbformat")
    if not isinstance(version, int) or not isinstance(book.get("cells"), list):
        hint = "" if version is None else ": open it in Jupyter and save it"
        raise Unread("other-kind", f"not a notebook of format {FORMAT}{hint}")
    parts = tuple(
        part for n, cell in enumerate(book.objects("cells"), 1) for part in _cell(n, cell)
    )
    return Document(parts, _about(book.inner("metadata"), record))


def _cell(number: int, cell: Fields) -> Iterator[Part]:
    kind = _KINDS.get(cell.word("cell_type"), "cell")
    yield from _part(f"cell {number} ({kind})", _text(cell.get("source")))
    said = "\n".join(filter(None, map(_output, cell.objects("outputs"))))
    yield from _part(f"cell {number} (output)", said)


def _part(label: str, text: str) -> Iterator[Part]:
    if text.strip():
        yield Part(Untrusted(label), Untrusted(text))


def _output(output: Fields) -> str:
    kind = output.word("output_type")
    if kind == "stream":
        return _text(output.get("text"))
    if kind == "error":
        name, value = _text(output.get("ename")), _text(output.get("evalue"))
        trace = "\n".join(map(_text, output.items("traceback")))
        return trace or f"{name}: {value}"
    return _text(output.inner("data").get("text/plain"))


def _text(value: object) -> str:
    """Return a text given as such or as a list of lines."""
    if isinstance(value, list):
        value = "".join(item for item in value if isinstance(item, str))
    return _COLOUR.sub("", value).strip("\n") if isinstance(value, str) else ""


def _about(metadata: Fields, record: Record) -> Metadata | None:
    title = metadata.get("title")
    if not isinstance(title, str) or not title.strip():
        return None
    record.set_title(title)
    for author in metadata.objects("authors"):
        record.add_author(author.get("name"))
    return record.finished()
