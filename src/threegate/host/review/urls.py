"""References of a fetch request: decoded, and how much each part of them could carry out.

A URL is an outbound channel: whoever chooses it writes to whoever serves it.  So each part
is shown decoded, with the number of bits its characters could hold, and a remark where it
does not look like words.

SECURITY
    Reads references that CORE may have written under the influence of hostile text.
    Resolves and opens nothing.  Remarks are hints; the human looks at the text itself.
"""

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

from threegate.host.review.parts import Component, SheetReference
from threegate.policy.hosts import parse_url

MIN_CHARS: Final = 16  # shorter parts carry little, and every identifier would be remarked on
MIXTURE: Final = 0.35  # share of neighbours of different classes; words have next to none
BITS_OF_CHANCE: Final = 4.5  # per character; English has about 4.1, random base64 5 and more

_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NEEDLESS: Final = re.compile(r"%(?:4[1-9A-Fa-f]|5[0-9Aa]|6[1-9A-Fa-f]|7[0-9Aa]|3[0-9])")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")


def read_reference(text: str) -> SheetReference:
    """Return a reference taken apart; one that is no URL is a single part."""
    try:
        url = parse_url(text)
    except ValueError:
        return SheetReference(text, "", (_component("reference", text),), bits(text))
    parts = [_component("host", url.host)]
    segments = [segment for segment in url.path.split("/") if segment]
    parts += [_component(f"path {number}", part) for number, part in enumerate(segments, 1)]
    pairs = url.query.split("&") if url.query else []
    parts += [_component(f"query {number}", pair) for number, pair in enumerate(pairs, 1)]
    return SheetReference(text, url.host, tuple(parts), bits(text.removeprefix("https://")))


def bits(text: str) -> int:
    """Return how many bits the characters of a text could hold, by their frequencies."""
    return round(_per_character(text) * len(text))


def looks_random(text: str) -> bool:
    """Tell whether a text looks more like encoded data than like words."""
    if len(text) < MIN_CHARS:
        return False
    return (
        _HEX.search(text) is not None
        or _mixture(text) >= MIXTURE
        or (" " not in text and _per_character(text) >= BITS_OF_CHANCE)
    )


def _per_character(text: str) -> float:
    counts = Counter(text).values()
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in counts) if total else 0.0


def _mixture(text: str) -> float:
    classes = [_class(character) for character in text if character.isalnum()]
    changes = sum(a != b for a, b in pairwise(classes))
    return changes / len(classes) if classes else 0.0


def _class(character: str) -> str:
    return "digit" if character.isdigit() else "upper" if character.isupper() else "lower"


def _component(where: str, raw: str) -> Component:
    decoded = unquote(raw, errors="backslashreplace")
    return Component(where, raw, decoded, bits(raw), _remark(where, raw, decoded))


def _remark(where: str, raw: str, decoded: str) -> str:
    if decoded != raw and _ENCODED.search(decoded):
        return "encoded twice"
    if _NEEDLESS.search(raw):
        return "letters or digits encoded without need"
    value = decoded.partition("=")[2] or decoded if where.startswith("query") else decoded
    labels = value.split(".") if where == "host" else [value]
    if any(looks_random(label) for label in labels):
        return "does not look like words: could carry data out"
    return ""
