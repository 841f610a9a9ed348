"""The payload of a fetch-html box: what `gate` does, and pages and EPUB books too."""

from typing import Final

from threegate.artifacts import media_types
from threegate.gates.fetch.normalize.gate import serve_with
from threegate.gates.fetch.normalize.readers import epub, html
from threegate.gates.fetch.normalize.readers.registry import PLAIN

READERS: Final = {
    **PLAIN,
    media_types.HTML: html.read,
    media_types.XHTML: html.read,
    media_types.EPUB: epub.read,
}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
