"""Running approved requests: check, claim, run, store, many at a time.

Requests go in groups.  While the sandboxes work on one group, the host stores the results of the
previous one and claims the next, each in one change of the workspace.  A use is spent with the
claim, durably, before anything runs: a request that a crash interrupts does not run again on its
own, it goes back to the human.

SECURITY
    Keeps the answers of sandboxes that ran hostile code.  A malformed answer is not parsed further:
    it goes to quarantine as bytes, and its run counts as crashed.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import (
    ArtifactRejected,
    GateUnavailable,
    StorageFailed,
    ThreeGateError,
)
from threegate.gates.tool_exec.era.messages import DID_NOT_WAKE, NOT_AS_PROMISED
from threegate.gates.tool_exec.monty.messages import REFUSED_APPROVAL, LiteOutcome
from threegate.handoff import states
from threegate.handoff.admission import why_file
from threegate.handoff.approvals import approvals_by_request
from threegate.handoff.claims import End, claim_group, finish_group
from threegate.handoff.journal import Act, Put
from threegate.host.policy.coverage import void_if_refused
from threegate.host.run.heavy.backend import HeavyRun
from threegate.host.run.heavy.lane import HeavyAnswer, Lane
from threegate.host.run.lite import Boxes, LiteRun, SomeBoxes
from threegate.host.run.ready import Ready, job_of, make_ready
from threegate.host.run.results import Confinement, MadeResult, Measured, make_result
from threegate.host.run.rules import Rules
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import ring_for
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import ProfileRejected
from threegate.policy.ring.executor_profile import ExecutorProfile

NO_LANE: Final = "TG-GATE-002"
GROUP: Final = 32
GROUP_INPUT_BYTES: Final = 64 * 1024 * 1024
MAX_BOXES: Final = 2
MAX_TRIES: Final = 3  # to find a living sandbox; a job that a sandbox has seen is never tried again
RESULT_BYTES: Final = 8 * 1024 * 1024  # of one result with its blobs and log entries
# Without quarantine, where few runs leave anything: foreign rubbish there must not stop all runs.
LEFT_IN: Final = (
    states.directory_of("res", "accepted"),
    states.directory_of("tr", "done"),
    states.BLOBS,
)
# Nothing of the request was handed to its worker or guest.
DID_NOT_BEGIN: Final = (REFUSED_APPROVAL, NOT_AS_PROMISED, DID_NOT_WAKE)
MAX_RUBBISH_BYTES: Final = 64 * 1024  # of a malformed answer: enough to see what it was
_NOT_AN_ANSWER: Final = ArtifactRejected("the answer of a sandbox is malformed", code="TG-LITE-002")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one request, or the reason there is none."""

    request_id: str
    made: MadeResult | None
    error: ThreeGateError | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """A finished run of the lite lane, and what confined it."""

    started: str
    ran: LiteRun
    box: Confinement


@dataclass(frozen=True, slots=True)
class _Started:
    ready: Ready
    answer: "Future[_Answer] | Future[HeavyAnswer]"


def run_requests(
    ws: Workspace,
    request_ids: Sequence[str],
    *,
    stop: Callable[[], bool] = lambda: False,
    heavy: Callable[[], Lane] | None = None,
    lite: Callable[[Bundle], SomeBoxes] | None = None,
) -> Iterator[Report]:
    """Run every request that may run; yield a report for each.

    Nothing more is claimed once `stop` returns True; claimed requests run to their end, unless
    their rules are replaced and policy stops them.  `heavy` opens the heavy lane when the first
    request for it comes.  `lite` supplies lite sandboxes; without it they are started here.
    """
    ws.refuse_wrong_clock()
    under_way: deque[list[_Started]] = deque()
    boxes = min(MAX_BOXES, os.cpu_count() or 1, len(request_ids))
    with (
        Rules(ws) as rules,
        _Lane(ws, rules, boxes, lite) as lane,
        _Heavy(ws, rules, heavy) as machines,
    ):
        failed: ThreeGateError | None = None
        try:
            try:
                yield from _begun(ws, request_ids, rules, (lane, machines), under_way, stop=stop)
            except (
                ThreeGateError
            ) as exc:  # raised after the started runs are stored: another policy, say
                failed = exc
            while under_way:
                yield from _store(ws, under_way)
        finally:
            while under_way:  # after an interrupt too: claimed runs are stored
                _store(ws, under_way)
        if failed is not None:
            raise failed


