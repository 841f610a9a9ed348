"""The payload of a fetch-html box: what `gate` does, and pages too."""

from typing import Final

from threegate.gates.fetch.normalize.gate import serve_with
from threegate.gates.fetch.normalize.readers import html
from threegate.gates.fetch.normalize.readers.registry import PLAIN

READERS: Final = {**PLAIN, "text/html": html.read, "application/xhtml+xml": html.read}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
