"""JSON that is no record of a known source: shown as JSON, indented, in its own order.

SECURITY
    Reads foreign bytes through `strict_json`, so a key that stands twice is a refusal and
    not a choice.
"""

import json
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources.limits import MAX_JSON_BRACKETS, MAX_JSON_BYTES
from threegate.gates.fetch.sources.strict_json import JsonRefused, parse_json

_LABEL: Final = Untrusted("text")
_UNREAD: Final = {"encoding": "encoding", "too-deep": "too-large", "too-large": "too-large"}


def read(raw: Untrusted[bytes], _answer: KeptAnswer) -> Document:
    """Return the document as text, or raise `Unread`."""
    text = json.dumps(parsed(raw), ensure_ascii=False, indent=1)
    return Document((Part(_LABEL, Untrusted(text)),))


def parsed(
    raw: Untrusted[bytes],
    *,
    most_bytes: int = MAX_JSON_BYTES,
    most_brackets: int = MAX_JSON_BRACKETS,
) -> object:
    """Return the value in `raw`, or raise `Unread`."""
    try:
        return parse_json(raw, most_bytes=most_bytes, most_brackets=most_brackets)
    except JsonRefused as exc:
        raise Unread(_UNREAD.get(exc.reason, "damaged"), str(exc)) from exc
