"""Characters allowed in an artifact, and how foreign text is shown.

SECURITY
    Everything foreign that reaches a terminal, a log message or an error goes
    through `visible` or `quote`.  If this module is wrong, text from outside can
    drive the operator's terminal or hide what is being approved.
"""

import re
from typing import Final

QUOTE_CHARS: Final = 64

# Listed by code point, not by Unicode category: categories change between Python
# versions, and a file accepted by one must be accepted by all.
FORBIDDEN_RANGES: Final[tuple[tuple[int, int, str], ...]] = (
    (0x00, 0x08, "control"),
    (0x0B, 0x1F, "control"),
    (0x7F, 0x9F, "control"),
    (0xAD, 0xAD, "invisible"),  # soft hyphen
    (0x034F, 0x034F, "invisible"),  # combining grapheme joiner
    (0x061C, 0x061C, "bidi"),  # Arabic letter mark
    (0x115F, 0x1160, "invisible"),  # Hangul fillers
    (0x17B4, 0x17B5, "invisible"),  # Khmer inherent vowels
    (0x180B, 0x180F, "invisible"),  # Mongolian separators
    (0x200B, 0x200B, "invisible"),  # zero width space; the joiners 200C and 200D are orthography
    (0x200E, 0x200F, "bidi"),
    (0x2028, 0x2029, "line separator"),
    (0x202A, 0x202E, "bidi"),
    (0x2060, 0x2065, "invisible"),
    (0x2066, 0x2069, "bidi"),
    (0x206A, 0x206F, "invisible"),
    (0x3164, 0x3164, "invisible"),  # Hangul filler
    (0xD800, 0xDFFF, "surrogate"),
    (0xFDD0, 0xFDEF, "noncharacter"),
    (0xFEFF, 0xFEFF, "invisible"),  # byte order mark
    (0xFFA0, 0xFFA0, "invisible"),  # half-width Hangul filler
    (0xFFF0, 0xFFFB, "invisible"),  # interlinear annotation
    (0xFFFE, 0xFFFF, "noncharacter"),
    (0x1BCA0, 0x1BCA3, "invisible"),  # shorthand format controls
    (0x1D173, 0x1D17A, "invisible"),  # musical format controls
    (0xE0000, 0xE0FFF, "invisible"),  # tags and variation selectors: a hidden alphabet
)

_CLASS: Final = "".join(f"{chr(low)}-{chr(high)}" for low, high, _ in FORBIDDEN_RANGES)
FORBIDDEN: Final = re.compile(f"[{_CLASS}]")
_UNPRINTABLE: Final = re.compile(f"[{_CLASS}\\t\\n\u200c\u200d\ufe00-\ufe0f]")

_HARMLESS_ASCII: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])


def first_forbidden(utf8: bytes) -> str | None:
    """Return the first character of valid UTF-8 that is not allowed in an artifact.

    Dropping harmless ASCII first leaves whole multi-byte sequences and is 20 times
    faster than searching the text itself.
    """
    rest = utf8.translate(None, _HARMLESS_ASCII)
    if not rest:
        return None
    match = FORBIDDEN.search(rest.decode("utf-8"))
    return match.group() if match else None


def kind_of_forbidden(character: str) -> str:
    """Return why `character` is not allowed in an artifact."""
    point = ord(character)
    for low, high, kind in FORBIDDEN_RANGES:
        if low <= point <= high:
            return kind
    return "allowed"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match.group()):x}}}"


def visible(text: str) -> str:
    """Return `text` on one line, with every control, bidi and invisible character spelled out."""
    return _UNPRINTABLE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Like `visible`, keeping line breaks and turning tabs into spaces."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))


def quote(text: str, limit: int = QUOTE_CHARS) -> str:
    """Return foreign `text` for an error message: visible, cut, in quotes."""
    cut = text[: limit + 1]
    shown = visible(cut[:limit])
    return f'"{shown}…"' if len(cut) > limit else f'"{shown}"'
