"""What a reader of reading lists finds: for each entry its line and the fields that name a work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_LIST_BYTES: Final = 32 * 2**20  # 10,000 entries with their abstracts are 20 MiB
MAX_ENTRIES: Final = 20_000
MAX_FIELD_CHARS: Final = 4_096  # of a field that names a work; no other is kept
MAX_DEPTH: Final = 100
MAX_CONTAINERS: Final = 2_000_000  # two bytes of JSON spell a list of a hundred in memory

# In the order they are preferred; `arxiv` and `url` come under several names.
NAMING: Final = ("doi", "arxiv", "pmid", "pmcid", "openalex", "url")


class Unreadable(ValueError):
    """Why nothing of a list, or nothing after a line of it, can be read; in our words."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list: the texts that should name a work, by `NAMING`; foreign text."""

    line: int
    names: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""  # why it could not be read


def shortened(text: str) -> str:
    """Return a field as it is kept: nothing that long names a work."""
    return text if len(text) <= MAX_FIELD_CHARS else text[: MAX_FIELD_CHARS + 1]