def _begun(
    ws: Workspace,
    request_ids: Sequence[str],
    rules: Rules,
    lanes: "tuple[_Lane, _Heavy]",
    under_way: deque[list[_Started]],
    *,
    stop: Callable[[], bool],
) -> Iterator[Report]:
    lane, machines = lanes
    for group in _groups(ws, request_ids):
        if isinstance(group, Report):
            yield group
            continue
        if stop():
            break
        # Before a use is spent.
        if group[0].request.backend == "monty":
            lane.prove(group[0].request.confidentiality)
        elif (refusal := machines.refusal(group[0])) is not None:
            yield Report(group[0].request_id, None, refusal)
            continue
        if stop():  # proving may boot a machine, for minutes
            break
        claimed, refused = _claim(ws, group, rules)
        starts = {"monty": lane.start, "era": machines.start}
        under_way.append([starts[item.request.backend](item) for item in claimed])
        yield from refused
        if len(under_way) > 1:
            yield from _store(ws, under_way)


def _groups(ws: Workspace, request_ids: Iterable[str]) -> Iterator[list[Ready] | Report]:
    """Yield groups that can be claimed together: of one level, bounded in number and bytes."""
    approvals = approvals_by_request(ws.store)
    group: list[Ready] = []
    size = 0
    for request_id in request_ids:
        try:
            ready = make_ready(ws, request_id, approvals)
        except ThreeGateError as exc:
            void_if_refused(ws, request_id, approvals.get(request_id, ()), exc)
            yield Report(request_id, None, exc)
            continue
        if group and not _fits(group, size, ready):
            yield group
            group, size = [], 0
        group.append(ready)
        size += _input_bytes(ready)
    if group:
        yield group


def _input_bytes(ready: Ready) -> int:
    return sum(len(document) for _, document in ready.inputs)


def _fits(group: Sequence[Ready], size: int, ready: Ready) -> bool:
    same = ready.request.confidentiality == group[0].request.confidentiality
    if "era" in (ready.request.backend, group[0].request.backend):
        return False  # one machine at a time, each proved for its own request
    return same and len(group) < GROUP and size + _input_bytes(ready) <= GROUP_INPUT_BYTES


