"""Parts of text become excerpts: bounded, with their places, and named by digest.

The texts of all parts, in order and joined by one line feed, are the text that FETCH made of
its sources; `offset` counts its characters.  What a bound cuts off is counted as `truncated`.

SECURITY
    Works on foreign text of any length.  A part is cut before it is worked on, so that what
    a character is spelled out as cannot fill the box.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.limits import MAX_EXCERPT_CHARS, MAX_EXCERPTS, MAX_PACKET_BYTES
from threegate.artifacts.research_packet import Excerpt
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.hazards import Findings, show, show_line
from threegate.gates.fetch.normalize.text import Part

MAX_LABEL_CHARS: Final = 200
# Composing can make one character of several; nothing else makes a text shorter.
MAX_RAW_CHARS: Final = 2 * MAX_PACKET_BYTES
_LEAST_FILL: Final = MAX_EXCERPT_CHARS * 3 // 4
_ENTRY_BYTES: Final = 200  # of an excerpt's line in the front matter, its label aside
_BREAKS: Final = ("\n\n", "\n", ". ", " ")


@dataclass(frozen=True, slots=True)
class Cut:
    """Excerpts and their texts, in order."""

    excerpts: tuple[Excerpt, ...]
    texts: tuple[str, ...]


def cut(parts: Iterable[Part], budget: int, found: Findings) -> Cut:
    """Return the excerpts of all `parts` that fit into `budget` bytes of a packet."""
    excerpts: list[Excerpt] = []
    texts: list[str] = []
    offset = 0
    for part in parts:
        text = _shown(part, found)
        if not text:
            continue
        label = show_line(part.label.open_for_validation(), MAX_LABEL_CHARS, found) or "text"
        at = 0
        for piece in _pieces(text):
            encoded = piece.encode("utf-8")
            budget -= len(encoded) + 4 * piece.count("\n") + 4 * len(label) + _ENTRY_BYTES
            if budget < 0 or len(excerpts) >= MAX_EXCERPTS:
                found.add("truncated")
                return Cut(tuple(excerpts), tuple(texts))
            place = (part.page, offset + at, len(piece), sha256_hex(encoded))
            excerpts.append(Excerpt(Untrusted(label), *place))
            texts.append(piece)
            at += len(piece)
        offset += len(text) + 1
    return Cut(tuple(excerpts), tuple(texts))


def _shown(part: Part, found: Findings) -> str:
    text = part.text.open_for_validation().strip()
    if len(text) > MAX_RAW_CHARS:
        found.add("truncated")
        text = text[:MAX_RAW_CHARS]
    return show(text, found)


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that fit into an excerpt, broken where a reader would."""
    start = 0
    while len(text) - start > MAX_EXCERPT_CHARS:
        end = _break(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _break(text: str, start: int) -> int:
    last = start + MAX_EXCERPT_CHARS
    for mark in _BREAKS:
        at = text.rfind(mark, start + _LEAST_FILL, last)
        if at >= 0:
            return at + len(mark)
    return last
