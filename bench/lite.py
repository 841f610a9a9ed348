"""The lite lane: whole requests, small transforms next to what people use instead, large data.

Everything takes turns with its peers, and every answer is compared with what CPython makes of
the same program: a peer that is fast and wrong stops the benchmark.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.figures import Plain, Sizes, compare, missing
from bench.lite_peers import Peer, Run, peers
from bench.lite_programs import Program, large_transform, small_transforms
from bench.lite_raw import open_pool, run_raw
from bench.lite_requests import approved, workspace
from bench.lite_whole import LEVEL, group_rows, one_by_one, single_rows, value_of
from bench.measure import Watch, noise, say
from threegate.handoff.approvals import approvals_by_request
from threegate.host.run.lite import Boxes
from threegate.host.run.ready import job_of, make_ready
from threegate.host.workspace.workspace import Workspace

MOST_TIMES_RAW: Final = 1.2
LARGE: Final = {"wall_ms": 30_000, "memory_bytes": 512 * 2**20, "output_bytes": 2**20}
SLOW_EVERY: Final = 5  # rounds
SMALL: Final = "a small transform in an open sandbox: approval checked, run, answered"


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    rows = single_rows(sizes, directory)
    rows += group_rows(sizes, directory)
    say("lite: small transforms")
    rows += _small_rows(sizes, workspace(directory / "small"))
    say("lite: large data")
    rows += _large_rows(sizes, workspace(directory / "large"))
    return {"rows": rows, "curves": []}


class _Ours:
    """The lane without the workspace: approval check and run, in a sandbox that is open."""

    def __init__(self, ws: Workspace, programs: Sequence[Program], **limits: int) -> None:
        ids = approved(ws, programs, **limits)
        hints = approvals_by_request(ws.store)
        names = [program.name for program in programs]
        self._ready = {
            name: make_ready(ws, request_id, hints)
            for name, request_id in zip(names, ids, strict=True)
        }
        self._boxes = Boxes(ws.bundle)
        self.warm()

    def warm(self) -> None:
        """Open the box, or the next one when it has served its time."""
        self._boxes.box(LEVEL)

    def __call__(self, program: Program) -> Any:
        ready = self._ready[program.name]
        ran = self._boxes.box(LEVEL).run(job_of(ready), wall_ms=ready.request.limits.wall_ms)
        assert ran.outcome.exit == "ok", ran.outcome
        return json.loads(ran.outcome.value)

    def close(self) -> None:
        """End the box."""
        self._boxes.close()


def _seconds(act: Run, programs: Sequence[Program]) -> float:
    """Return how long one of these programs takes, on average; check what comes out."""
    watch, values = Watch(), []
    with watch.lap():
        values = [act(program) for program in programs]
    for program, value in zip(programs, values, strict=True):
        assert value == program.expected, f"{program.name} came out otherwise"
    return watch.total / len(programs)


@contextmanager
def _raw() -> Iterator[Run]:
    with open_pool() as pool:
        yield lambda program: json.loads(run_raw(pool, program))


def _small_rows(sizes: Sizes, ws: Workspace) -> list[Plain]:
    """Return a row for each peer: the worked examples in turns, time for one of them."""
    others = [Peer("pydantic-monty, fresh worker, no sandbox", _raw), *peers()]
    with ExitStack() as stack:
        stack.callback(ws.close)
        ours = _Ours(ws, small_transforms())
        stack.callback(ours.close)
        acts = {peer.name: stack.enter_context(peer.start()) for peer in others if not peer.missing}
        slow = {peer.name for peer in others if peer.is_slow}
        found = _rounds(ours, acts, slow, max(2, sizes.singles // 20))
    return [_small_row(peer, found) for peer in others]


def _rounds(
    ours: _Ours, acts: Mapping[str, Run], slow: set[str], rounds: int
) -> dict[str, list[float]]:
    """Return seconds for a run in each round, ours under the empty name."""
    programs = small_transforms()
    found: dict[str, list[float]] = {name: [] for name in ("", *acts)}
    quick: list[Run] = [ours, *(act for name, act in acts.items() if name not in slow)]
    for act in quick:
        _seconds(act, programs)  # what is imported or compiled once is not a run's cost
    for number in range(rounds):
        ours.warm()
        found[""].append(_seconds(ours, programs))
        for name, act in acts.items():
            if name not in slow:
                found[name].append(_seconds(act, programs))
            elif number % SLOW_EVERY == 0:
                found[name].append(_seconds(act, programs[number // SLOW_EVERY % 4 :][:1]))
    return found


def _small_row(peer: Peer, found: Mapping[str, Sequence[float]]) -> Plain:
    ours = found[""]
    if peer.missing:
        middle = statistics.median(ours) * 1e3
        return missing(SMALL, middle, "ms", peer=peer.name, why=peer.missing)
    return _row(SMALL, ours, peer.name, found[peer.name])


def _row(
    what: str,
    ours: Sequence[float],
    peer: str,
    theirs: Sequence[float],
    *,
    most_times: float | None = None,
) -> Plain:
    mine, other = statistics.median(ours), statistics.median(theirs)
    judged = most_times is not None
    return compare(
        what,
        mine * 1e3,
        peer=peer,
        theirs=other * 1e3,
        unit="ms",
        smaller_is_better=True,
        target=f"at most {most_times:g} times the peer's time" if judged else "",
        met=mine <= most_times * other if most_times is not None else None,
        noise=(noise(ours), noise(theirs)),
    )


def _large_rows(sizes: Sizes, ws: Workspace) -> list[Plain]:
    """Return rows of a transform of many rows: in the lane, and from approval to result."""
    program, rounds = large_transform(sizes.rows), max(2, sizes.singles // 40)
    lane, whole, theirs = [], [], []
    with ExitStack() as stack:
        stack.callback(ws.close)
        ours = _Ours(ws, [program], **LARGE)
        stack.callback(ours.close)
        raw = stack.enter_context(_raw())
        finish = stack.enter_context(one_by_one(ws))
        waiting = iter(approved(ws, [program] * rounds, **LARGE))
        for _ in range(rounds):
            lane.append(_seconds(ours, [program]))
            theirs.append(_seconds(raw, [program]))
            whole.append(_seconds(lambda _: value_of(finish(next(waiting))), [program]))
    size = sum(map(len, program.documents.values())) / 1e6
    what = f"JSON transform of {sizes.rows:,} rows, {size:.1f} MB, in an open sandbox"
    peer = "pydantic-monty, fresh worker, json.loads inside"
    return [
        _row(what, lane, peer, theirs, most_times=MOST_TIMES_RAW),
        _row(f"{what}, from approval to durable result", whole, peer, theirs),
    ]
