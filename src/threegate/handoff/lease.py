"""Who holds a claim: boot, process and its start time, so a reused pid is not mistaken for it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threegate import canonical
from threegate.errors import HandoffTampered

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Lease:
    """A process that claimed a request."""

    boot: str
    pid: int
    started: int  # clock ticks since boot

    def to_bytes(self) -> bytes:
        """Return the lease file's content."""
        value = {"boot": self.boot, "format": "lease/1", "pid": self.pid, "started": self.started}
        return canonical.encode(value)


def current_lease(proc: Path = _PROC) -> Lease:
    """Return the lease of this process."""
    pid = os.getpid()
    started = _start_time(proc, pid)
    assert started is not None, "this process exists"
    return Lease(_boot_id(proc), pid, started)


def parse_lease(data: bytes) -> Lease:
    """Return the lease in `data`; raise `HandoffTampered` if the host did not write it."""
    try:
        value: Mapping[str, Any] = canonical.decode(data)
        if set(value) != {"boot", "format", "pid", "started"} or value["format"] != "lease/1":
            raise ValueError("not a lease")
        return Lease(str(value["boot"]), int(value["pid"]), int(value["started"]))
    except (ValueError, TypeError) as exc:
        raise HandoffTampered("a lease is not readable") from exc


def is_alive(lease: Lease, proc: Path = _PROC) -> bool:
    """Tell whether the claiming process still runs, on this boot."""
    return lease.boot == _boot_id(proc) and _start_time(proc, lease.pid) == lease.started


def _boot_id(proc: Path) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_time(proc: Path, pid: int) -> int | None:
    try:
        text = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The second field is the command in brackets and may hold spaces and brackets itself.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
