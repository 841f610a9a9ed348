"""Which reader reads which type, in the box that has no library.

A type is looked up by its name, then by its ending (`+json`).  A box with a library adds its
own: `{**PLAIN, "text/html": html.read}`.
"""

from collections.abc import Mapping
from typing import Final

from threegate.artifacts import media_types
from threegate.gates.fetch.normalize.readers import (
    diff,
    json_text,
    latex,
    markdown,
    notebook,
    plain,
    xml_text,
)
from threegate.gates.fetch.normalize.text import Read

PLAIN: Final[Mapping[str, Read]] = {
    "application/json": json_text.read,
    "text/json": json_text.read,
    "+json": json_text.read,
    "application/xml": xml_text.read,
    "text/xml": xml_text.read,
    "+xml": xml_text.read,
    "text/csv": plain.read,
    media_types.DIFF: diff.read,
    media_types.MARKDOWN: markdown.read,
    media_types.LATEX: latex.read,
    media_types.NOTEBOOK: notebook.read,
    "text/plain": plain.read,
    "text/tab-separated-values": plain.read,
    "text/x-bibtex": plain.read,
    "application/x-bibtex": plain.read,
    "application/x-research-info-systems": plain.read,
}
