"""Which reader reads which type, in the box that has no library.

A type is looked up by its name, then by its ending (`+json`).  A box with a library adds its
own: `{**PLAIN, "text/html": html.read}`.

Data files that were imported are described.  The same types from a server or a repository are read
as text: an answer of an API is a document to quote from, and so are the lines of a commit.

SECURITY
    Opens the descriptions of data to count what looks like a secret in them; nothing is decided.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from threegate.artifacts import media_types
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import (
    delimited,
    diff,
    json_data,
    json_text,
    latex,
    markdown,
    notebook,
    plain,
    xml_text,
)
from threegate.gates.fetch.normalize.secrets import count_secrets
from threegate.gates.fetch.normalize.text import Document, Read


def _imported(describe: Read, otherwise: Read) -> Read:
    """Return a reader that describes an imported file and reads fetched bytes with another."""

    def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
        if answer.source != "file":
            return otherwise(raw, answer)
        document = describe(raw, answer)
        found = count_secrets(part.text.open_for_validation() for part in document.parts)
        return replace(document, found={"secret-like": found} if found else {})

    return read


PLAIN: Final[Mapping[str, Read]] = {
    media_types.JSON: _imported(json_data.read, json_text.read),
    media_types.JSON_LINES: _imported(json_data.read, plain.read),
    "text/json": json_text.read,
    "+json": json_text.read,
    "application/xml": xml_text.read,
    "text/xml": xml_text.read,
    "+xml": xml_text.read,
    media_types.CSV: _imported(delimited.read, plain.read),
    media_types.TSV: _imported(delimited.read, plain.read),
    media_types.DIFF: diff.read,
    media_types.MARKDOWN: markdown.read,
    media_types.LATEX: latex.read,
    media_types.NOTEBOOK: notebook.read,
    "text/plain": plain.read,
    "text/x-bibtex": plain.read,
    "application/x-bibtex": plain.read,
    "application/x-research-info-systems": plain.read,
}
