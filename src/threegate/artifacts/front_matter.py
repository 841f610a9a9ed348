"""Front matter: exactly these keys, in this order, each with one JSON value in one spelling.

SECURITY
    Reads the head of an artifact from a gate or a file.  Accepted front matter is valid YAML with
    the same values for other readers, in its one
    canonical spelling.  If this module
    is wrong, a human and a program read different values in the same line.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from threegate.artifacts.limits import MAX_FRONT_MATTER_CHARS
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.base.text import quote

_OPEN: Final = "---\n"
_CLOSE: Final = "\n---\n\n"
# Decoded JSON holds no cycles, so the encoder need not look for them.
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
_scan: Final = json.JSONDecoder().raw_decode
_ESCAPED_CONTROLS: Final = ("\\b", "\\f", "\\n", "\\r", "\\t", "\\u")


def write_front_matter(values: Mapping[str, Any]) -> str:
    """Return the lines of front matter with the empty line after it."""
    # Many lists are empty, and an encoder for each would take longer than all the rest.
    lines = "\n".join(
        [f"{key}: {_encode(value) if value != [] else '[]'}" for key, value in values.items()]
    )
    return f"{_OPEN}{lines}{_CLOSE}"


class FrontMatter:
    """The keys of a format, able to read their values."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        lines = "\n".join(f"{key}: (.*)" for key in keys)  # a dot is anything but a line feed
        self._match = re.compile(f"{_OPEN}{lines}{_CLOSE}").match

    def read(self, text: str) -> tuple[list[Any], str]:
        """Return the values of the keys, in order, and the body after them."""
        match = self._match(text)
        if match is None or match.end() - len(_CLOSE) > MAX_FRONT_MATTER_CHARS:
            self._explain(text)
        values = _read_values(match.groups())
        if values is None:
            _explain_values(self.keys, match.groups())
        return values, text[match.end() :]

    def _explain(self, text: str) -> NoReturn:
        end = text.find(_CLOSE)
        if not text.startswith(_OPEN) or end < 0:
            raise reject(ArtifactReason.FRONT_MATTER, "no front matter between two `---` lines")
        if end > MAX_FRONT_MATTER_CHARS:
            raise reject(
                ArtifactReason.OVERSIZE, f"front matter over {MAX_FRONT_MATTER_CHARS} characters"
            )
        lines = text[len(_OPEN) : end].split("\n")
        _explain_keys([line.partition(": ")[0] for line in lines], self.keys)


def _read_values(spelled: tuple[str, ...]) -> list[Any] | None:
    """Return the value in each line, or None if one is not a single canonical value."""
    try:
        # Line by line: read as one list, `["a"` and `"b"]` in two lines would be one value
        # and `null, null` in a third would make up for the missing one.
        values = [value for value, _ in map(_scan, spelled)]
        canonical = _encode(values)
    except (ValueError, RecursionError):  # 1e999 has no spelling; "[" * 100_000 is 100 kB
        return None
    line = ", ".join(spelled)
    # Every line starts with a whole value, and the lines equal the canonical spelling of these
    # values: so nothing follows a value, and no value has another spelling.
    if canonical != f"[{line}]":
        return None
    if "\\" in line:
        _refuse_escaped_controls(line)
    return values


def _refuse_escaped_controls(spelled: str) -> None:
    # After the check for canonical spelling, only controls are still escaped by these.
    stripped = spelled.replace("\\\\", "")
    if any(escape in stripped for escape in _ESCAPED_CONTROLS):
        raise reject(
            ArtifactReason.FORBIDDEN_CHARACTER, "escaped control character in the front matter"
        )


def _explain_keys(found: list[str], keys: tuple[str, ...]) -> NoReturn:
    for key in found:
        if found.count(key) > 1:
            raise reject(
                ArtifactReason.DUPLICATE_KEY, f"key {quote(key)} stands {found.count(key)} times"
            )
        if key not in keys:
            plain = key.isascii() and key.replace("_", "").isalnum()
            reason = ArtifactReason.UNKNOWN_KEY if plain else ArtifactReason.FRONT_MATTER
            raise reject(reason, f"{quote(key)} is not a key of this format")
    for key in keys:
        if key not in found:
            raise reject(ArtifactReason.MISSING_KEY, f"key {key} is missing")
    raise reject(ArtifactReason.KEY_ORDER, f"the keys must be in the order {', '.join(keys)}")


def _explain_values(keys: tuple[str, ...], values: tuple[str, ...]) -> NoReturn:
    for key, spelled in zip(keys, values, strict=True):
        try:
            value, end = _scan(spelled)
            canonical = _encode(value)
        except (ValueError, RecursionError) as exc:
            raise reject(ArtifactReason.NOT_CANONICAL, f"{key} is not a JSON value") from exc
        if end != len(spelled):
            raise reject(ArtifactReason.NOT_CANONICAL, f"{key} has something after its value")
        if canonical != spelled:
            raise reject(ArtifactReason.NOT_CANONICAL, f"{key} is not in canonical JSON spelling")
    raise reject(ArtifactReason.NOT_CANONICAL, "nested too deeply")
