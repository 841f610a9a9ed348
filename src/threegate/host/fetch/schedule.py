"""Queues of questions by host rule: how many are asked at once, and when.

A worker is a thread with one sandbox for the host it asked last.  Before each question it waits for
the rate of the host and spends from the budgets that all workspaces of the user share.  Different
hosts are asked at the same time.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.gates.fetch.retrieve.messages import FetchQuestion, Got, NotGot
from threegate.host.fetch.budgets import OVER_BYTES, OVER_RATE, Budgets, RateSpent
from threegate.host.fetch.host_rules import (
    ALL_HOSTS,
    LONGEST_WAIT_SECONDS,
    MAX_TRIES,
    HostLimits,
    RateBucket,
    jitter,
    left_for,
    rule_for,
    stated_rate,
    wait_before_again,
)
from threegate.host.fetch.retrieve_pool import Asker, failed
from threegate.host.gate_profiles import named_failure
from threegate.policy.bundle import Bundle
from threegate.policy.hosts import parse_url

IDLE_SECONDS: Final = 2.0  # after which a worker closes its connection
TOLD_SECONDS: Final = 1.0  # shorter waits are not reported
MIB: Final = 2**20
NO_RULE: Final = "TG-FET-069"
GIVEN_UP: Final = "TG-FET-078"
MOST_UNANSWERED: Final = 5  # questions in a row, each with all its tries; then the host is given up
_BUSY_HOST: Final = (429, 503)  # with these `Retry-After` applies to the host, not the URL

Key = tuple[int, int]  # number of the item, and of its question


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One question to a host."""

    key: Key
    host: str
    ask: FetchQuestion
    level: str  # of confidentiality: a sandbox handles one level only


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A question is being asked."""

    task: FetchTask


@dataclass(frozen=True, slots=True)
class TaskWaiting:
    """A question waits for a rate, a budget or a busy host."""

    task: FetchTask
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A question ended; None if it was never asked."""

    task: FetchTask
    answer: Got | NotGot | None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleBroken:
    """No sandbox can be started: nothing more can be asked."""

    error: Exception


ScheduleEvent = TaskStarted | TaskWaiting | TaskDone | ScheduleBroken
OpenBox = Callable[[FetchTask], Asker]


