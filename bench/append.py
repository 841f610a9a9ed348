"""Appending to the audit log, next to plain write and fdatasync of as many bytes."""

import os
from pathlib import Path

from bench.figures import Plain, Sizes, compare
from bench.measure import Watch
from tests.support.workspaces import clock
from threegate.audit.log import AuditLog

BATCH = 256
MOST_TIMES_RAW = 1.5

EVENT = (
    "intent",
    {
        "act": "put",
        "bytes": 4697,
        "detail": {},
        "n": 0,
        "name": f"rp-{'5e' * 32}.md",
        "of": 1,
        "op": "admit",
        "sha256": "5e" * 32,
        "to": "handoff/packets/accepted",
    },
)


class _Raw:
    """A file that grows by write and fdatasync."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def append(self, data: bytes) -> None:
        os.write(self._fd, data)
        os.fdatasync(self._fd)


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    log = AuditLog.create(directory / "audit", workspace="0" * 32, clock=clock)
    raw = _Raw(directory / "raw")
    one, one_raw, many, many_raw = Watch(), Watch(), Watch(), Watch()
    line = b"x" * (_line_bytes(log, directory) - 1) + b"\n"
    for _ in range(sizes.singles):
        with one.lap():
            log.append([EVENT])
        with one_raw.lap():
            raw.append(line)
    for _ in range(sizes.batches):
        with many.lap(BATCH):
            log.append([EVENT] * BATCH)
        with many_raw.lap(BATCH):
            raw.append(line * BATCH)
    log.close()
    return {"rows": [*_single_rows(one, one_raw), _batch_row(many, many_raw)], "curves": []}


def _line_bytes(log: AuditLog, directory: Path) -> int:
    segment = directory / "audit" / "segment-00000000.jsonl"
    before = segment.stat().st_size
    log.append([EVENT])
    return segment.stat().st_size - before


def _single_rows(one: Watch, raw: Watch) -> list[Plain]:
    rows = []
    for percent in (50, 95):
        ours, theirs = one.at(percent), raw.at(percent)
        judged = percent == 50
        row = compare(
            f"append one event, durable, {percent} % within",
            ours * 1e6,
            peer="write and fdatasync of the same number of bytes",
            theirs=theirs * 1e6,
            unit="µs",
            smaller_is_better=True,
            target=f"at most {MOST_TIMES_RAW} times the peer's time" if judged else "",
            met=ours <= MOST_TIMES_RAW * theirs if judged else None,
        )
        rows.append(row)
    return rows


def _batch_row(many: Watch, raw: Watch) -> Plain:
    return compare(
        f"append in batches of {BATCH}, durable",
        many.rate(),
        peer="one write and fdatasync for each batch",
        theirs=raw.rate(),
        unit="events/s",
    )
