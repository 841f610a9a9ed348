"""The merged fields of a work as they may stand in the front matter of a packet.

SECURITY
    Foreign text in one line each, bounded one by one and, where a list could fill a packet,
    together.  A name that had to be spelled in another way is still a name: `<` in a DOI is
    written `%3C`, as in a URL.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.limits import MAX_NOTICES, MAX_TITLE_CHARS
from threegate.artifacts.research_packet import Identifier, Notice
from threegate.base.limits import MAX_LINE_CHARS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.hazards import Findings, show_line
from threegate.gates.fetch.sources.merge import Merged
from threegate.gates.fetch.sources.metadata import RETRACTION_ORDER, Author
from threegate.gates.fetch.sources.metadata import Notice as Said
from threegate.gates.fetch.sources.names import sort_key

MAX_AUTHOR_CHARS: Final = 300
MAX_ALL_AUTHORS_CHARS: Final = 60_000  # a thousand names of sixty characters
MAX_NOTICE_LABEL_CHARS: Final = 300
MAX_NAME_CHARS: Final = 200
_STATED: Final = ("corrected", "concern", "retracted")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a packet says about a work."""

    title: str
    authors: tuple[str, ...]
    container: Untrusted[str] | None
    licence: Untrusted[str] | None
    identifiers: tuple[Identifier, ...]
    notices: tuple[Notice, ...]


def shown(work: Merged, found: Findings) -> Shown:
    """Return the fields of `work`, their hazards visible and counted."""
    title = "" if work.title is None else work.title.open_for_validation()
    return Shown(
        title=show_line(title, MAX_TITLE_CHARS, found),
        authors=tuple(_authors(work.authors, found)),
        container=_line(work.container, found),
        licence=_line(work.licence, found),
        identifiers=_identifiers(work.identifiers),
        notices=_notices(work.retraction.notices, found),
    )


def spelled_name(name: Identifier) -> str:
    """Return an identifier as one word, such as `doi:10.5555/12345678`."""
    return f"{name.scheme}:{name.value.open_for_validation()}".replace("<", "%3C")


def _line(text: Untrusted[str] | None, found: Findings) -> Untrusted[str] | None:
    if text is None:
        return None
    line = show_line(text.open_for_validation(), MAX_LINE_CHARS, found)
    return Untrusted(line) if line else None


def _authors(authors: tuple[Author, ...], found: Findings) -> Iterator[str]:
    left = MAX_ALL_AUTHORS_CHARS
    for author in authors:
        name = show_line(author.name.open_for_validation(), MAX_AUTHOR_CHARS, found)
        left -= len(name)
        if left < 0:
            found.add("truncated")
            return
        if name:
            yield name


def _identifiers(names: tuple[Identifier, ...]) -> tuple[Identifier, ...]:
    if not any("<" in name.value.open_for_validation() for name in names):
        return names
    values = {(n.scheme, n.value.open_for_validation().replace("<", "%3C")) for n in names}
    kept = (Identifier(s, Untrusted(v)) for s, v in values if len(v) <= MAX_NAME_CHARS)
    return tuple(sorted(kept, key=sort_key))


def _notices(said: tuple[Said, ...], found: Findings) -> tuple[Notice, ...]:
    stated = [notice for notice in said if notice.status in _STATED]
    if len(stated) > MAX_NOTICES:
        # The worst must not drown in others.
        stated.sort(key=lambda notice: -RETRACTION_ORDER.index(notice.status))
        found.add("truncated")
    return tuple(_notice(notice, found) for notice in stated[:MAX_NOTICES])


def _notice(said: Said, found: Findings) -> Notice:
    words = [] if said.label is None else [said.label.open_for_validation()]
    if said.said_by is not None:
        words.append(f"({said.said_by.open_for_validation()})")
    label = show_line(" ".join(words), MAX_NOTICE_LABEL_CHARS, found)
    name = "" if said.identifier is None else spelled_name(said.identifier)
    return Notice(
        status=said.status,
        source=said.source,
        label=Untrusted(label) if label else None,
        notice=Untrusted(name) if 0 < len(name) <= MAX_NAME_CHARS else None,
        date=None if said.date is None else said.date.text,
    )
