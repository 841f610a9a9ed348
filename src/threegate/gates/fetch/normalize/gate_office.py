"""The payload of a fetch-office box: what `gate` does, and DOCX, ODT, PPTX and XLSX files too."""

from typing import Final

from threegate.artifacts import media_types
from threegate.gates.fetch.normalize.gate import serve_with
from threegate.gates.fetch.normalize.readers import docx, odt, pptx, xlsx
from threegate.gates.fetch.normalize.readers.registry import PLAIN

READERS: Final = {
    **PLAIN,
    media_types.DOCX: docx.read,
    media_types.ODT: odt.read,
    media_types.PPTX: pptx.read,
    media_types.XLSX: xlsx.read,
}


def serve() -> None:
    """Answer one message."""
    serve_with(READERS)
