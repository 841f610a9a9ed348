"""Quoted data for the model: numbered sentences between lines with a random marker.

The model answers with numbers; which sentence of which excerpt a number stands for is known
here and nowhere in the text.

SECURITY
    Reads text that strangers wrote and puts it where a model reads.  The marker is random
    and new for every run, so no author can write the line that ends the data; one that
    holds it anyway is refused.  If this module is wrong, a source can pass for the
    operator before the model, which can do nothing but write text either way.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.base.sentences import sentences
from threegate.gates.core.messages import Cited, Source

# A line break inside a sentence would let it begin a line of its own.
_BLANKS: Final = re.compile(r"\s+")
# How chat templates spell the beginning of a message; the server breaks up what it knows too.
_CONTROL: Final = re.compile(r"<(?=[|｜/]?[a-zA-Z_|｜])|\[(?=/?INST)")


class MarkerSpoken(Exception):
    """The marker stands in a source."""


@dataclass(frozen=True, slots=True)
class QuotedSentence:
    """One sentence as the model sees it, and where it stands."""

    cited: Cited
    text: str


@dataclass(frozen=True, slots=True)
class QuotedData:
    """What is put before the model at once."""

    text: str
    cites: dict[int, Cited]  # the number the model sees, and what it stands for

    @property
    def sources(self) -> set[int]:
        """Return the sources anything of which is shown."""
        return {cited.source for cited in self.cites.values()}


def lines_of(sources: Sequence[Source], marker: str) -> Iterator[QuotedSentence]:
    """Yield every sentence of every source, in order; raise `MarkerSpoken`."""
    for number, source in enumerate(sources, 1):
        for excerpt, text in enumerate(source.excerpts, 1):
            if marker in text:
                raise MarkerSpoken
            for at, sentence in enumerate(sentences(text), 1):
                yield QuotedSentence(Cited(number, excerpt, at), _plain(sentence))


def fenced(sources: Sequence[Source], lines: Sequence[QuotedSentence], marker: str) -> QuotedData:
    """Return these sentences, in blocks by source, with numbers from 1."""
    written: list[str] = []
    cites: dict[int, Cited] = {}
    last = 0
    for number, line in enumerate(lines, 1):
        if line.cited.source != last:
            written += [_end(marker)] if last else []
            last = line.cited.source
            # The provenance is the host's own line; only its words, never its form, are foreign.
            about = _plain(sources[last - 1].provenance)
            written.append(f"BEGIN DATA {marker} source {last}: {about}")
        written.append(f"[{number}] {line.text}")
        cites[number] = line.cited
    written += [_end(marker)] if last else []
    return QuotedData("\n".join(written), cites)


def listed(head: str, texts: Sequence[str], marker: str) -> str:
    """Return texts that are no source as one block; raise `MarkerSpoken`."""
    if any(marker in text for text in texts):
        raise MarkerSpoken
    lines = (f"- {_plain(text)}" for text in texts)
    return "\n".join([f"BEGIN DATA {marker} {head}", *lines, _end(marker)])


def _end(marker: str) -> str:
    return f"END DATA {marker}"


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda found: f"{found[0]} ", _BLANKS.sub(" ", text))
