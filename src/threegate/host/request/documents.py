"""A file the operator names, as the JSON document a program is given.

A `.json` file stays as it is, byte for byte; any other text becomes one JSON string.

SECURITY
    Reads files that somebody else may have written.  A document is refused if two readers
    could see two values in it: keys that stand twice, NaN, numbers no float holds, half a
    surrogate pair.  What is kept is data; if this module is wrong, a program is given
    another value than the one the operator looked at.
"""

import json
from collections import Counter
from math import isfinite
from typing import Any, Final

from threegate.base import canonical
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted

MAX_DEPTH: Final = 100  # the interpreter's own parser stops at 200
# Two bytes spell a list of a hundred in memory: `[],[],[]` of 32 MiB would take a gigabyte.
MAX_CONTAINERS: Final = 2_000_000
_ARTIFACT_HEAD: Final = b'---\nformat: "'


class NotADocument(ValueError):
    """Why a file cannot be an input, in our words."""


def document_of(name: str, data: Untrusted[bytes]) -> bytes:
    """Return the JSON document for a file of this name, or raise `NotADocument`."""
    untrusted = data.open_for_validation()
    try:
        text = untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotADocument(f"not UTF-8 at byte {exc.start}") from exc
    if not name.lower().endswith(".json"):
        return canonical.encode(text)
    check_json(text)
    return untrusted


def looks_like_artifact(data: Untrusted[bytes]) -> bool:
    """Tell whether a file is a copy of an artifact, which has labels that a file has not."""
    return data.open_for_validation().startswith(_ARTIFACT_HEAD)


def check_json(text: str) -> None:
    """Raise `NotADocument` unless `text` is JSON that every reader reads alike."""
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise NotADocument(f"more than {MAX_CONTAINERS} lists and objects")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as exc:
        raise NotADocument(f"not JSON at line {exc.lineno}, column {exc.colno}") from exc
    except RecursionError as exc:  # "[" * 100_000
        raise NotADocument(f"nested more than {MAX_DEPTH} deep") from exc
    except NotADocument:
        raise
    except ValueError as exc:  # an integer of more digits than Python reads
        raise NotADocument("a number with too many digits") from exc
    _check_value(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Counted once: looking for each key again took hours for an object of a million keys.
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key in counts if counts[key] > 1)
        raise NotADocument(f"key {quote(twice)} stands twice in one object")
    return found


def _constant(token: str) -> Any:
    raise NotADocument(f"{token} is not JSON")


def _check_value(value: Any) -> None:
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, float):
            if not isfinite(item):
                raise NotADocument("a number larger than any float")
        elif isinstance(item, dict | list):
            if depth >= MAX_DEPTH:
                raise NotADocument(f"nested more than {MAX_DEPTH} deep")
            parts = item if isinstance(item, list) else [*item, *item.values()]
            waiting += [(part, depth + 1) for part in parts]


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise NotADocument("half a surrogate pair") from exc
