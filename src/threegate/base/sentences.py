"""Sentence boundaries: one way of counting sentences, for both sides of a gate.

CORE shows a model the sentences of an excerpt by number, the model answers with numbers, and
the host cuts the quote out of the stored text.  Both count with this function, so a number
names the same characters on either side.  It is a plain rule, not a parser of language: it need not
cut
well, but it must always cut alike.

SECURITY
    Reads text that strangers wrote.  Takes time linear in its length; the spans do not
    overlap, hold no blank ends, and cover every character that is not blank.
"""

import re
from typing import Final

MAX_LINE_CHARS: Final = 1000  # longer ones are cut at a blank, or in the middle of a word

# The end of a sentence: a mark, closing quotes, blanks, then what starts a new one.
_END: Final = re.compile(
    r"[.!?][\"')\]\u2019\u201d]*\s+(?=[\"'(\[\u2018\u201c]*[A-Z0-9\u00c0-\u00de])"
)
_PARAGRAPH: Final = re.compile(r"\n[ \t]*\n\s*")
_INITIAL: Final = re.compile(r"(?:\A|[\s(.])[A-Z]\Z")
_OFTEN_WITH_A_STOP: Final = """
al approx cf ch dr e.g ed eds eq eqs etc fig figs i.e mr mrs ms no nos p pp prof ref refs sec st
tab vol vs
"""
_ABBREVIATIONS: Final = frozenset(_OFTEN_WITH_A_STOP.split())
_LONGEST_ABBREVIATION: Final = max(map(len, _ABBREVIATIONS))

Span = tuple[int, int]  # first character, and the one after the last


def spans(text: str) -> tuple[Span, ...]:
    """Return where each sentence starts and ends, in order."""
    found: list[Span] = []
    start = 0
    for match in _PARAGRAPH.finditer(text):
        found += _sentences(text, start, match.start())
        start = match.end()
    return (*found, *_sentences(text, start, len(text)))


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences themselves, character for character."""
    return tuple(text[start:end] for start, end in spans(text))


def _sentences(text: str, start: int, stop: int) -> list[Span]:
    found: list[Span] = []
    for match in _END.finditer(text, start, stop):
        if not _is_abbreviated(text, start, match.start()):
            found += _bounded(text, start, match.end())
            start = match.end()
    return [*found, *_bounded(text, start, stop)]


def _is_abbreviated(text: str, start: int, mark: int) -> bool:
    """Tell whether the full stop at `mark` ends a word that is often written with one."""
    if text[mark] != ".":
        return False
    before = text[max(start, mark - _LONGEST_ABBREVIATION - 1) : mark]
    word = re.split(r"[\s(\[]", before)[-1]
    return word.lower() in _ABBREVIATIONS or _INITIAL.search(before) is not None


def _bounded(text: str, start: int, stop: int) -> list[Span]:
    """Return the span without blank ends, in pieces if it is too long for one sentence."""
    found: list[Span] = []
    start, stop = _stripped(text, start, stop)
    while stop - start > MAX_LINE_CHARS:
        cut = text.rfind(" ", start + MAX_LINE_CHARS // 2, start + MAX_LINE_CHARS)
        cut = start + MAX_LINE_CHARS if cut < 0 else cut
        found.append(_stripped(text, start, cut))
        start, stop = _stripped(text, cut, stop)
    return [span for span in (*found, (start, stop)) if span[0] < span[1]]


def _stripped(text: str, start: int, stop: int) -> Span:
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return start, stop
