"""Whole requests: one from approval to result, and thousands in groups.

Both stand next to pydantic-monty with a fresh worker for each run; one request also next to
as many flushes as ThreeGate makes for it.
"""

import itertools
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.figures import Plain, Sizes, compare, memory_rows
from bench.lite_programs import Program, small_transforms
from bench.lite_raw import RawSyncs, open_pool, recorded_syncs, run_raw
from bench.lite_requests import approved, workspace
from bench.measure import Memory, Watch, noise, say
from threegate.host.run import lifecycle
from threegate.host.run.lifecycle import Report, run_requests
from threegate.host.run.rules import Rules
from threegate.host.workspace.workspace import Workspace

LEVEL: Final = "internal"
MOST_TIMES_RAW: Final = 2.0
LEAST_RATE: Final = 200
ROUNDS: Final = 3
LOOK_EVERY: Final = 50


class OneByOne:
    """Runs approved requests in a sandbox that is open: all that `run` does for each, in order."""

    def __init__(self, ws: Workspace, rules: Rules, lane: lifecycle._Lane) -> None:
        self._ws, self._rules, self._lane = ws, rules, lane

    def __call__(self, request_id: str) -> Report:
        (group,) = lifecycle._groups(self._ws, [request_id])
        assert isinstance(group, list), group
        claimed, refused = lifecycle._claim(self._ws, group, self._rules)
        assert not refused, refused
        started = [self._lane.start(ready) for ready in claimed]
        (report,) = lifecycle._store(self._ws, deque([started]))
        return report


@contextmanager
def one_by_one(ws: Workspace) -> Iterator[OneByOne]:
    """Yield what runs requests one by one; its box is open."""
    with Rules(ws) as rules, lifecycle._Lane(ws, rules, 1) as lane:
        lane.prove(LEVEL)
        yield OneByOne(ws, rules, lane)


def value_of(report: Report) -> object:
    """Return what a request that must have gone well left."""
    assert report.made is not None, report.error
    result = report.made.result
    assert result.exit == "ok", (result.exit, result.stderr_text.open_for_validation())
    return json.loads(result.value_text.open_for_validation())


def single_rows(sizes: Sizes, directory: Path) -> list[Plain]:
    """Return rows of one request, durable from approval to result."""
    ws, raw = workspace(directory / "single"), RawSyncs(directory / "syncs")
    turns = itertools.cycle(small_transforms())
    ours, theirs = Watch(), Watch()
    with one_by_one(ws) as run, open_pool() as pool:
        (first,) = approved(ws, [program := next(turns)])
        with recorded_syncs() as syncs:
            assert value_of(run(first)) == program.expected
        for _ in range(max(2, sizes.singles // 4)):
            program = next(turns)
            (request_id,) = approved(ws, [program])
            with ours.lap():
                report = run(request_id)
            with theirs.lap():
                run_raw(pool, program)
                raw.make(syncs)
            assert value_of(report) == program.expected
    ws.close()
    return [_single_row(percent, ours, theirs, len(syncs)) for percent in (50, 95)]


def _single_row(percent: int, ours: Watch, theirs: Watch, syncs: int) -> Plain:
    judged = percent == 50
    return compare(
        f"run one approved request in an open sandbox, durable, {percent} % within",
        ours.at(percent) * 1e3,
        peer=f"pydantic-monty, fresh worker, and {syncs} flushes of the same kinds",
        theirs=theirs.at(percent) * 1e3,
        unit="ms",
        smaller_is_better=True,
        target=f"at most {MOST_TIMES_RAW:g} times the peer's time" if judged else "",
        met=ours.at(percent) <= MOST_TIMES_RAW * theirs.at(percent) if judged else None,
        noise=(noise(ours.seconds), noise(theirs.seconds)) if judged else (None, None),
    )


def group_rows(sizes: Sizes, directory: Path) -> list[Plain]:
    """Return rows of many requests, started as `run --all` starts them."""
    ws, memory = workspace(directory / "many"), Memory()
    programs = list(itertools.islice(itertools.cycle(small_transforms()), sizes.requests))
    boxes = min(lifecycle.MAX_BOXES, os.cpu_count() or 1)
    ours, theirs = Watch(), Watch()
    for number in range(ROUNDS):
        ids = approved(ws, programs)
        say(f"lite: {len(ids)} requests approved, round {number + 1} of {ROUNDS}")
        with ours.lap(len(ids)):
            _run_all(ws, ids, memory)
        some = programs[: max(4, len(programs) // 4)]
        with theirs.lap(len(some)):
            _run_all_raw(some, boxes)
    ws.close()
    rate = ours.rate()
    row = compare(
        f"`run --all` over {sizes.requests:,} approved requests, durable",
        rate,
        peer=f"pydantic-monty, fresh worker for each, {boxes} at a time, nothing kept",
        theirs=theirs.rate(),
        unit="requests/s",
        target=f"at least {LEAST_RATE} requests/s on two cores",
        met=rate >= LEAST_RATE,
        noise=(noise(ours.seconds), noise(theirs.seconds)),
    )
    return [row, *memory_rows("run --all", memory)]


def _run_all(ws: Workspace, ids: Sequence[str], memory: Memory) -> None:
    memory.look()
    for number, report in enumerate(run_requests(ws, ids)):
        assert report.made is not None and report.made.result.exit == "ok", report.error
        if number % LOOK_EVERY == 0:
            memory.look()


def _run_all_raw(programs: Sequence[Program], workers: int) -> None:
    with open_pool(workers) as pool, ThreadPoolExecutor(workers) as threads:
        list(threads.map(partial(run_raw, pool), programs))
