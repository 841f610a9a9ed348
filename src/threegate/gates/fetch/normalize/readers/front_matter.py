"""YAML front matter of a note: title, authors and date as the note's own claims.

Only `key: value`, `key: [a, b]` and lists of `- value` lines are understood.  There are no
anchors, tags or nested values, so nothing can expand.  All lines stay in the text of the packet.

SECURITY
    Works on foreign text, line by line.  Its values are claims: a registry is believed first.
"""

from collections.abc import Iterator
from typing import Final

from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record

FENCE: Final = "---"
MAX_FRONT_LINES: Final = 1_000
_ENDS: Final = (FENCE, "...")
_AUTHORS: Final = ("author", "authors")
_DATES: Final = ("date", "published", "created")
_LICENCES: Final = ("licence", "license")


def split_front_matter(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines of the front matter, and all other lines."""
    if not lines or lines[0].rstrip() != FENCE:
        return [], lines
    for number, line in enumerate(lines[1 : MAX_FRONT_LINES + 1], 1):
        if line.rstrip() in _ENDS:
            return lines[1:number], lines[number + 1 :]
    return [], lines


def read_claims(lines: list[str], record: Record) -> None:
    """Copy the claims that a packet has a field for into `record`."""
    for key, value in _values(lines):
        if key == "title" and record.title is None:
            record.set_title(value)
        elif key in _AUTHORS:
            record.add_author(value)
        elif key in _DATES:
            record.set_published(dates.from_text(value))
        elif key in _LICENCES:
            record.set_licence(value)


def _values(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with each of its values."""
    key = ""
    for line in lines:
        item = line.strip()
        if item.startswith("- "):
            name, colon, rest = item[2:].partition(": ")
            value = _unquoted(rest if colon and name.strip() == "name" else item[2:])
            if key and value:
                yield key, value
        elif line[:1] not in (" ", "\t", "#", ""):
            name, _, rest = line.partition(":")
            key = name.strip().lower()
            for value in _listed(rest.strip()):
                yield key, value


def _listed(text: str) -> Iterator[str]:
    if text.startswith("[") and text.endswith("]"):
        yield from filter(None, map(_unquoted, text[1:-1].split(",")))
    elif text:
        yield _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
