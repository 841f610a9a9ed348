"""Entries of the audit log for people: which ones, and what each says."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from threegate.artifacts.ids import digest_of
from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED


def history(
    log: AuditLog,
    artifact_id: str | None,
    *,
    limit: int,
    skip: int,
    progress: Callable[[int], None],
) -> tuple[list[Entry], int]:
    """Return `limit` entries that end `skip` before the newest, oldest first, and how many exist.

    With an id, only entries that speak of it; then the whole log is read.
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
        if _speaks_of(entry.data, digest):
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


def _speaks_of(value: Any, digest: str) -> bool:
    """Tell whether a digest stands anywhere in the data of an entry."""
    if isinstance(value, str):
        return digest in value
    if isinstance(value, dict):
        return any(digest in key or _speaks_of(item, digest) for key, item in value.items())
    return isinstance(value, list) and any(_speaks_of(item, digest) for item in value)


def told(entry: Entry) -> str:
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
    """Return how an approval was given, from the detail of the change that kept it."""
    known = detail if isinstance(detail, dict) else {}
    keys = ("given", "key_kind")
    return {key: str(known[key]) for key in keys} if all(key in known for key in keys) else {}


def _origin(detail: Any) -> str:
    """Return where the bytes of a packet came from, as the change that stored it says."""
    urls = detail.get("urls") if isinstance(detail, dict) else None
    if not isinstance(urls, list) or not urls:
        return ""
    more = f" and {len(urls) - 1} more" if len(urls) > 1 else ""
    return f" from {urls[0]}{more}"


def _short(value: Any) -> str:
    return str(value) if not isinstance(value, dict | list) else f"{len(value)} items"