def _claim(ws: Workspace, group: Sequence[Ready], rules: Rules) -> tuple[list[Ready], list[Report]]:
    reserve = ws.bundle.integer("handoff", "reserve_bytes")
    limits = [item.request.limits for item in group]
    most = max(one.output_bytes + one.disk_bytes for one in limits)
    each = max(RESULT_BYTES + most, -(-reserve // len(group)))

    def check() -> None:
        rules.refuse_changed()
        _refuse_full(ws, group)

    refused = claim_group(ws.store, [item.claim for item in group], reserve_bytes=each, check=check)
    gone = {item.request_id: item.error for item in refused}
    reports = [Report(request_id, None, error) for request_id, error in gone.items()]
    return [item for item in group if item.request_id not in gone], reports


def _refuse_full(ws: Workspace, group: Sequence[Ready]) -> None:
    """Raise `QuotaExceeded` unless there is room for the results, which are stored in any case."""
    journal = ws.store.journal
    planned = journal.usage.copy()
    for item in group:
        size = item.request.limits.output_bytes + item.request.limits.disk_bytes
        for directory in LEFT_IN:
            planned.add(directory, files=1, size=size)
    planned.refuse_over(journal.quotas, than=journal.usage)


def _store(ws: Workspace, under_way: deque[list[_Started]]) -> list[Report]:
    """Wait for the oldest group, and store its results in as few changes as possible.

    An unexpected error is raised after everything else is stored.
    """
    # The group stays in the queue while we wait: most interrupts arrive here.
    # One wait for all: waking for each would take the processor from the sandboxes.
    answers: list[Future[Any]] = [item.answer for item in under_way[0]]
    wait(answers)
    ended = [_ended(ws, item) for item in under_way[0]]
    under_way.popleft()
    finish_group(ws.store, [end for end, _ in ended])
    for _, told in ended:
        if not isinstance(told, Report):
            raise told
    return [told for _, told in ended if isinstance(told, Report)]


def _ended(ws: Workspace, item: _Started) -> tuple[End, Report | Exception]:
    """Wait for a run; return the end of its claim, and its report or error."""
    ready = item.ready
    held = End(ready.request_id, "held", [])  # without an answer a human decides again
    try:
        made, acts = _made(ws, ready, item.answer.result())
    except ThreeGateError as exc:  # no sandbox could be started
        return held, Report(ready.request_id, None, exc)
    except Exception as exc:  # noqa: BLE001  # raised again once the others are stored
        return held, exc
    # If the sandbox refused it, because the approval ended in the queue, a human decides again.
    # The use stays spent: the claim is durable before anything starts, so no crash grants a use.
    end = ready.end(acts, held=made.result.exit in DID_NOT_BEGIN)
    return end, Report(ready.request_id, made)


def _made(
    ws: Workspace, ready: Ready, answer: _Answer | HeavyAnswer
) -> tuple[MadeResult, list[Act]]:
    ran, ids = answer.ran, (ready.request_id, ready.approval_id)
    cpu_ms = ran.cpu_ms if isinstance(ran, HeavyRun) else None
    measured = Measured(answer.started, ran.wall_ms, ran.peak_memory_bytes, cpu_ms)
    refused = ran.refused
    passed = answer.passed if isinstance(answer, HeavyAnswer) else None
    try:
        ring = _ring(ws, ready.request)
        made = make_result(
            ready.request, ids, ran.outcome, measured, answer.box, ring=ring, passed=passed
        )
    except ArtifactRejected:
        made = make_result(
            ready.request, ids, LiteOutcome("crashed"), measured, answer.box, passed=passed
        )
    acts = made.acts()
    if refused is not None:
        raw = refused.open_for_validation()[:MAX_RUBBISH_BYTES]
        name = sha256_hex(raw)
        acts.append(Put(states.QUARANTINE, f"{name}.bytes", raw))
        acts.append(Put(states.QUARANTINE, f"{name}.why.json", why_file(_NOT_AN_ANSWER, ws.now())))
    return made, acts


def _ring(ws: Workspace, request: ToolRequest) -> ExecutorProfile | None:
    try:
        return ring_for(ws.bundle, request)
    except ProfileRejected:  # its gate refused it as well, and nothing ran
        return None


class _Lane:
    """The sandboxes of the lite lane, and the threads that wait for their answers."""

    def __init__(
        self,
        ws: Workspace,
        rules: Rules,
        boxes: int,
        opened: Callable[[Bundle], SomeBoxes] | None = None,
    ) -> None:
        self._ws, self._rules = ws, rules
        self._idle: SimpleQueue[SomeBoxes] = SimpleQueue()
        self._all = [(opened or Boxes)(ws.bundle) for _ in range(max(1, boxes))]
        for item in self._all:
            self._idle.put(item)
        self._proven: set[str] = set()
        self._threads = ThreadPoolExecutor(len(self._all), "lite")

    def prove(self, confidentiality: str) -> None:
        """Raise `GateUnavailable` unless a sandbox for this level starts; the others start too."""
        if confidentiality in self._proven:
            return
        for _ in self._all[1:]:
            # A sandbox that cannot start reports it to its first job.
            self._threads.submit(self._open, confidentiality)
        self._open(confidentiality)
        self._proven.add(confidentiality)

    def _open(self, confidentiality: str) -> None:
        boxes = self._idle.get()
        try:
            boxes.box(confidentiality)
        finally:
            self._idle.put(boxes)

    def start(self, ready: Ready) -> _Started:
        """Hand a claimed request to the next free sandbox."""
        return _Started(ready, self._threads.submit(self._run, ready))

    def _run(self, ready: Ready) -> _Answer:
        boxes = self._idle.get()
        try:
            for _ in range(MAX_TRIES):
                self._rules.refuse_stopped()
                box = boxes.box(ready.request.confidentiality)
                started = self._ws.now()
                with self._rules.running(box.kill) as run:
                    ran = box.run(job_of(ready), wall_ms=ready.request.limits.wall_ms)
                if ran.sent:
                    return _Answer(started, run.judged(ran), box.box)
            raise GateUnavailable("sandboxes of the lite lane end before they are given a job")
        finally:
            self._idle.put(boxes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        for boxes in self._all:
            boxes.close()


class _Heavy:
    """The heavy lane, opened when the first request for it comes; one machine at a time."""

    def __init__(self, ws: Workspace, rules: Rules, open_lane: Callable[[], Lane] | None) -> None:
        self._ws, self._rules, self._open = ws, rules, open_lane
        self._lane: Lane | None = None
        self._threads = ThreadPoolExecutor(1, "heavy")

    def refusal(self, ready: Ready) -> ThreeGateError | None:
        """Return why no machine serves a request, or None once one has answered."""
        try:
            if self._open is None:
                return GateUnavailable("there is no era lane here", code=NO_LANE)
            self._lane = self._lane or self._open()
            self._lane.prove(ready)
        except (GateUnavailable, StorageFailed) as exc:  # no engine, or no room for its files
            return exc
        return None

    def start(self, ready: Ready) -> _Started:
        """Hand a claimed request to the lane."""
        lane = self._lane
        assert lane is not None
        return _Started(ready, self._threads.submit(self._run, lane, ready, self._ws.now()))

    def _run(self, lane: Lane, ready: Ready, started: str) -> HeavyAnswer:
        with self._rules.running(lane.stop) as run:
            answer = lane.run(ready, started)
        return replace(answer, ran=run.judged(answer.ran))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        if self._lane is not None:
            self._lane.close()
