"""Verifying a log, and a whole workspace with its files and index, and what growing does to that.

One log grows from size to size.  Each time it is grown until its open segment is almost
full: opening verifies that segment, so this is when opening costs most.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from bench import seal_checks, verified
from bench.append import BATCH, EVENT
from bench.data import prose_packets
from bench.figures import MOST_SLOPE, Plain, Sizes, alone, compare, curve, memory_rows
from bench.measure import Memory, Watch, say, seconds_of
from tests.support.workspaces import Clock, clock, make_workspace
from threegate.audit.entry import SEGMENT_EVENTS
from threegate.audit.log import AuditLog
from threegate.audit.verify import LogReport, verify_log
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import CHUNK, admit
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace, open_workspace

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
        *_workspaces(sizes, directory / "workspace"),
    ]
    log.close()
    curves = [
        curve("verify", verify, of="events", expect="linear", picture="events"),
        curve("append, all of them", build, of="events", expect="linear", picture="events"),
        curve("append one, durable", single, of="events", expect="flat", picture="events"),
        curve("open the log", opening, of="events", expect="flat", picture="events"),
    ]
    return {"rows": rows, "curves": curves}


def _workspaces(sizes: Sizes, directory: Path) -> list[Plain]:
    """Run `threegate audit verify` over a workspace, and over it with ten times as many packets."""
    few, many = sizes.packets[-1] // 10, sizes.packets[-1]
    directory.mkdir(mode=0o700)
    make_workspace(directory, clock=Clock()).close()
    seals = seal_checks.seals_of(directory)
    ws = open_workspace(directory / "ws", clock=Clock(), seals=seals)
    rows: list[Plain] = []
    seconds, peaks = [], []
    for held, count in ((0, few), (few, many)):
        _fill(ws, held, count)
        took, cpu, peak = _verified_apart(ws, directory)
        say(f"verify: {count} packets, {took:.1f} s, {cpu:.1f} s of processor, {peak:.1f} MiB")
        seconds.append(cpu)
        peaks.append(peak)
        rows += [
            alone(f"audit verify of {count:,} packets: log, files, index", took, "s"),
            alone(f"audit verify of {count:,} packets: processor time", cpu, "s"),
            alone(f"audit verify of {count:,} packets: peak memory", peak, "MiB"),
        ]
    ws.close()
    what = f"audit verify: {many:,} packets beside {few:,}, "
    memory, work = peaks[1] / peaks[0], seconds[1] / seconds[0]
    most = 10 ** MOST_SLOPE["linear"]
    return [
        *rows,
        alone(f"{what}peak memory", memory, "times", target="within 1.2", met=memory < 1.2),
        alone(f"{what}processor time", work, "times", target="linear", met=work < most),
    ]


def _fill(ws: Workspace, held: int, count: int) -> None:
    """Admit packets until there are so many, and index them."""
    for start in range(held, count, CHUNK):
        batch = prose_packets(start, min(CHUNK, count - start))
        answers = admit(ws.store, map(Untrusted, batch), now=ws.now)
        assert all(answer.status == "accepted" for answer in answers)
    with closing(Index(ws.store, ws.seals)) as index:
        index.catch_up()


def _verified_apart(ws: Workspace, directory: Path) -> tuple[float, float, float]:
    """Return seconds, processor seconds and peak in MiB of `threegate audit verify`."""
    command = [sys.executable, "-I", verified.__file__, str(ws.root)]
    environ = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / seal_checks.STATE)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True)
    code, took, cpu, peak = json.loads(done.stdout)
    assert code == 0, done.stderr
    assert b"rebuil" not in done.stderr, done.stderr
    return took, cpu, peak


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
