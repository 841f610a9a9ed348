"""Text of an office document as it is met: lines, rows of cells, and what is left out.

A line may begin inside another (a text box, a note); it is finished first.

SECURITY
    Holds foreign text.  The calls follow the elements of well-formed XML, so they are balanced.
"""

from collections.abc import Mapping

from threegate.gates.fetch.normalize.readers.sections import Sections
from threegate.gates.fetch.normalize.text import Part


class Flow:
    """Collects the text of one document."""

    def __init__(self) -> None:
        self.hidden = 0  # characters
        self.undecided = 0  # places
        self.active = 0  # macros, embedded objects, references to outside
        self._body = Sections()
        self._asides: dict[str, Sections] = {}
        self._into = [self._body]
        self._lines: list[list[str]] = []
        self._rows: list[list[str]] = []
        self._cells: list[list[str]] = []

    def write(self, text: str, *, hidden: bool = False) -> None:
        """Add text to the line that is open."""
        if hidden or not self._lines:
            self.hide(text)
        else:
            self._lines[-1].append(text)

    def hide(self, text: str) -> None:
        """Count text that is left out."""
        self.hidden += sum(map(len, text.split()))

    def begin_line(self) -> None:
        """Begin a line: a paragraph."""
        self._lines.append([])

    def end_line(self, *, heading: bool = False) -> None:
        """Finish a line; one in a table is part of its cell."""
        text = "".join(self._lines.pop()).strip()
        if not text:
            return
        if self._cells:
            self._cells[-1].append(text)
        elif heading:
            self._into[-1].begin(text)
        else:
            self._into[-1].add(text)

    @property
    def in_table(self) -> bool:
        return bool(self._cells)

    def begin_row(self) -> None:
        self._rows.append([])

    def begin_cell(self) -> None:
        self._cells.append([])

    def end_cell(self) -> None:
        cell = " ".join(self._cells.pop())
        if self._rows:
            self._rows[-1].append(cell)

    def end_row(self) -> None:
        self.begin_line()
        self.write(" | ".join(self._rows.pop()))
        self.end_line()

    def begin_aside(self, label: str) -> None:
        """Collect what follows under another label, after the body."""
        self._into.append(self._asides.setdefault(label, Sections(label)))
        self._cells.append([])  # its lines belong to no cell around it

    def end_aside(self) -> None:
        self._into.pop().add("\n".join(self._cells.pop()))

    def begin_part(self, label: str) -> None:
        self._into[-1].begin_part(label)

    def parts(self) -> tuple[Part, ...]:
        """Return the body, then what was collected aside."""
        asides = (part for aside in self._asides.values() for part in aside.parts())
        return (*self._body.parts(), *asides)

    def found(self) -> Mapping[str, int]:
        """Return the counts as a packet names them."""
        counts = {
            "active-content": self.active,
            "hidden-text": self.hidden,
            "hidden-undecided": self.undecided,
        }
        return {name: count for name, count in counts.items() if count}
