"""A profile of the ring as lines of a policy file."""

import textwrap
from collections.abc import Mapping
from typing import Final

_FIELDS: Final = (
    *("allowed_imports", "denied_imports", "executor_network", "allowed_binaries"),
    "denied_patterns",
)
_WIDTH: Final = 100


def profile_text(name: str, rules: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the five rules of a profile, indented as below `interpreter_ring`."""
    lines = [f"  {name}:"]
    for field in _FIELDS:
        value = rules[field]
        words = value if isinstance(value, str) else _listed(field, value)
        lines += _wrapped(f"    {field}: {words}", len(field) + 7)
    return "\n".join(lines) + "\n"


def _listed(field: str, items: tuple[str, ...]) -> str:
    quoted = (_quoted(item) if field == "denied_patterns" else item for item in items)
    return f"[{', '.join(quoted)}]"


def _quoted(pattern: str) -> str:
    """Return a pattern in quotes; the reader of policies knows no escapes."""
    if '"' in pattern or "\\" in pattern:
        return "'" + pattern.replace("'", "''") + "'"
    return f'"{pattern}"'


def _wrapped(line: str, indent: int) -> list[str]:
    if line.endswith(('"]', "']")):
        return [line]  # a pattern may hold spaces that count
    more = " " * indent
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )
