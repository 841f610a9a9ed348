"""A workspace that grows: admitting, indexing, searching, listing, opening; next to grep.

Opening is measured when it costs most: with an almost full open segment of the log.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import seal_checks
from bench import words as bench_words
from bench.data import EVERYWHERE, prose_packets, season_of, serial_of
from bench.figures import Plain, Sizes, alone, compare, curve, memory_rows
from bench.measure import Memory, Watch, say, seconds_of
from bench.verify import almost_full
from tests.support.workspaces import Clock, make_workspace
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import CHUNK, admit
from threegate.host.status import overview
from threegate.host.workspace.index import Index, remove_index
from threegate.host.workspace.workspace import Workspace, open_workspace

PACKETS = ("rp",)
PAGE = 50
GREPS = 3
Points = list[tuple[int, float]]


@dataclass
class _Costs:
    """What each act costs at each size."""

    admitting: Watch = field(default_factory=Watch)
    memory: Memory = field(default_factory=Memory)
    index_memory: Memory = field(default_factory=Memory)
    admit: Points = field(default_factory=list)
    index: Points = field(default_factory=list)
    one: Points = field(default_factory=list)
    few: Points = field(default_factory=list)
    every: Points = field(default_factory=list)
    page: Points = field(default_factory=list)
    count: Points = field(default_factory=list)
    status: Points = field(default_factory=list)
    opening: Points = field(default_factory=list)


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows and curves."""
    make_workspace(directory, clock=Clock()).close()
    seals = seal_checks.seals_of(directory)  # where the commands look for them
    ws = open_workspace(directory / "ws", clock=Clock(), seals=seals)
    costs = _Costs()
    held = 0
    for size in sizes.packets:
        _grow(ws, held, size, costs)
        held = size
        index = _build_index(ws, size, costs)
        _measure(ws, index, size, sizes, costs)
        say(f"search: {size} packets, indexed at {size / costs.index[-1][1]:,.0f}/s")
        if size == sizes.packets[-1]:
            rows = _rows(ws, index, size, sizes, costs)
            rows += bench_words.rows(ws, _seasons(sizes.queries), directory)
            rows += seal_checks.rows(ws, size, sizes, directory)
        index.close()
    ws.close()
    return {"rows": rows, "curves": _curves(costs)}


def _grow(ws: Workspace, held: int, size: int, costs: _Costs) -> None:
    for start in range(held, size, CHUNK):
        batch = list(prose_packets(start, min(CHUNK, size - start)))
        with costs.admitting.lap(len(batch)):
            answers = list(admit(ws.store, map(Untrusted, batch), now=ws.now))
        assert all(answer.status == "accepted" for answer in answers)
        costs.memory.look()
    costs.admit.append((size, costs.admitting.total))


def _build_index(ws: Workspace, size: int, costs: _Costs) -> Index:
    remove_index(ws.root)
    watch, costs.index_memory = Watch(), Memory()
    with watch.lap(size):
        index = Index(ws.store, ws.seals)
        costs.index_memory.look()
        index.catch_up(lambda _done, _all: costs.index_memory.look())
    assert index.count(PACKETS, state=None) == size
    costs.index.append((size, watch.total))
    return index


def _measure(ws: Workspace, index: Index, size: int, sizes: Sizes, costs: _Costs) -> None:
    costs.one.append((size, _search(index, _serials(size, sizes.queries)).at(50)))
    costs.few.append((size, _search(index, _seasons(sizes.queries)).at(50)))
    costs.every.append((size, seconds_of(lambda: _find(index, EVERYWHERE))))
    page = seconds_of(lambda: index.page(PACKETS, state=None, limit=PAGE, skip=0))
    costs.page.append((size, page))
    costs.count.append((size, seconds_of(lambda: index.count(PACKETS, state=None))))
    costs.status.append((size, seconds_of(lambda: overview(ws, index))))
    _fill_segment(ws)
    costs.opening.append((size, seconds_of(lambda: open_workspace(ws.root, clock=Clock()).close())))


def _fill_segment(ws: Workspace) -> None:
    with ws.store.locked() as journal:
        missing = almost_full(journal.log.size) - journal.log.size
        journal.log.append([("bench.fill", {})] * missing)


def _serials(size: int, count: int) -> list[str]:
    return [serial_of(number * size // count) for number in range(count)]


def _seasons(count: int) -> list[str]:
    return [f'"{season_of(number)}"' for number in range(count)]


def _find(index: Index, words: str) -> None:
    assert index.search(words, PACKETS, limit=PAGE, skip=0)


def _search(index: Index, queries: Sequence[str]) -> Watch:
    watch = Watch()
    for words in queries:
        with watch.lap():
            _find(index, words)
    return watch


def _grep(ws: Workspace, index: Index, words: str) -> float:
    """Return the seconds `grep -l` takes; it must find as many files as the index."""
    text, where = words.strip('"'), ws.root / "handoff/packets/accepted"
    command = ["grep", "-r", "-l", "-w", "-F", "-e", text, str(where)]
    watch = Watch()
    with watch.lap():
        found = subprocess.run(command, capture_output=True, check=True).stdout.count(b"\n")
    assert found == index.count_found(words, PACKETS), words
    return watch.total


def _rows(ws: Workspace, index: Index, size: int, sizes: Sizes, costs: _Costs) -> list[Plain]:
    kinds = {
        "a word of one packet": _serials(size, sizes.queries),
        "a phrase of one packet in a hundred": _seasons(sizes.queries),
        "a word of every packet": [EVERYWHERE] * GREPS,
    }
    rows = []
    for what, queries in kinds.items():
        watch = _search(index, queries)
        greps = sorted(_grep(ws, index, words) for words in queries[:GREPS])
        for percent in (50, 95):
            row = compare(
                f"search {size:,} packets for {what}, {percent} % within",
                watch.at(percent) * 1e3,
                peer="grep -l over the files, in the page cache",
                theirs=greps[len(greps) // 2] * 1e3,
                unit="ms",
                smaller_is_better=True,
            )
            rows.append(row)
    built = costs.index[-1]
    return [
        *rows,
        alone(f"index {size:,} packets", built[0] / built[1], "packets/s"),
        alone("admit them, in batches", costs.admitting.rate(), "packets/s"),
        alone("open the workspace", costs.opening[-1][1] * 1e3, "ms"),
        *memory_rows("admit", costs.memory),
        *memory_rows("index", costs.index_memory),
    ]


def _curves(costs: _Costs) -> list[Plain]:
    linear = (
        ("admit, all of them", costs.admit),
        ("build the index", costs.index),
        ("search: a word of every packet", costs.every),
        ("search: a phrase of 1 %", costs.few),
        ("count a listing", costs.count),
        ("status, which looks for stray files", costs.status),
    )
    logarithmic = (("search: a word of one packet", costs.one),)
    flat = (
        ("first page of a listing", costs.page),
        ("open the workspace", costs.opening),
    )
    expected = {"linear": linear, "logarithmic": logarithmic, "flat": flat}
    return [
        curve(name, points, of="packets", expect=expect, picture="packets")
        for expect, group in expected.items()
        for name, points in group
    ]
