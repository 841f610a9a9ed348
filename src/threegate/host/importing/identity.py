"""Identity of an imported document: identifiers that it names, and whether a record describes it.

A document can name any identifier, so an identifier in it is a proposal.  It counts only if the
registry's record of that identifier describes this document: its title is at the beginning or is
the title that the file claims.

SECURITY
    Compares text of unknown origin.  Pure: no I/O.  The author of a file can copy a title into
    it: then the file is shown with that work's metadata, and its text stays labelled as text of
    the file.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final

from threegate.artifacts.references import Reference, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.provenance.headlines import unmarked

MAX_PROPOSALS: Final = 3
MAX_HEAD_CHARS: Final = 8_000  # of the first pages
MOST_PAGES: Final = 2
LEAST_WORDS: Final = 3  # of a title that is long enough to be compared by itself
MOST_TITLE_WORDS: Final = 12  # that are compared, in their order
MOST_WORDS_BEFORE: Final = 120  # of a document, in which its title must be
MAX_IDENTIFIER_CHARS: Final = 100  # of a reference that is asked for: it tells the registry no more

# As they are printed in articles.  A DOI ends where a sentence or a bracket does.
_DOI: Final = re.compile(r"\b10\.[0-9]{4,9}(?:\.[0-9]{1,9}){0,4}/[^\s\"<>|\\^`{}\[\]]{1,120}")
_ARXIV: Final = re.compile(r"\barXiv:\s?([0-9]{4}\.[0-9]{4,5}(?:v[0-9]{1,2})?)\b", re.IGNORECASE)
_PMID: Final = re.compile(r"\bPMID:?\s?([1-9][0-9]{4,8})\b")
_TRAILING: Final = ".,;:)]'\u2019"
_WORD: Final = re.compile(r"[^\W_]+")


def proposals(packet: ResearchPacket) -> list[Reference]:
    """Return the identifiers that a document names, the most telling first."""
    found = dict[str, Reference]()
    for text in (*_claimed(packet), *_printed(head_of(packet))):
        try:
            reference = parse_reference(text)
        except ValueError:
            continue
        told = reference.text.isascii() and len(reference.text) <= MAX_IDENTIFIER_CHARS
        if reference.scheme != "url" and told:
            found.setdefault(reference.text, reference)
    return list(islice(found.values(), MAX_PROPOSALS))


def head_of(packet: ResearchPacket) -> str:
    """Return the text of the first pages, or the beginning of a document without pages."""
    texts = (
        text.open_for_validation()
        for one, text in zip(packet.excerpts, packet.texts, strict=True)
        if one.page is None or one.page <= MOST_PAGES
    )
    return "\n".join(texts)[:MAX_HEAD_CHARS]


def describes(record: ResearchPacket, document: ResearchPacket) -> bool:
    """Tell whether the record of a registry is about this document, by title and author."""
    title = _words(unmarked(record.title.open_for_validation()))[:MOST_TITLE_WORDS]
    claimed, head = _words(document.title.open_for_validation()), _words(head_of(document))
    # A title far down, or its words in another order, is a citation or chance.
    places = (claimed, head[:MOST_WORDS_BEFORE])
    if not title or not any(_is_within(title, words) for words in places):
        return False
    surnames = {words[-1] for one in record.authors if (words := _words(one.open_for_validation()))}
    # A short title such as "Editorial" is the title of many works.
    return len(title) >= LEAST_WORDS or not surnames.isdisjoint(head)


def _is_within(part: list[str], words: list[str]) -> bool:
    return f" {' '.join(part)} " in f" {' '.join(words)} "


def _claimed(packet: ResearchPacket) -> Iterator[str]:
    for one in packet.identifiers:
        yield f"{one.scheme}:{one.value.open_for_validation()}"


def _printed(text: str) -> Iterator[str]:
    for match in _ARXIV.finditer(text):
        yield f"arxiv:{match[1]}"
    for match in _DOI.finditer(text):
        found = match[0].rstrip(_TRAILING)
        # A bracket belongs to a DOI only if it was opened in it.
        yield f"doi:{found if found.count('(') == found.count(')') else found.partition(')')[0]}"
    for match in _PMID.finditer(text):
        yield f"pmid:{match[1]}"


def _words(text: str) -> list[str]:
    """Return the words of a text without accents and case, those of one letter left out."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(one for one in plain if not unicodedata.combining(one)).casefold()
    return [word for word in _WORD.findall(plain) if len(word) > 1]
