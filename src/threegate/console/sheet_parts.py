"""A review sheet for a browser: the very lines of `threegate review show`, in parts.

SECURITY
    Nothing is added to or left out of what the terminal shows, so there is one account of a
    request and not two.  The digest is of these lines: a yes to other lines is refused.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from threegate.base.text import visible
from threegate.host.review.parts import StyledLine, StyledSpan, plain
from threegate.host.review.render import lines
from threegate.host.review.sheet import Sheet


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One line: what stands in the margin, and its text."""

    margin: str
    spans: tuple[StyledSpan, ...]


@dataclass(frozen=True, slots=True)
class SheetPart:
    """The lines under one title of ours."""

    title: str
    rows: tuple[SheetRow, ...]


def parts_of(sheet: Sheet) -> list[SheetPart]:
    """Return the sheet in parts, in the order of the terminal."""
    found: list[tuple[str, list[SheetRow]]] = []
    for line in lines(sheet):
        if not found or line.section != found[-1][0]:
            found.append((line.section, []))
        if _is_text(line):
            found[-1][1].append(SheetRow(line.head.text, line.spans))
    return [SheetPart(title, tuple(rows)) for title, rows in found]


def _is_text(line: StyledLine) -> bool:
    """Tell titles and the space before them from everything else."""
    if line.spans and line.spans[0].style == "title":
        return line.section == "request"
    return bool(line.spans or line.head.text)


def digest_of(sheet: Sheet) -> str:
    """Return the digest of everything that is shown, but for how old it is."""
    still = replace(sheet, now=0)
    text = "\n".join([sheet.id, sheet.policy, *_texts(still)])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _texts(sheet: Sheet) -> Iterator[str]:
    for line in lines(sheet):
        yield visible(line.head.text + plain(line.spans))


def needs_typing(sheet: Sheet) -> bool:
    """Tell whether a yes takes more than a click: what leaves the machine, or the lite lane."""
    return sheet.lane == "era" or sheet.rule_of_two.network
