"""Executors that wait: runs in them, rules pushed to them, and runs that a policy ends.

Everything takes turns.  What waits in the heavy lane is a snapshot: a job resumes a clone of it,
and so does a push, for its readback; both stand beside a bare QEMU that resumes the same one.
"""

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.figures import Plain, Sizes, compare
from bench.heavy_machines import Bench, bench_for
from bench.lite_programs import small_transforms
from bench.lite_requests import approved, workspace
from bench.lite_whole import one_by_one, value_of
from bench.measure import Watch, noise, say
from tests.support.policies import altered
from tests.support.requests import approved_request
from tests.support.workspaces import settings_for, soft_signer
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request
from threegate.host.policy.changes import apply_policy
from threegate.host.run.lifecycle import run_requests
from threegate.host.run.ready import job_of, make_ready
from threegate.host.run.results import STOPPED
from threegate.host.run.rules import LOOK_SECONDS
from threegate.host.run.warm.executors import APPLIED, Signed, Status
from threegate.host.run.warm.keeper import WarmExecutors
from threegate.host.run.warm.kinds import LiteExecutor, LiteKind
from threegate.host.run.warm.pool import ExecutorPool
from threegate.host.workspace.workspace import Workspace

WAIT_SECONDS: Final = 60.0
HELLO: Final = "print('hello')"
GUEST_MIB: Final = 192
ENDLESS: Final = "while True:\n    pass\n"
LOOKS: Final = f"looked for every {LOOK_SECONDS * 1e3:.0f} ms"


class Told:
    """What executors said last, for whoever waits for it."""

    def __init__(self) -> None:
        self._news, self._last = threading.Condition(), ""

    def event(self, kind: str, /, **facts: object) -> None:
        """Take what `serve` would tell."""
        if kind == "executor":
            self._said(str(facts["policy"]) if facts["state"] == APPLIED else "")

    def status(self, status: Status) -> None:
        """Take what a pool says."""
        self._said(status.policy if status.state == APPLIED else "")

    def _said(self, policy: str) -> None:
        with self._news:
            self._last = policy
            self._news.notify_all()

    def wait(self, policy: str) -> None:
        """Wait until an executor was read back with this policy."""
        with self._news:
            assert self._news.wait_for(lambda: self._last == policy, WAIT_SECONDS)


class Scene:
    """A workspace that is served in this process, with one box of the lite lane waiting."""

    def __init__(self, ws: Workspace) -> None:
        self.ws, self.told = ws, Told()
        self.warm = WarmExecutors(ws.root, settings_for(ws.root.parent), 1, self.told.event)
        self._number = 0

    def ready(self) -> None:
        """Wait until a box waits, under the rules in force."""
        self.warm.lite_pool.take(self.ws.bundle, seconds=WAIT_SECONDS).give_back(used=False)

    def applied(self) -> Signed:
        """Put another policy in force."""
        self._number += 1
        names = ["json", "math", "re", *(["base64"] if self._number % 2 else [])]

        def change(sections: dict[str, Any]) -> None:
            sections["tool-exec"]["interpreter_ring"]["pure"]["allowed_imports"] = sorted(names)

        rules = altered(self.ws.bundle, change)
        bundle = apply_policy(self.ws, rules, soft_signer(), op="policy.apply")
        self.ws = replace(self.ws, bundle=bundle)
        return Signed(bundle, self.ws.store.read_file(states.BUNDLES, f"{bundle.digest}.sig"))


