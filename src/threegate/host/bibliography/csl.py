"""CSL-JSON, as far as it names works: a list of items with `DOI`, `PMID`, `PMCID`, `URL`.

SECURITY
    Reads files that somebody else wrote.  Bounded before it is decoded; what nests too deep,
    holds a key twice or is no JSON is refused.  If this module is wrong, a work is missed or
    another one is named; what may be asked is decided elsewhere.
"""

import json
import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from threegate.host.bibliography.entries import MAX_CONTAINERS, Entry, Unreadable, shortened

_BLANK: Final = re.compile(r"[ \t\n\r]*")


def entries_of(text: str) -> Iterator[Entry]:
    """Yield the items of a CSL-JSON file, or raise `Unreadable`."""
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise Unreadable(f"more than {MAX_CONTAINERS} lists and objects")
    at = _skip(text, 0)
    if text[at : at + 1] == "{":
        value, end = _decode(text, at)
        yield _entry(value, _lines(text, 0, at))
    else:
        end = yield from _items(text, at + 1)
    if _skip(text, end) < len(text):
        raise Unreadable("not JSON: something after its end")


def _items(text: str, start: int) -> Generator[Entry, None, int]:
    """Yield the items of a list, and return the place behind it."""
    line, counted, at = 1, 0, _skip(text, start)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        value, end = _decode(text, at)
        line += _lines(text, counted, at) - 1
        counted = at
        yield _entry(value, line)
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "]":
            return at + 1
        if mark != ",":
            raise Unreadable("not JSON: no comma or ] after an item", line)
        at = _skip(text, at + 1)


def _lines(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) + 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as exc:
        raise Unreadable(f"not JSON at column {exc.colno}", exc.lineno) from exc
    except RecursionError as exc:  # "[" * 100_000
        raise Unreadable("nested too deep", _lines(text, 0, at)) from exc
    except Unreadable as exc:
        raise Unreadable(str(exc), _lines(text, 0, at)) from exc
    except ValueError as exc:  # an integer of more digits than Python reads
        raise Unreadable("a number with too many digits", _lines(text, 0, at)) from exc


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a key that stands twice in one object")
    return found


def _constant(token: str) -> Any:
    raise Unreadable(f"{token} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _entry(value: Any, line: int) -> Entry:
    if not isinstance(value, dict):
        return Entry(line, problem="an item that is no object")
    names = {
        scheme: shortened(str(value[key]).strip())
        for key, scheme in (("DOI", "doi"), ("PMID", "pmid"), ("PMCID", "pmcid"), ("URL", "url"))
        if isinstance(value.get(key), str | int) and value[key] != ""
    }
    archive, place = value.get("archive"), value.get("archive_location")
    if isinstance(archive, str) and isinstance(place, str) and archive.lower() == "arxiv":
        names["arxiv"] = shortened(place.strip())
    number = value.get("number")
    if isinstance(number, str) and number.lower().startswith("arxiv:"):
        names.setdefault("arxiv", shortened(number.strip()))
    return Entry(line, names)
