"""The payload of a fetch-pdf box: what `gate` does, and PDF files too."""

from typing import Final

from threegate.gates.fetch.normalize.gate import serve_with
from threegate.gates.fetch.normalize.readers import pdf
from threegate.gates.fetch.normalize.readers.registry import PLAIN

READERS: Final = {**PLAIN, "application/pdf": pdf.read}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
