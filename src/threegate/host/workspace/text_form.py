"""Artifacts and log entries as inert text for people and as plain values for scripts.

SECURITY
    Opens the foreign text of artifacts for display.  Nothing here prints: `Output` spells out every
    control, bidi and invisible character of its input.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, prefix_of
from threegate.artifacts.registry import FORMATS, Artifact
from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.base.schema import plain_record
from threegate.base.untrusted import Untrusted
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED


@dataclass(frozen=True, slots=True)
class ShownArtifact:
    """Fields and sections of an artifact; every text in it is foreign."""

    id: str
    title: str
    fields: Mapping[str, Any]
    sections: Mapping[str, str | list[str]]


def shown(artifact: Artifact) -> ShownArtifact:
    """Return front matter and sections as plain values."""
    artifact_id = registry.id_of(artifact)
    form = FORMATS[prefix_of(artifact_id)]
    sections: dict[str, str | list[str]] = {}
    for name, section in form.sections.items():
        value: Untrusted[str] | tuple[Untrusted[str], ...] = getattr(artifact, name)
        if isinstance(value, tuple):
            sections[section.title] = [text.open_for_display() for text in value]
        else:
            sections[section.title] = value.open_for_display()
    return ShownArtifact(artifact_id, form.title, plain_record(form.shapes, artifact), sections)


def field_lines(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and text of every field; a list takes one line per item."""
    for name, value in fields.items():
        if not isinstance(value, list):
            yield name, _inline(value)
        elif not value:
            yield name, "none"
        else:
            for number, item in enumerate(value):
                yield ("" if number else name), _inline(item)


def section_texts(sections: Mapping[str, str | list[str]]) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every section; numbered texts one by one."""
    for title, value in sections.items():
        if isinstance(value, str):
            yield title, value
        for number, text in enumerate(value if isinstance(value, list) else (), 1):
            yield f"{title} {number}", text


def _inline(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "  ".join(f"{key}={_inline(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def history(
    log: AuditLog,
    artifact_id: str | None,
    *,
    limit: int,
    skip: int,
    progress: Callable[[int], None],
) -> tuple[list[Entry], int]:
    """Return `limit` entries that end `skip` before the newest, oldest first, and how many exist.

    With an id, only entries that mention it; then the whole log is read.
    """
    if artifact_id is None:
        total = log.size
        first, last = max(0, total - skip - limit), max(0, total - skip)
        return list(_until(log.entries(first), last)), total
    wanted: deque[Entry] = deque(maxlen=limit + skip)
    total = 0
    digest = digest_of(artifact_id)
    for entry in log.entries():
        progress(entry.seq)
        if _mentions(entry.data, digest):
            wanted.append(entry)
            total += 1
    kept = list(wanted)
    end = len(kept) - skip
    return kept[max(0, end - limit) : max(0, end)], total


def _until(entries: Iterator[Entry], end: int) -> Iterator[Entry]:
    for entry in entries:
        if entry.seq >= end:
            return
        yield entry


def _mentions(value: Any, digest: str) -> bool:
    """Tell whether a digest occurs anywhere in the data of an entry."""
    if isinstance(value, str):
        return digest in value
    if isinstance(value, dict):
        return any(digest in key or _mentions(item, digest) for key, item in value.items())
    return isinstance(value, list) and any(_mentions(item, digest) for item in value)


def entry_line(entry: Entry) -> str:
    """Return one line for an entry."""
    data = entry.data
    if entry.kind == INTENT:
        ways = " -> ".join(str(data[key]) for key in ("from", "to") if key in data)
        part = f" ({data.get('n', 0) + 1} of {data.get('of')})" if data.get("of") != 1 else ""
        told = f"{data.get('op')}: {data.get('act')} {data.get('name')} {ways}{part}"
        how = how_in(data.get("detail"))
        given = f" given by {spelled_given(how)}" if how else ""
        return told + given + _origin(data.get("detail"))
    if entry.kind in (OUTCOME, RECOVERED):
        direction = f", {data['direction']}" if "direction" in data else ""
        return f"entries {data.get('first')} to {data.get('last')} done{direction}"
    return "  ".join(f"{key}={_short(value)}" for key, value in data.items())


def how_given(log: AuditLog, approval_id: str) -> dict[str, str]:
    """Return how an approval was given and what protected its key, as the log recorded it."""
    for entry in log.entries():
        if entry.kind == INTENT and entry.data.get("name") == f"{approval_id}.md":
            return how_in(entry.data.get("detail"))
    return {}


def spelled_given(how: dict[str, str]) -> str:
    """Return how an approval was given, for people."""
    if not how:
        return "not recorded"
    return f"{how['given']}, key: {how['key_kind']}"


def how_in(detail: Any) -> dict[str, str]:
    """Return how an approval was given, from the detail of the change that stored it."""
    known = detail if isinstance(detail, dict) else {}
    keys = ("given", "key_kind")
    return {key: str(known[key]) for key in keys} if all(key in known for key in keys) else {}


def _origin(detail: Any) -> str:
    """Return the URLs of a packet, from the detail of the change that stored it."""
    urls = detail.get("urls") if isinstance(detail, dict) else None
    if not isinstance(urls, list) or not urls:
        return ""
    more = f" and {len(urls) - 1} more" if len(urls) > 1 else ""
    return f" from {urls[0]}{more}"


def _short(value: Any) -> str:
    return str(value) if not isinstance(value, dict | list) else f"{len(value)} items"
