"""What the proxy says it decided, as entries of the audit log.

SECURITY
    Reads notes of a process that resolves hostile names and may be owned.  A note is a line
    with exactly these keys, or the proxy does not speak the protocol and is ended.  What
    stands in it is its word; where a host's own log says otherwise, that host is right.
"""

import re
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken

KIND: Final = "proxy.decision"
VERDICTS: Final = ("allow", "closed", "cut", "deny")
MAX_ADDRESSES: Final = 64
_KEYS: Final = ("address", "addresses", "detail", "event", "host", "reason", "rule", "verdict")
_COUNTS: Final = ("down", "up")
_TEXT: Final = re.compile(r"[ -~]{0,512}")
_MAX_COUNT: Final = 2**53 - 1


def parse_decision(note: bytes) -> dict[str, Any]:
    """Return what goes into the log, or raise `ProtocolBroken`."""
    try:
        line = canonical.decode(note)
    except ValueError as exc:
        raise ProtocolBroken("a decision of the proxy is not canonical JSON") from exc
    if type(line) is not dict or not set(_KEYS) <= set(line) <= {*_KEYS, *_COUNTS}:
        raise ProtocolBroken("not a decision of the proxy")
    if line["verdict"] not in VERDICTS or line["event"] != "tunnel":
        raise ProtocolBroken("not a decision of the proxy")
    addresses = line["addresses"]
    if type(addresses) is not list or len(addresses) > MAX_ADDRESSES:
        raise ProtocolBroken("a decision of the proxy with too many addresses")
    for text in (*(line[key] for key in ("address", "host", "rule")), *addresses):
        _need_text(text, optional=True)
    for key in ("detail", "reason"):
        _need_text(line[key], optional=False)
    for key in set(_COUNTS) & set(line):
        if type(line[key]) is not int or not 0 <= line[key] <= _MAX_COUNT:
            raise ProtocolBroken("a decision of the proxy with no number")
    return {key: value for key, value in line.items() if key != "event"}


def _need_text(value: Any, *, optional: bool) -> None:
    if value is None and optional:
        return
    if type(value) is not str or _TEXT.fullmatch(value) is None:
        raise ProtocolBroken("a decision of the proxy with a strange text")
