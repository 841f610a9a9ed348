"""A batch of events as the bytes to be written, segment by segment.  Pure.

Every drafted line goes through the chain that readers use, so what is written is what
will be accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threegate.audit.chain import LAST, Chain
from threegate.audit.entry import HEADER, SEAL, Broken, Entry, Reason
from threegate.base.errors import AuditUnavailable

CODE = "TG-AUD-003"

Events = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes a batch adds to one segment."""

    segment: int
    data: bytes
    sealed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, and how the log stands once it is written."""

    parts: tuple[Part, ...]
    entries: tuple[Entry, ...]
    chain: Chain


def plan_batch(chain: Chain, events: Events, *, time: str) -> Plan:
    """Return how `events` continue `chain`, which stays as it is.

    Raises AuditUnavailable for an event the log cannot hold: then nothing may happen.
    """
    after = chain.copy()
    parts: list[Part] = []
    entries: list[Entry] = []
    rest = list(events)
    while rest or after.size == 0:
        segment = after.segment
        header: Events = [(HEADER, after.header())] if after.position == 0 else []
        room = LAST - after.position - len(header)
        # A clock that is set back begins with its own entry, not with the header before it.
        lines = _extend(after, header, time=max(time, after.time))[0]
        more, added = _extend(after, rest[:room], time=time)
        lines += more
        entries += added
        rest = rest[room:]
        if after.position == LAST:
            lines += _extend(after, [(SEAL, after.seal())], time=time)[0]
        data = b"\n".join(lines) + b"\n"
        parts.append(Part(segment, data, sealed=after.position == 0))
    return Plan(tuple(parts), tuple(entries), after)


def _extend(chain: Chain, events: Events, *, time: str) -> tuple[list[bytes], list[Entry]]:
    try:
        lines = chain.draft(events, time=time)
        links = chain.feed(lines, segment=chain.segment)
    except Broken as exc:
        raise _refusal(exc.reason.value) from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise _refusal(Reason.DATA.value) from exc
    # A tuple, or a number as a key, would come back as something else.
    if any(dict(data) != read for (_, data), read in zip(events, links.datas, strict=True)):
        raise _refusal("does not read back as it was given")
    return lines, list(links.entries())


def _refusal(why: str) -> AuditUnavailable:
    return AuditUnavailable(f"an event {why}, so the audit log cannot hold it", code=CODE)