class HostQueues:
    """All queues of a run.  `tell` is called from their threads."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        open_box: OpenBox,
        budgets: Budgets,
        tell: Callable[[ScheduleEvent], None],
        wait: Callable[[float], float | None] | None = None,
    ) -> None:
        """`wait` returns the seconds left if the rules changed meanwhile, None at a stop."""
        self._bundle, self._generation = bundle, 0
        self._open_box, self._budgets, self._tell = open_box, budgets, tell
        self._queues: dict[str, _HostQueue] = {}
        self._answered, self._carried = Counter[str](), Counter[str]()  # bytes of each host
        self.was_online = False  # whether any server answered so far
        self._stop, self._news = threading.Event(), threading.Condition()
        self._wait = wait or self._sleep

    def submit(self, task: FetchTask) -> None:
        """Queue a question; its result comes as an event."""
        rule = rule_for(self._bundle, task.host)
        if rule is None:
            answer = failed(NO_RULE, "no rule names this host", reason="denied")
            self._tell(TaskDone(task, answer))
            return
        queue = self._queues.get(rule.pattern)
        if queue is None:
            queue = self._queues[rule.pattern] = _HostQueue(
                self, rule.pattern, RateBucket(rule.rate_per_minute)
            )
        queue.put(task, rule.concurrency)

    def reload(self, bundle: Bundle) -> None:
        """FetchQuestion under other rules from now on; sandboxes with the old ones end."""
        with self._news:
            self._bundle = bundle
            self._generation += 1
            self._news.notify_all()

    def stop(self) -> None:
        """FetchQuestion nothing more; questions under way are completed."""
        self._stop.set()
        with self._news:
            self._news.notify_all()
        for queue in list(self._queues.values()):
            queue.wake()

    def close(self, *, within_seconds: float | None = None) -> bool:
        """Stop, and return when every sandbox has ended; False if that took too long."""
        self.stop()
        end = None if within_seconds is None else time.monotonic() + within_seconds
        return all(queue.join(end) for queue in list(self._queues.values()))

    # -- in the threads ------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Return the number of the present rules."""
        return self._generation

    @property
    def stopped(self) -> bool:
        """Tell whether the run was stopped."""
        return self._stop.is_set()

    def open_box(self, task: FetchTask) -> Asker:
        """Start a sandbox for a question."""
        return self._open_box(task)

    def tell(self, told: ScheduleEvent) -> None:
        """Send an event."""
        self._tell(told)

    def _sleep(self, seconds: float) -> float | None:
        """Wait until the time is over or the rules change; return the rest, None at a stop."""
        end, rules = time.monotonic() + seconds, self._generation
        with self._news:
            while not self.stopped and (left := end - time.monotonic()) > 0:
                if self._generation != rules:
                    return left
                self._news.wait(left)
        return None if self.stopped else 0.0

    def granted(
        self, queue: "_HostQueue", task: FetchTask, why: str
    ) -> FetchQuestion | NotGot | None:
        """Wait for a turn and spend it; return the question with its byte limit.

        None if the run was stopped, a refusal if a reasonable wait does not help.
        """
        if queue.unanswered >= MOST_UNANSWERED:
            words = f"{task.host} did not answer {queue.unanswered} questions in a row"
            return failed(GIVEN_UP, words)
        left: float | None = queue.bucket.take()
        while left is not None and not self.stopped:
            rule = rule_for(self._bundle, task.host)
            if rule is None:
                return failed(NO_RULE, "no rule names this host now", reason="denied")
            if left > LONGEST_WAIT_SECONDS:
                return failed(OVER_RATE, f"{task.host} may be asked later", reason="denied")
            if left >= TOLD_SECONDS:
                self._tell(TaskWaiting(task, left, why))
            if left:
                left = self._wait(left)
                continue
            try:
                return self._spend(rule, task)
            except RateSpent as exc:
                never = LONGEST_WAIT_SECONDS + 1
                left = never if exc.wait_seconds is None else float(exc.wait_seconds)
            except PolicyDenied as exc:
                return failed(exc.code, exc.message, reason="denied")
        return None

    def _spend(self, rule: HostLimits, task: FetchTask) -> FetchQuestion:
        room = left_for(self._budgets, self._bundle, rule).bytes
        if room < 1:
            detail = f"today's bytes from {rule.pattern}, or from all hosts, are used up"
            raise PolicyDenied(detail, code=OVER_BYTES)
        self._budgets.spend(
            rule.budget,
            requests=1,
            rate_per_minute=rule.rate_per_minute,
            bytes_per_day=rule.bytes_per_day,
        )
        most = min(task.ask.most_bytes, rule.response_bytes, room)
        return replace(task.ask, most_bytes=most)

    def charge(self, answer: Got | NotGot) -> None:
        """Record that a server answered, and charge the size of the answer."""
        self.was_online = self.was_online or answer.status is not None
        if isinstance(answer, Got):
            self._charge(self._answered, parse_url(answer.url).host, len(answer.body))

    def carried(self, host: str, size: int) -> None:
        """Charge the bytes that the proxy counted in a tunnel.

        An aborted answer, or one that a sandbox conceals, costs as much as a complete one.  The
        proxy may be compromised too: no tunnel is charged more than twice an answer.
        """
        rule = rule_for(self._bundle, host)
        if rule is not None:
            self._charge(self._carried, host, min(size, 2 * rule.response_bytes + MIB))

    def _charge(self, counted: Counter[str], host: str, size: int) -> None:
        """Count bytes, and charge those that neither count had before: both see the same bytes."""
        with self._news:
            before = max(self._answered[host], self._carried[host])
            counted[host] += size
            more = max(self._answered[host], self._carried[host]) - before
        rule = rule_for(self._bundle, host)
        if more:
            for name in (ALL_HOSTS, *([rule.budget] if rule is not None else [])):
                self._budgets.charge(name, more)


