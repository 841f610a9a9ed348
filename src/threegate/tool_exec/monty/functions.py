"""The four external functions a request may ask for, and nothing else.

Each is pure, deterministic, reveals nothing of the host, and is bounded in input, output,
depth and time.  For every input it accepts it returns exactly what the plain reference
returns (`hashlib.sha256`, `re.findall`, `json.loads`, `json.dumps(sort_keys=True)`); what it
cannot do within bounds it refuses.  Errors carry our own words only.

SECURITY
    Called with values chosen by hostile code, in the supervisor's process, outside the
    interpreter's limits.  A static check (tests/contract) refuses any function here that
    uses I/O, time, randomness, environment, processes or introspection.
"""

import hashlib
import json
from collections.abc import Callable
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from threegate.tool_exec.monty import regex

MAX_TEXT_CHARS: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_NODES: Final = 100_000
MAX_INTEGER_BITS: Final = 4096


class FunctionRefused(ValueError):
    """The arguments are not ones the function answers for."""


def sha256_hex(s: str) -> str:
    """Return the SHA-256 of the text's UTF-8 bytes in hex."""
    return hashlib.sha256(_text(s).encode("utf-8")).hexdigest()


def regex_findall(pattern: str, text: str) -> list[str]:
    """Return all matches, in linear time for each search."""
    try:
        return regex.findall(_text(pattern), _text(text))
    except regex.PatternRefused as exc:
        raise FunctionRefused(str(exc)) from exc


def json_loads(s: str) -> Any:
    """Return the value of a JSON text; duplicate keys, NaN and lone surrogates are refused."""
    text = _text(s)
    # The parser recurses for each bracket: count before it does.
    if _depth(text) > MAX_DEPTH:
        raise FunctionRefused("nested too deeply")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except FunctionRefused:
        raise
    except (ValueError, RecursionError) as exc:
        raise FunctionRefused("not JSON") from exc
    _check(value)
    return value


def json_dumps(obj: Any) -> str:
    """Return a value as JSON text with sorted keys."""
    _check(obj)
    try:
        text = json.dumps(obj, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise FunctionRefused("not a JSON value") from exc
    if len(text) > MAX_TEXT_CHARS:
        raise FunctionRefused("result is too large")
    return text


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FunctionRefused("argument is not a text")
    if len(value) > MAX_TEXT_CHARS:
        raise FunctionRefused("argument is too large")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise FunctionRefused("argument holds a lone surrogate") from exc
    return value


def _depth(text: str) -> int:
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise FunctionRefused("duplicate key")
    return value


def _constant(_: str) -> Any:
    raise FunctionRefused("NaN and Infinity are not JSON")


def _check(value: Any) -> None:
    """Refuse what is not plain JSON within bounds, counting shared parts every time they occur."""
    nodes, characters = 0, 0
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        nodes += 1
        characters += len(item) if type(item) is str else 0
        if nodes > MAX_NODES or depth > MAX_DEPTH or characters > MAX_TEXT_CHARS:
            raise FunctionRefused("value is too large or too deep")
        waiting += [(part, depth + 1) for part in _parts(item)]


def _parts(item: Any) -> list[Any]:
    """Return what a container holds, or refuse what JSON does not have."""
    kind = type(item)
    if kind is list:
        return list(item)
    if kind is dict:
        if not all(type(key) is str for key in item):
            raise FunctionRefused("a key is not a text")
        return [*item, *item.values()]
    if kind is str:
        _text(item)
    elif kind is int and item.bit_length() > MAX_INTEGER_BITS:
        raise FunctionRefused("number is too large")
    elif kind is float and not isfinite(item):
        raise FunctionRefused("NaN and Infinity are not JSON")
    elif item is not None and kind not in (bool, int, float):
        raise FunctionRefused("not a JSON value")
    return []


REGISTRY: Final = MappingProxyType[str, Callable[..., Any]](
    {
        "json_dumps": json_dumps,
        "json_loads": json_loads,
        "regex_findall": regex_findall,
        "sha256_hex": sha256_hex,
    }
)
