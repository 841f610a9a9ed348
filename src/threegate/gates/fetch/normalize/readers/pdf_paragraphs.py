"""Lines of a PDF become paragraphs, and words that were broken at the end of a line are whole.

SECURITY
    Characters of a hostile file; nothing is added but a space, and nothing is left out but a
    hyphen.  Pure; each line is looked at once.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from threegate.gates.fetch.normalize.readers.pdf_lines import SPACELESS, Line
from threegate.gates.fetch.normalize.readers.pdf_order import Block

_MAX_INDENT_EMS: Final = 6.0
_MIN_INDENT_EMS: Final = 0.7
_SHORT_SHARE: Final = 0.3  # of a column that a last line leaves empty
_SHORT_EMS: Final = 1.5  # that the last line of a sentence leaves empty
_MIN_PART_CHARS: Final = 3  # of each half of a word with a hyphen of its own
_MAX_WORD_CHARS: Final = 64  # of the half before a hyphen
_ENTRY: Final = re.compile(r"[•‣▪◦·∙*–—-]\s|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]\s|\[\d{1,3}\]")
_BROKEN: Final = re.compile(r"([^\W\d_]+)[-\u2010\xad]$")
_REST: Final = re.compile(r"[^\W\d_]+")
_HYPHENS: Final = ("-", "\u2010", "\xad")
_OPEN_HYPHENS: Final = ("-", "\u2010", "\u2011", "\u2013", "/")
_SPACELESS: Final = re.compile(f"[{SPACELESS}]")
# Punctuation becomes spaces, a hyphen within a word stays.
_TO_SPACES: Final = bytes(
    0x20 if code < 0x80 and code != 0x2D and not chr(code).isalnum() else code
    for code in range(256)
)


class Words:
    """The words of a document, which tell how a broken one is spelled."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._words: frozenset[bytes] = frozenset()

    def __contains__(self, word: str) -> bool:
        if not self._words:
            text = " ".join(self._lines).lower().encode("utf-8", "replace")
            # The halves of broken words are no words.
            self._words = frozenset(text.translate(_TO_SPACES).replace(b"- ", b"-\0").split())
        return word.encode("utf-8", "replace") in self._words

    def joined(self, text: str, line: str) -> str:
        """Return a text that goes on with a line."""
        if not text or not line:
            return text or line
        if text.endswith(_HYPHENS):
            return self._mended(text, line)
        if text.endswith(_OPEN_HYPHENS) and not text[-2:-1].isspace():
            return text + line
        if _SPACELESS.match(text[-1]) and _SPACELESS.match(line[0]):
            return text + line
        return f"{text} {line}"

    def _mended(self, text: str, line: str) -> str:
        broken, rest = _BROKEN.search(text[-_MAX_WORD_CHARS:]), _REST.match(line)
        if text.endswith("\xad"):
            return text[:-1] + line
        if broken is None or rest is None:  # a number, or a dash with nothing before it
            return text + line if len(text) > 1 and text[-2].isalnum() else f"{text} {line}"
        first, second = broken[1].lower(), rest[0].lower()
        if first + second in self:
            return text[:-1] + line
        if rest[0][0].isupper() and not first.isupper():  # Smith-Jones
            return text + line
        if line[rest.end() : rest.end() + 1] == "-" and len(line) > rest.end() + 1:
            return text + line  # state-of-the-art
        return text + line if self._is_compound(first, second) else text[:-1] + line

    def _is_compound(self, first: str, second: str) -> bool:
        """Tell whether a hyphen belongs to a word, by how the document spells it elsewhere."""
        if f"{first}-{second}" in self:
            return True
        long = min(len(first), len(second)) >= _MIN_PART_CHARS
        return long and first in self and second in self


def paragraphs(block: Block, words: Words) -> list[str]:
    """Return the paragraphs of a block; a row of a table is one."""
    hanging = _is_hanging(block)
    found = [block.lines[0].text]
    for above, line in pairwise(block.lines):
        if line.is_row or _begins(block, above, line, hanging=hanging):
            found.append(line.text)
        else:
            found[-1] = words.joined(found[-1], line.text)
    return [" ".join(text.split()) if "  " in text else text for text in found]


def _is_hanging(block: Block) -> bool:
    """Tell whether the first lines of paragraphs stick out, as in a list of references."""
    indented = [_is_indented(block, line) for line in block.lines]
    flat = sum(not (one or other) for one, other in pairwise(indented))
    return 2 * sum(indented) >= len(indented) > 4 * flat


def _is_indented(block: Block, line: Line) -> bool:
    return _MIN_INDENT_EMS * line.em < line.left - block.left < _MAX_INDENT_EMS * line.em


def _begins(block: Block, above: Line, line: Line, *, hanging: bool) -> bool:
    """Tell whether a line begins a paragraph."""
    if above.text.endswith(_HYPHENS):
        return False
    left_empty = block.right - above.right
    ended = above.text[-1] in ".!?:;。！？" and left_empty > _SHORT_EMS * above.em
    if ended or left_empty > _SHORT_SHARE * (block.right - block.left):
        return True
    if _ENTRY.match(line.text) or ". . ." in above.text or "....." in above.text:
        return True  # an entry of a list, or after one of a table of contents
    indented = _is_indented(block, line)
    return not indented if hanging else indented and not _is_indented(block, above)