class _HostQueue:
    """The queue and the workers of one host rule."""

    def __init__(self, queues: HostQueues, name: str, bucket: RateBucket) -> None:
        self.bucket = bucket
        self._queues, self._name = queues, name
        self._waiting: deque[FetchTask] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        # Each may cost minutes if the host is always busy, and all others would wait for it.
        self.unanswered = 0
        self._threads: list[threading.Thread] = []

    def put(self, task: FetchTask, workers: int) -> None:
        """Queue a question; start another worker if all are busy and the rule allows it."""
        with self._changed:
            self._waiting.append(task)
            if self._idle < len(self._waiting) and len(self._threads) < workers:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def ended(self, answer: Got | NotGot, tries: int) -> None:
        """Note the end of a question; a busy host pauses the whole queue."""
        refused = answer if isinstance(answer, NotGot) else None
        self.unanswered = self.unanswered + 1 if refused is not None and tries >= MAX_TRIES else 0
        if refused is not None and refused.status in _BUSY_HOST:
            self.bucket.pause(refused.retry_after or 0)

    def wake(self) -> None:
        """Wake every worker."""
        with self._changed:
            self._changed.notify_all()

    def join(self, end: float | None) -> bool:
        """Tell whether every worker has ended, by `end` at the latest."""
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        worker = _HostWorker(self._queues, self)
        try:
            while (task := self._next(worker)) is not None:
                self._queues.tell(worker.complete(task))
        except Exception as exc:  # noqa: BLE001  # the run raises it
            self._queues.tell(ScheduleBroken(named_failure(exc)))
        finally:
            worker.drop()

    def _next(self, worker: "_HostWorker") -> FetchTask | None:
        """Return the next question, None at the end; an idle worker closes its connection."""
        while True:
            with self._changed:
                self._idle += 1
                if not self._waiting and not self._queues.stopped:
                    self._changed.wait(IDLE_SECONDS)
                self._idle -= 1
                if self._waiting:
                    return self._waiting.popleft()
                if self._queues.stopped:
                    return None
            worker.drop()


class _HostWorker:
    """The sandbox of one thread, for its last host and level."""

    def __init__(self, queues: HostQueues, queue: _HostQueue) -> None:
        self._queues, self._queue = queues, queue
        self._box: Asker | None = None
        self._for: tuple[str, str, int] | None = None

    def complete(self, task: FetchTask) -> TaskDone:
        """FetchQuestion, with retries where they make sense, and return the result."""
        tries, why = 0, "its turn"
        answer: Got | NotGot | None = None
        while True:
            granted = self._queues.granted(self._queue, task, why)
            if granted is None or isinstance(granted, NotGot):
                return TaskDone(task, answer or granted, tries)
            tries += 1
            self._queues.tell(TaskStarted(task))
            answer = self._box_for(task).ask(granted)
            self._queues.charge(answer)
            if isinstance(answer, Got):
                self._queue.bucket.heed(stated_rate(answer.limits))
            online = self._queues.was_online
            wait = wait_before_again(answer, tries, jitter, was_online=online)
            if wait is None:
                self._queue.ended(answer, tries)
                return TaskDone(task, answer, tries)
            assert isinstance(answer, NotGot)
            self._queue.bucket.pause(wait)  # for all questions to this host
            why = "it is busy" if answer.status is not None else "it did not answer"

    def drop(self) -> None:
        """End the sandbox, if there is one."""
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def _box_for(self, task: FetchTask) -> Asker:
        wanted = (task.host, task.level, self._queues.generation)
        if self._box is not None and (self._for != wanted or not self._box.usable):
            self.drop()
        if self._box is None:
            self._box, self._for = self._queues.open_box(task), wanted
        return self._box