@contextmanager
def scene(directory: Path) -> Iterator[Scene]:
    """Serve a new workspace until the end."""
    ws = workspace(directory)
    found = Scene(ws)
    found.warm.start()
    try:
        yield found
    finally:
        found.warm.close()
        ws.close()


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    rounds = max(3, sizes.singles // 16)
    with scene(directory / "served") as served:
        say(f"executors: runs, {rounds} rounds")
        rows = _run_rows(served, rounds)
        say(f"executors: pushes, {rounds} rounds")
        rows += _push_rows(served, rounds)
        say("executors: runs that are stopped")
        rows.append(_stop_row(served, max(3, rounds // 3)))
    say("executors: a guest and its snapshot")
    rows += _snapshot_rows(bench_for(directory / "guest", HELLO, GUEST_MIB, "base"), rounds)
    return {"rows": rows, "curves": []}


def _run_rows(served: Scene, rounds: int) -> list[Plain]:
    turns, ws = itertools.cycle(small_transforms()), served.ws
    warm, cold, standing = Watch(), Watch(), Watch()
    with one_by_one(ws) as again:
        acts: list[tuple[Watch, Callable[[str], object]]] = [
            (warm, lambda one: _only(run_requests(ws, [one], lite=served.warm.lite))),
            (cold, lambda one: _only(run_requests(ws, [one]))),
            (standing, again),
        ]
        for number in range(rounds + 1):
            for watch, act in acts:
                program = next(turns)
                (request_id,) = approved(ws, [program])
                served.ready()
                with (watch if number else Watch()).lap():  # what is loaded once is no run's cost
                    report: Any = act(request_id)
                assert value_of(report) == program.expected
    what = "run one approved request in a sandbox that waits, durable"
    return [
        _row(what, warm.seconds, "a sandbox started for it, as `threegate run ID`", cold.seconds),
        _row(what, warm.seconds, "a sandbox that is open, as in `run --all`", standing.seconds),
    ]


def _only(reports: Iterator[Any]) -> Any:
    (report,) = reports
    return report


def _push_rows(served: Scene, rounds: int) -> list[Plain]:
    pushed, alone, anew = Watch(), Watch(), Watch()
    told = Told()
    pool: ExecutorPool[LiteExecutor] = ExecutorPool(LiteKind(), 1, told.status)
    pool.push(served.applied())
    pool.open()
    told.wait(served.ws.bundle.digest)
    kind = LiteKind()
    try:
        for _ in range(rounds):
            served.told.wait(served.ws.bundle.digest)
            signed = served.applied()
            with pushed.lap():
                served.told.wait(signed.bundle.digest)
            with alone.lap():
                pool.push(signed)
                told.wait(signed.bundle.digest)
            with anew.lap():
                box = kind.start(signed.bundle)
                assert box.enforced() == kind.expected(signed.bundle)
            box.close()
    finally:
        pool.close()
    peer = "a sandbox started afresh under the policy and read back"
    return [
        _row(
            "hand a policy to a sandbox that waits, and read it back",
            alone.seconds,
            peer,
            anew.seconds,
        ),
        _row(
            f"from applied to acknowledged in the log, {LOOKS}", pushed.seconds, peer, anew.seconds
        ),
    ]


def _stop_row(served: Scene, rounds: int) -> Plain:
    stopped, killed = Watch(), Watch()
    for _ in range(rounds):
        stopped.seconds.append(_stopped(served))
        killed.seconds.append(_killed(served))
    what = f"from a policy that stops to the result of the run it ends, {LOOKS}"
    return _row(what, stopped.seconds, "the same sandbox killed by hand", killed.seconds)


def _stopped(served: Scene) -> float:
    request_id = approved_request(served.ws, ENDLESS)
    ended: list[str] = []

    def work(ws: Workspace) -> None:
        report = _only(run_requests(ws, [request_id]))
        ended.append(report.made.result.exit)

    thread = threading.Thread(target=work, args=(served.ws,))
    thread.start()
    _settle(lambda: served.ws.store.locate(request_id) == states.directory_of("tr", "claimed"))
    served.applied()
    begin = time.perf_counter()
    thread.join()
    assert ended == [STOPPED], ended
    return time.perf_counter() - begin


def _killed(served: Scene) -> float:
    ws = served.ws
    request_id = approved_request(ws, ENDLESS)
    job = job_of(make_ready(ws, request_id, approvals_by_request(ws.store)))
    box = LiteKind().start(ws.bundle).box
    ended: list[str] = []
    thread = threading.Thread(
        target=lambda: ended.append(box.run(job, wall_ms=30_000).outcome.exit)
    )
    thread.start()
    _settle(lambda: box._jobs > 0)
    begin = time.perf_counter()
    box.kill()
    thread.join()
    took = time.perf_counter() - begin
    assert ended == ["crashed"], ended
    box.close()
    return took


def _snapshot_rows(guest: Bench, rounds: int) -> list[Plain]:
    acts = {"job": guest.warm, "readback": guest.probe, "bare": guest.bare_warm}
    watches = {name: Watch() for name in acts}
    for act in acts.values():
        act()  # what is read into memory once is not a run's cost
    for _ in range(rounds):
        for name, act in acts.items():
            with watches[name].lap():
                act()
    peer, bare = "bare QEMU resumed with the same job, no sandbox", watches["bare"].seconds
    return [
        _row("a job in a clone of a snapshot that waits", watches["job"].seconds, peer, bare),
        _row("its readback after a push: a clone", watches["readback"].seconds, peer, bare),
    ]


def _settle(is_so: Callable[[], bool]) -> None:
    """Wait until a run has begun, and a moment longer, in which its program does."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.3)


def _row(what: str, ours: Sequence[float], peer: str, theirs: Sequence[float]) -> Plain:
    return compare(
        what,
        statistics.median(ours) * 1e3,
        peer=peer,
        theirs=statistics.median(theirs) * 1e3,
        unit="ms",
        smaller_is_better=True,
        noise=(noise(ours), noise(theirs)),
    )
