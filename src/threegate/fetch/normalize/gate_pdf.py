"""The payload of a fetch-pdf box: what `gate` does, and PDF files too."""

from typing import Final

from threegate.fetch.normalize.gate import serve_with
from threegate.fetch.normalize.readers import pdf
from threegate.fetch.normalize.readers.registry import PLAIN

READERS: Final = {**PLAIN, "application/pdf": pdf.read}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
