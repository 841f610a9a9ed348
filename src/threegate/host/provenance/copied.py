"""Which source the words of a draft stand in: where a draft goes back to, as far as it shows.

A draft that a source dictated usually repeats it: an address, a line of code, a run of words.
Finding it is a hint for whoever reviews, never a gate: a source can dictate in other words.

SECURITY
    Compares text a model wrote with text strangers wrote.  If this module is wrong, a hint is
    missing; everything that could be read still stands in `derived_from`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.registry import Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.untrusted import Untrusted
from threegate.host.provenance.texts import Material

RUN_WORDS: Final = 4  # words in a row that are hardly the same by chance
LEAST_CHARS: Final = 8  # of an address or a string
_WORD: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(r"[^\s\"'(){}\[\],;<>]+")


@dataclass(frozen=True, slots=True)
class Copied:
    """A part of a request that stands in a source."""

    part: str  # purpose, code or reference
    artifact: str
    number: int  # of the text; 0 is the title

    @property
    def where(self) -> str:
        """Return the place in words."""
        return f"{short(self.artifact)} {f'text {self.number}' if self.number else 'title'}"


def copied_from(request: Request, sources: Iterable[Material]) -> list[Copied]:
    """Return which parts of a request stand in which texts, each source once for each part."""
    parts = [(name, _marks(text), _runs(text)) for name, text in _parts(request)]
    found: dict[tuple[str, str], Copied] = {}
    for material in sources:
        for number, text in enumerate((_title(material), *material.texts)):
            untrusted = text.open_for_validation()
            lowered, runs = untrusted.lower(), _runs(untrusted)
            for name, marks, own in parts:
                key = (name, material.id)
                if key not in found and (own & runs or any(mark in lowered for mark in marks)):
                    found[key] = Copied(name, material.id, number)
    return sorted(found.values(), key=lambda one: (one.artifact, one.part))


def _title(material: Material) -> Untrusted[str]:
    """Return the title of a packet, which a model is shown too; other titles are not foreign."""
    return material.title if isinstance(material.artifact, ResearchPacket) else Untrusted("")


def _parts(request: Request) -> Iterator[tuple[str, str]]:
    yield "purpose", request.purpose.open_for_validation()
    if isinstance(request, ToolRequest):
        yield "code", request.code.open_for_validation()
    if isinstance(request, FetchRequest):
        for reference in request.references:
            yield "reference", reference.open_for_validation()


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words: Sequence[str] = [word.lower() for word in _WORD.findall(text)]
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))


def _marks(text: str) -> list[str]:
    """Return what is telling by itself: addresses, identifiers, long strings of signs."""
    found = []
    for token in _TOKEN.findall(text.lower()):
        bare = re.sub(r"\A(?:https?://|doi:|arxiv:|pmid:|openalex:)", "", token).strip("./:?!")
        telling = not bare.isalpha() and any(sign in bare for sign in "./:=@")
        if telling and len(bare) >= LEAST_CHARS:
            found.append(bare)
    return found
