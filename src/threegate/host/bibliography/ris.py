"""RIS, as far as it names works: `TY` to `ER`, with `DO`, `UR` and the like between.

SECURITY
    Reads files that somebody else wrote, line by line and one pass.  If this module is
    wrong, a work is missed or another one is named; what may be asked is decided elsewhere.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.artifacts.references import parse_reference
from threegate.host.bibliography.entries import Entry, shortened

_LINE: Final = re.compile(r"([A-Z][A-Z0-9]) {1,2}- ?(.*)", re.DOTALL)
_LINKS: Final = ("UR", "L1", "L2", "LK")


def entries_of(text: str) -> Iterator[Entry]:
    """Yield the entries of a RIS file."""
    start, names = 0, dict[str, str]()
    for number, line in enumerate(text.split("\n"), 1):
        found = _LINE.fullmatch(line) if len(line) < 100_000 else None
        if found is None:
            continue  # blank, or a line that goes on: no name of a work does
        tag, value = found[1], shortened(found[2].strip())
        if tag == "TY":
            if start > 0:
                yield Entry(start, problem="no ER line before the next entry")
            start, names = number, {}
        elif not start:
            yield Entry(number, problem=f"{tag} outside an entry, which begins with TY")
            start = -1  # said once
        elif tag == "ER":
            if start > 0:
                yield Entry(start, names)
            start = 0
        elif start > 0:
            _take(tag, value, names)
    if start > 0:
        yield Entry(start, problem="no ER line at its end")


def _take(tag: str, value: str, names: dict[str, str]) -> None:
    if tag == "DO":
        names.setdefault("doi", value)
    elif tag in _LINKS:
        # One entry may have several links, and the one to a registry says more than others.
        try:
            scheme = parse_reference(value).scheme
        except ValueError:
            scheme = "url"
        names.setdefault(scheme, value)
