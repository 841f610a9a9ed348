"""JSON with one meaning: no key twice, no NaN, no deep nesting, UTF-8 only.

SECURITY
    Reads foreign bytes.  Two readers that take different values of one key are how one
    thing is checked and another used.  If this module is wrong, a packet says what the
    source did not say, or the normalizer's box ends at its limits.
"""

import json
from typing import Any, Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.limits import MAX_JSON_BRACKETS, MAX_JSON_BYTES, MAX_JSON_DEPTH

_THE_REST: Final = bytes(set(range(256)) - set(b'[]{}"'))
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")


class JsonRefused(ValueError):
    """The bytes are not JSON this reader accepts; `reason` is one of our own words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def parse_json(
    data: Untrusted[bytes],
    *,
    most_bytes: int = MAX_JSON_BYTES,
    most_brackets: int = MAX_JSON_BRACKETS,
) -> object:
    """Return the value in `data`, or raise `JsonRefused`."""
    untrusted = data.open_for_validation()
    if len(untrusted) > most_bytes:
        raise JsonRefused("too-large", f"{len(untrusted)} bytes, limit {most_bytes}")
    brackets = untrusted.count(b"[") + untrusted.count(b"{")
    if brackets > most_brackets:  # 8 MiB of `[]` would fill half a gigabyte
        raise JsonRefused("too-large", f"{brackets} lists and objects, limit {most_brackets}")
    try:
        text = untrusted.decode("utf-8")
        value: object = _DECODER.decode(text)
    except JsonRefused:
        raise
    except UnicodeDecodeError as exc:
        raise JsonRefused("encoding", "not UTF-8") from exc
    except RecursionError as exc:  # where the limit lies depends on the caller's own depth,
        raise _too_deep() from exc
    except ValueError as exc:
        raise JsonRefused("not-json", "not JSON") from exc
    if brackets > MAX_JSON_DEPTH and _is_deep(
        untrusted
    ):  # so a much lower one of ours decides, the same everywhere
        raise _too_deep()
    return value


def _too_deep() -> JsonRefused:
    return JsonRefused("too-deep", f"nested deeper than {MAX_JSON_DEPTH}")


def _is_deep(document: bytes) -> bool:
    """Tell whether valid JSON is nested deeper than allowed."""
    # Without escaped quotes every second piece between quotes stands outside of strings;
    # two quotes in a row may go, for that puts no bracket on the other side.
    quoted = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = quoted.translate(_ONE_KIND, _THE_REST).replace(b'""', b"").split(b'"')
    brackets = b"".join(pieces[::2])
    for _ in range(MAX_JSON_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")  # one level
    return bool(brackets)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise JsonRefused("duplicate-key", "an object holds a key twice")
    return made


def _no_constant(_token: str) -> Any:
    raise JsonRefused("not-a-number", "NaN or Infinity")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
