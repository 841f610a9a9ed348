"""Bounds of what retrieve looks at, and of what it keeps."""

from typing import Final

SNIFFED_BYTES: Final = 1_024  # as many as a PDF may put before its header
IDLE_SECONDS: Final = 1.0  # how long a connection is kept for the next question
