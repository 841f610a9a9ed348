r"""Foreign text as it may stand in a packet: composed (NFC), and nothing in it unseen.

| in the source | in the packet | counted as |
|---|---|---|
| CR, CR LF, form feed, NEL, U+2028, U+2029 | line feed | |
| bidi controls | spelled out, `\u{202e}` | `bidi` |
| zero-width and tag characters, fillers, a byte order mark | spelled out | `invisible` |
| joiners and variation selectors where no script wants them | spelled out | `invisible` |
| soft hyphens | left out | `invisible` |
| other controls, lone surrogates, noncharacters | spelled out | `control` |
| `<` before a letter, `/`, `!` or `?` | `&lt;` | `markup-escaped` |
| Cyrillic or Greek look-alikes within a Latin word | as it is | `confusable` |
| passages that speak to a model | as it is | `injection-like` |

SECURITY
    Foreign text goes in and foreign text comes out: the counts tell a reader what to look
    for, and no count of zero makes a text harmless.  Nothing is decided by them.  If this
    module is wrong, a packet shows less than it holds; the codec then refuses it, for it
    knows the same characters.
"""

import re
from typing import Final

from threegate.artifacts.limits import MAX_PACKET_BYTES
from threegate.artifacts.research_packet import Hazard
from threegate.base.text import FORBIDDEN, kind_of_forbidden
from threegate.gates.fetch.normalize.composition import composed

_CHUNK_CHARS: Final = 1 << 16
_ASCII_TROUBLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|<[A-Za-z/!?]")
_BREAKS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MARKUP: Final = re.compile(r"<(?=[A-Za-z/!?])")
_HAZARD_OF: Final = {
    "bidi": "bidi",
    "control": "control",
    "invisible": "invisible",
    "noncharacter": "control",
    "surrogate": "control",
}
_SOFT_HYPHEN: Final = "\xad"
# Allowed in artifacts, because scripts and emoji need them; not inside Latin words, where they
# break what a search finds, and not in rows, where they carry bits.
_OUT_OF_PLACE: Final = re.compile(
    "[\u200c\u200d](?=[A-Za-z0-9\u200c\u200d])"
    "|(?<=[A-Za-z0-9\u200c\u200d])[\u200c\u200d]"
    "|(?<=[A-Za-z\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
_LOOK_ALIKES: Final = "АВЕЅІЈКМНОРСТУХаеһіјорсуѕхԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"
_CONFUSABLE: Final = re.compile(f"[A-Za-z][{_LOOK_ALIKES}]|[{_LOOK_ALIKES}][A-Za-z]")
_WORD: Final = re.compile(r"\w+")
# One of these, or none of the tables above applies to what is no ASCII.
_DOUBTFUL: Final = re.compile(f"{FORBIDDEN.pattern}|[\u200c\u200d\ufe00-\ufe0f{_LOOK_ALIKES}]")
_HARMLESS_ASCII: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])


class Findings:
    """How often each hazard was met."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Count a hazard by its name in a packet."""
        if count:
            self._counts[name] = self._counts.get(name, 0) + count

    def hazards(self) -> tuple[Hazard, ...]:
        """Return the counts as a packet lists them."""
        return tuple(Hazard(name, count) for name, count in sorted(self._counts.items()))


def show(text: str, found: Findings) -> str:
    """Return foreign `text` with every hazard visible, and count them in `found`."""
    if text.isascii():
        if not _ASCII_TROUBLE.search(text):
            return text
    else:
        text = composed(text)
        # What is no ASCII is a small part of most texts, and found there 20 times faster.
        rest = text.encode("utf-8", "surrogatepass").translate(None, _HARMLESS_ASCII)
        doubtful = _DOUBTFUL.search(rest.decode("utf-8", "surrogatepass"))
        if doubtful is None:
            return _escape_markup(text, found)
        found.add("confusable", _count_confusable(text))
    return _escape_markup(_show_characters(_BREAKS.sub("\n", text), found), found)


def show_line(text: str, limit: int, found: Findings) -> str:
    """Like `show`, on one line of at most `limit` characters."""
    shown = show(text, found)
    if "\n" in shown or "\t" in shown:
        shown = shown.replace("\n", " ").replace("\t", " ")
    if len(shown) > limit:
        found.add("truncated")
        shown = shown[:limit]
    return shown


def _escape_markup(text: str, found: Findings) -> str:
    if "<" not in text:
        return text
    text, count = _MARKUP.subn("&lt;", text)
    found.add("markup-escaped", count)
    return text


def _show_characters(text: str, found: Findings) -> str:
    """Spell out what is not seen, as far as a packet can hold the result."""

    def spelled(match: re.Match[str]) -> str:
        character = match.group()
        found.add(_HAZARD_OF.get(kind_of_forbidden(character), "invisible"))
        return "" if character == _SOFT_HYPHEN else f"\\u{{{ord(character):x}}}"

    shown: list[str] = []
    room = MAX_PACKET_BYTES
    for at in range(0, len(text), _CHUNK_CHARS):
        piece = FORBIDDEN.sub(spelled, text[at : at + _CHUNK_CHARS])
        shown.append(piece if piece.isascii() else _OUT_OF_PLACE.sub(spelled, piece))
        room -= len(shown[-1])
        if room < 0:  # megabytes of controls, each spelled out as eight characters
            break
    return "".join(shown)


def _count_confusable(text: str) -> int:
    """Count words in which a Latin letter stands beside a letter that looks like one."""
    if _CONFUSABLE.search(text) is None:
        return 0
    return sum(_CONFUSABLE.search(word) is not None for word in _WORD.findall(text))
