"""Canonical JSON: one spelling per value, for log lines, bundles and records.

Sorted keys, no spaces, UTF-8, no floats: for such values this is RFC 8785.

SECURITY
    `decode` reads bytes that may be hostile.  It accepts exactly what `encode`
    writes, so a digest over the bytes is a digest over the value.
"""

import json
from typing import Any

MAX_DEPTH = 16

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def encode(value: Any) -> bytes:
    """Return the one spelling of `value`, made of dict, list, str, int, bool and None.

    The caller keeps floats and keys that are not text out: `decode` would refuse them.
    """
    return _ENCODER.encode(value).encode("utf-8")


def decode(data: bytes) -> Any:
    """Return the value spelled by `data`; raise ValueError for any other spelling."""
    try:
        value = json.loads(data.decode("utf-8"), parse_float=_refuse, parse_constant=_refuse)
        _refuse_deep(value, MAX_DEPTH)
        # Duplicate keys, escapes, spaces and key order all show up as a different spelling.
        canonical = encode(value)
    except RecursionError as exc:  # b"[" * 100_000
        raise ValueError("nested too deeply") from exc
    if canonical != data:
        raise ValueError("not canonical JSON")
    return value


def _refuse(_token: str) -> Any:
    raise ValueError("floats have no single spelling")


def _refuse_deep(value: Any, budget: int) -> None:
    if budget == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        if value and budget == 1:
            raise ValueError("nested too deeply")
        for item in value:
            if isinstance(item, dict | list):
                _refuse_deep(item, budget - 1)
