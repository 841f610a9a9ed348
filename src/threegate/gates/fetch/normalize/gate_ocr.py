"""The payload of a fetch-ocr sandbox: like `gate`, and PDF files whose text is recognised."""

from typing import Final

from threegate.gates.fetch.normalize.gate import serve_with
from threegate.gates.fetch.normalize.readers import pdf_ocr
from threegate.gates.fetch.normalize.readers.registry import PLAIN

READERS: Final = {**PLAIN, "+pdf": pdf_ocr.read}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
