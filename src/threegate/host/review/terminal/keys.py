"""Keys out of the bytes a terminal sends.

SECURITY
    Reads what is typed, and what is pasted: text from elsewhere, which must not press keys.
    A paste arrives as one event, between marks that the terminal is asked to send; whatever
    is no key of the tables below is dropped.  If this module is wrong, text on a clipboard
    approves a request.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PASTE: Final = "paste"
MAX_PASTE_CHARS: Final = 16_384
_MAX_SEQUENCE_CHARS: Final = 32
_ESCAPE: Final = "\x1b"
_PASTE_BEGIN: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")

_CURSOR: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
}
_SEQUENCES: Final = {
    **{f"\x1b{lead}{end}": name for lead in "[O" for end, name in _CURSOR.items()},
    "\x1bOM": "enter",
    "\x1b[1~": "home",
    "\x1b[7~": "home",
    "\x1b[4~": "end",
    "\x1b[8~": "end",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[Z": "back-tab",
}
_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x02": "page-up",
    "\x03": "interrupt",
    "\x04": "half-down",
    "\x06": "page-down",
    "\x0c": "redraw",
    "\x15": "erase",
    "\x1a": "suspend",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: a name of the tables above, a printable character, or a paste with its text."""

    name: str
    text: str = ""


class KeyReader:
    """Turns bytes into keys, however they were split on the way."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="ignore")
        self._rest = ""
        self._pasted: str | None = None

    @property
    def undecided(self) -> bool:
        """True while an Escape may be the key or the start of another one."""
        return self._pasted is None and self._rest != ""

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that are complete now."""
        self._rest += self._decoder.decode(data)
        return list(self._keys())

    def settle(self) -> list[Key]:
        """Return what stands for itself because nothing followed it."""
        if not self.undecided:
            return []
        alone, self._rest = self._rest == _ESCAPE, ""
        return [Key("escape")] if alone else []

    def forget(self) -> None:
        """Drop what has not become a key yet."""
        self._decoder.reset()
        self._rest, self._pasted = "", None

    def _keys(self) -> Iterator[Key]:
        while self._rest:
            if self._pasted is not None:
                found = self._paste()
            elif self._rest[0] == _ESCAPE:
                found = self._sequence()
            else:
                found = _plain(self._rest[0])
                self._rest = self._rest[1:]
            if found is None:
                return
            if found.name:
                yield found

    def _paste(self) -> Key | None:
        """Return the paste once its end is here; keep what may be the start of the end mark."""
        assert self._pasted is not None
        text, end, after = self._rest.partition(_PASTE_END)
        if end:
            whole, self._rest, self._pasted = self._pasted + text, after, None
            return Key(PASTE, whole[:MAX_PASTE_CHARS])
        kept = next((n for n in range(5, 0, -1) if text.endswith(_PASTE_END[:n])), 0)
        self._rest = text[len(text) - kept :]
        self._pasted = (self._pasted + text[: len(text) - kept])[:MAX_PASTE_CHARS]
        return None

    def _sequence(self) -> Key | None:
        match = _SEQUENCE.match(self._rest)
        if match is None:
            if len(self._rest) <= _MAX_SEQUENCE_CHARS and _BEGUN.match(self._rest):
                return None
            # Alt and a key, or noise: neither half of it is a key of ours.
            self._rest = self._rest[2:]
            return Key("")
        self._rest = self._rest[match.end() :]
        if match[0] == _PASTE_BEGIN:
            self._pasted = ""
        return Key(_SEQUENCES.get(match[0], ""))


def _plain(character: str) -> Key:
    if character in _CONTROLS:
        return Key(_CONTROLS[character])
    return Key(character, character) if character.isprintable() else Key("")
