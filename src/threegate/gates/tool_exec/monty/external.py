"""The four external functions themselves.

Each is pure, deterministic and reveals nothing of the host.  For every input it accepts it
returns exactly what the plain reference returns (`hashlib.sha256`, `re.findall`,
`json.loads`, `json.dumps(sort_keys=True)`); what it cannot do it refuses.  Sizes were
measured before (`functions.call`), so the work of each is bounded by its input.

SECURITY
    Called with values chosen by hostile code, in the supervisor's process, outside the
    interpreter's limits.  A static check (tests/contract) refuses anything here that uses
    I/O, time, randomness, environment, processes, the import machinery or introspection.
"""

import hashlib
import json
from typing import Any

from threegate.gates.tool_exec.monty import regex
from threegate.gates.tool_exec.monty.plain import TOO_LARGE, FunctionRefused, utf8


def sha256_hex(s: str) -> str:
    """Return the SHA-256 of the text's UTF-8 bytes in hex."""
    return hashlib.sha256(utf8(_text(s))).hexdigest()


def regex_findall(pattern: str, text: str) -> list[str]:
    """Return all matches, in linear time for each search."""
    try:
        return regex.findall(_text(pattern), _text(text))
    except regex.PatternRefused as exc:
        raise FunctionRefused(str(exc)) from exc


def json_loads(s: str) -> Any:
    """Return the value of a JSON text; duplicate keys, NaN and lone surrogates are refused."""
    text = _text(s)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except FunctionRefused:
        raise
    except RecursionError as exc:
        raise FunctionRefused(TOO_LARGE) from exc
    except ValueError as exc:
        raise FunctionRefused("not JSON") from exc


def json_dumps(obj: Any) -> str:
    """Return a value as JSON text with sorted keys."""
    return json.dumps(obj, sort_keys=True, allow_nan=False)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FunctionRefused("argument is not a text")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise FunctionRefused("duplicate key")
    return value


def _constant(_: str) -> Any:
    raise FunctionRefused("NaN and Infinity are not JSON")
