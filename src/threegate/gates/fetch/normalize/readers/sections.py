"""Lines of a document, collected under its headings.

SECURITY
    Holds foreign text and boxes it; opens nothing.
"""

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.text import Part


class Sections:
    """Parts in the making: each heading begins one and is its first line."""

    def __init__(self, first: str = "text") -> None:
        self._label, self._lines = first, list[str]()
        self._parts: list[Part] = []

    def begin(self, heading: str) -> None:
        """Begin a part with this heading."""
        heading = " ".join(heading.split())
        if heading:
            self.begin_part(heading)
            self._lines.append(heading)

    def begin_part(self, label: str) -> None:
        """Begin a part whose label is not in its text."""
        self._finish()
        self._label = label

    def add(self, line: str) -> None:
        """Add a line, or several."""
        self._lines.append(line)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts that have text."""
        self._finish()
        return tuple(self._parts)

    def _finish(self) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text.strip():
            self._parts.append(Part(Untrusted(self._label), Untrusted(text)))
        self._lines = []
