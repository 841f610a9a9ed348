"""A box around bytes and text from outside.

SECURITY
    Printing the box prints a size and a digest, never the content, so foreign text
    cannot reach a terminal or a log by accident.  Only `parse_*` functions and the
    code that shows text to the operator open it; grep `open_for_validation` and
    `open_for_display` for the list.
"""

import hashlib
from typing import Generic, TypeVar

T = TypeVar("T", bytes, str)


class Untrusted(Generic[T]):
    """A foreign value that has not been, or can never be, vouched for."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: T = value

    def open_for_validation(self) -> T:
        """Return the content to a parser or to code that copies it byte for byte."""
        return self._value

    def open_for_display(self) -> T:
        """Return the content to code that makes every character visible first."""
        return self._value

    def __repr__(self) -> str:
        text: object = self._value
        raw = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
        return f"<untrusted {len(raw)} bytes {hashlib.sha256(raw).hexdigest()[:12]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Untrusted) and bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash(self._value)
