"""Who holds claims: boot, process and its start time, so a reused pid is not mistaken for it.

One lease for what was claimed together.  It ends with the last of its requests; one that was
claimed again since then stands in a newer lease, and that counts.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threegate.artifacts.ids import is_id, prefix_of
from threegate.base import canonical
from threegate.base.errors import HandoffTampered

_PROC = Path("/proc")
_KEYS = {"boot", "format", "pid", "requests", "room", "started"}


@dataclass(frozen=True, slots=True)
class Lease:
    """A process that claimed requests, and the room it reserved for each."""

    boot: str
    pid: int
    started: int  # clock ticks since boot
    room: int = field(default=0, compare=False)  # bytes for each
    requests: tuple[str, ...] = field(default=(), compare=False)

    def to_bytes(self) -> bytes:
        """Return the lease file's content."""
        holder = {"boot": self.boot, "pid": self.pid, "started": self.started}
        claims = {"requests": list(self.requests), "room": self.room}
        return canonical.encode({"format": "lease/1", **claims, **holder})


def current_lease(*, room: int = 0, requests: Sequence[str] = ()) -> Lease:
    """Return the lease of this process."""
    pid = os.getpid()
    started = _start_time(pid)
    assert started is not None, "this process exists"
    return Lease(_boot_id(), pid, started, room, tuple(requests))


def parse_lease(data: bytes) -> Lease:
    """Return the lease in `data`; raise `HandoffTampered` if the host did not write it."""
    try:
        value: Mapping[str, Any] = canonical.decode(data)
        if set(value) != _KEYS or value["format"] != "lease/1":
            raise ValueError("not a lease")
        pid, started, room = (int(value[key]) for key in ("pid", "started", "room"))
        return Lease(str(value["boot"]), pid, started, room, _requests(value["requests"]))
    except (ValueError, TypeError) as exc:
        raise HandoffTampered("a lease is not readable") from exc


def _requests(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("not a list of requests")
    if not all(is_id(one) and prefix_of(one) in ("fr", "tr") for one in value):
        raise ValueError("not requests")
    return tuple(value)


def is_alive(lease: Lease) -> bool:
    """Tell whether the claiming process still runs, on this boot."""
    return lease.boot == _boot_id() and _start_time(lease.pid) == lease.started


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_time(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The second field is the command in brackets and may hold spaces and brackets itself.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
