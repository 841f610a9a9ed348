"""Verifying a log and every file it tells of, and what growing does to that.

One log grows from size to size.  Each time it is grown until its open segment is almost
full: opening verifies that segment, so this is when opening costs most.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

from bench.append import BATCH, EVENT
from bench.figures import Plain, Sizes, alone, compare, curve, memory_rows
from bench.measure import Memory, Watch, say, seconds_of
from tests.support.stores import clock, make_store
from threegate.audit.limits import SEGMENT_EVENTS
from threegate.audit.log import AuditLog
from threegate.audit.verify import LogReport, verify_log
from threegate.handoff.journal import MAX_BATCH, Put
from threegate.handoff.states import BLOBS
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold, verify_files

APPENDS = 25
ROOM = 24  # lines left in the open segment
PEER_ROUNDS = 3
Points = list[tuple[int, float]]


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows and curves."""
    where = directory / "audit"
    log = AuditLog.create(where, workspace="0" * 32, clock=clock)
    growing, memory = Watch(), Memory()
    build: Points = []
    verify: Points = []
    single: Points = []
    opening: Points = []
    for wanted in sizes.events:
        size = almost_full(wanted)
        _grow(log, size, growing, memory)
        build.append((size, growing.total))
        verify.append((size, seconds_of(lambda: _verified(where))))
        opening.append((size, seconds_of(lambda: _open(where))))
        single.append((size, _single_append(log)))
        say(f"verify: {size} events, {size / verify[-1][1]:,.0f}/s")
    rows = [
        *_compare_verify(where, log.size),
        alone(f"grow a log to {log.size:,} events in batches", growing.rate(), "events/s"),
        *memory_rows("grow a log", memory),
        *_files(sizes, directory / "store"),
    ]
    log.close()
    curves = [
        curve("verify", verify, of="events", expect="linear", picture="events"),
        curve("append, all of them", build, of="events", expect="linear", picture="events"),
        curve("append one, durable", single, of="events", expect="flat", picture="events"),
        curve("open the log", opening, of="events", expect="flat", picture="events"),
    ]
    return {"rows": rows, "curves": curves}


def _files(sizes: Sizes, root: Path) -> list[Plain]:
    """Verify a workspace of some files and one of ten times as many: memory must be the same.

    Each in a process of its own: what was once taken is not given back.
    """
    few, many = sizes.packets[-1] // 10, sizes.packets[-1]
    make_store(root)
    rows: list[Plain] = []
    peaks = []
    for count in (few, many):
        _keep_until(root, count)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            seconds, peak = process.submit(verified_files, root, count).result()
        say(f"verify: {count} files, {count / seconds:,.0f}/s, {peak:.1f} MiB")
        peaks.append(peak)
        rows += [
            alone(f"verify {count:,} files", count / seconds, "files/s"),
            alone(f"verify {count:,} files: peak memory", peak, "MiB"),
        ]
    ratio = peaks[1] / peaks[0]
    what = f"verify: peak memory of {many:,} files beside that of {few:,}"
    return [*rows, alone(what, ratio, "times", target="within 1.2", met=ratio < 1.2)]


def _keep_until(root: Path, count: int) -> None:
    """Keep small files until there are so many."""
    store = Store.open(root, clock=clock)
    with store.locked() as journal:
        first = journal.usage.of(BLOBS)[0]
        for start in range(first, count, MAX_BATCH):
            datas = [b"%d" % number for number in range(start, min(start + MAX_BATCH, count))]
            journal.run("blob", [Put(BLOBS, sha256(data).hexdigest(), data) for data in datas])
    store.close()


def verified_files(root: Path, count: int) -> tuple[float, float]:
    """Return the seconds and the peak in MiB of verifying the log and every file."""
    memory, watch = Memory(), Watch()
    store = Store.open(root, clock=clock)
    with watch.lap(count):
        fold = FileFold()
        report = verify_log(root / AUDIT, visit=fold.feed, progress=lambda _: memory.look())
        assert report.problem is None
        look = lambda seen: memory.look() if seen % 1000 == 0 else None  # noqa: E731
        assert list(verify_files(store.directories, fold, look)) == []
        assert len(fold.files) == count
    memory.look()
    store.close()
    return watch.total, memory.peak()


def almost_full(size: int) -> int:
    """Return the next number of entries at which the open segment is almost full."""
    return -(-(size + ROOM) // SEGMENT_EVENTS) * SEGMENT_EVENTS - ROOM


def _grow(log: AuditLog, size: int, growing: Watch, memory: Memory) -> None:
    while log.size < size:
        count = min(BATCH, size - log.size)
        with growing.lap(count):
            log.append([EVENT] * count, durable=False)
        if len(growing.seconds) % 50 == 1:
            memory.look()


def _single_append(log: AuditLog) -> float:
    watch = Watch()
    for _ in range(APPENDS):
        with watch.lap():
            log.append([EVENT])
    return watch.at(50)


def _verified(where: Path, memory: Memory | None = None) -> LogReport:
    look = None if memory is None else lambda _count: memory.look()
    report = verify_log(where, progress=look)
    assert report.problem is None
    return report


def _open(where: Path) -> None:
    AuditLog.open(where, clock=clock).close()


def _compare_verify(where: Path, events: int) -> list[Plain]:
    ours, theirs, memory = Watch(), Watch(), Memory()
    for _ in range(PEER_ROUNDS):
        with ours.lap(events):
            assert _verified(where, memory).events == events
        with theirs.lap(events):
            assert sum(1 for _ in _hash_and_load(where)) == events
    row = compare(
        f"verify {events:,} events",
        ours.rate(),
        peer="SHA-256 and json.loads of each line, nothing compared",
        theirs=theirs.rate(),
        unit="events/s",
    )
    return [row, *memory_rows("verify", memory)]


def _hash_and_load(where: Path) -> Iterator[tuple[bytes, object]]:
    for path in sorted(where.glob("segment-*.jsonl")):
        for line in path.read_bytes().splitlines():
            yield sha256(line).digest(), json.loads(line)
