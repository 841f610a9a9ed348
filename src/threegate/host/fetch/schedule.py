"""Who asks whom, when: a lane for each host rule, as many askers in it as the rule allows.

An asker is a thread with one box for the host it asked last.  Before each question it waits
for its turn, politely where that is short, and spends from the budgets that all workspaces of
the user share.  Different hosts are asked at the same time.
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
from threegate.host.fetch.pace import (
    LONGEST_WAIT_SECONDS,
    MAX_TRIES,
    Bucket,
    jitter,
    rate_told,
    wait_before_again,
)
from threegate.host.fetch.retrieve_pool import Asker, failed
from threegate.host.fetch.rules import ALL_HOSTS, Rule, left_for, rule_for
from threegate.host.gate_profiles import named_failure
from threegate.policy.bundle import Bundle
from threegate.policy.hosts import parse_url

IDLE_SECONDS: Final = 2.0  # after which an asker gives its connection back
TOLD_SECONDS: Final = 1.0  # a wait shorter than this is not worth telling
MIB: Final = 2**20
NO_RULE: Final = "TG-FET-069"
GIVEN_UP: Final = "TG-FET-078"
MOST_IN_VAIN: Final = 5  # questions in a row, each asked as often as any; then the host is let be
_WANTS_PATIENCE: Final = (429, 503)  # what `Retry-After` is about the host with, not the URL

Key = tuple[int, int]  # which item, and which of its questions


@dataclass(frozen=True, slots=True)
class Errand:
    """One question on its way to a host."""

    key: Key
    host: str
    ask: FetchQuestion
    level: str  # of confidentiality: boxes meet one only


@dataclass(frozen=True, slots=True)
class Asking:
    """A question goes out now."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question waits: for a rate, for a budget, for a host that asked for patience."""

    errand: Errand
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """A question came to an end; None: it never left."""

    errand: Errand
    answer: Got | NotGot | None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """No box can be had: nothing more can be asked."""

    error: Exception


Told = Asking | Waiting | Done | Broken
OpenBox = Callable[[Errand], Asker]


class Lanes:
    """All askers of a run.  `tell` is called from their threads."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        open_box: OpenBox,
        budgets: Budgets,
        tell: Callable[[Told], None],
        wait: Callable[[float], float | None] | None = None,
    ) -> None:
        """`wait` returns the seconds left if the rules changed meanwhile, None at a stop."""
        self._bundle, self._generation = bundle, 0
        self._open_box, self._budgets, self._tell = open_box, budgets, tell
        self._lanes: dict[str, _Lane] = {}
        self._answered, self._carried = Counter[str](), Counter[str]()  # bytes of each host
        self.was_online = False  # whether any server answered so far
        self._stop, self._news = threading.Event(), threading.Condition()
        self._wait = wait or self._sleep

    def submit(self, errand: Errand) -> None:
        """Hand over a question; what becomes of it is told."""
        rule = rule_for(self._bundle, errand.host)
        if rule is None:
            answer = failed(NO_RULE, "no rule names this host", reason="denied")
            self._tell(Done(errand, answer))
            return
        lane = self._lanes.get(rule.pattern)
        if lane is None:
            lane = self._lanes[rule.pattern] = _Lane(
                self, rule.pattern, Bucket(rule.rate_per_minute)
            )
        lane.put(errand, rule.concurrency)

    def reload(self, bundle: Bundle) -> None:
        """Ask under other rules from now on; boxes that know the old ones end."""
        with self._news:
            self._bundle = bundle
            self._generation += 1
            self._news.notify_all()

    def stop(self) -> None:
        """Ask nothing more; what is on its way comes to its end."""
        self._stop.set()
        with self._news:
            self._news.notify_all()
        for lane in list(self._lanes.values()):
            lane.wake()

    def close(self, *, within_seconds: float | None = None) -> bool:
        """Stop, and return when every box has ended; False if that took too long."""
        self.stop()
        end = None if within_seconds is None else time.monotonic() + within_seconds
        return all(lane.join(end) for lane in list(self._lanes.values()))

    # -- in the threads ------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Return which rules hold."""
        return self._generation

    @property
    def stopped(self) -> bool:
        """Tell whether nothing more is asked."""
        return self._stop.is_set()

    def open_box(self, errand: Errand) -> Asker:
        """Start a box for a question."""
        return self._open_box(errand)

    def tell(self, told: Told) -> None:
        """Say what happens."""
        self._tell(told)

    def _sleep(self, seconds: float) -> float | None:
        """Wait, but not longer than the rules hold; return what is left, None at a stop."""
        end, rules = time.monotonic() + seconds, self._generation
        with self._news:
            while not self.stopped and (left := end - time.monotonic()) > 0:
                if self._generation != rules:
                    return left
                self._news.wait(left)
        return None if self.stopped else 0.0

    def granted(self, lane: "_Lane", errand: Errand, why: str) -> FetchQuestion | NotGot | None:
        """Wait for a turn and spend it; return the question as it may be asked.

        None if the run was stopped, a refusal if no waiting that is worth it helps.
        """
        if lane.in_vain >= MOST_IN_VAIN:
            words = f"{errand.host} had no answer to {lane.in_vain} questions in a row, asked again"
            return failed(GIVEN_UP, words)
        left: float | None = lane.bucket.take()
        while left is not None and not self.stopped:
            rule = rule_for(self._bundle, errand.host)
            if rule is None:
                return failed(NO_RULE, "no rule names this host any more", reason="denied")
            if left > LONGEST_WAIT_SECONDS:
                return failed(OVER_RATE, f"{errand.host} may be asked later", reason="denied")
            if left >= TOLD_SECONDS:
                self._tell(Waiting(errand, left, why))
            if left:
                left = self._wait(left)
                continue
            try:
                return self._spend(rule, errand)
            except RateSpent as exc:
                never = LONGEST_WAIT_SECONDS + 1
                left = never if exc.wait_seconds is None else float(exc.wait_seconds)
            except PolicyDenied as exc:
                return failed(exc.code, exc.message, reason="denied")
        return None

    def _spend(self, rule: Rule, errand: Errand) -> FetchQuestion:
        room = left_for(self._budgets, self._bundle, rule).bytes
        if room < 1:
            detail = f"the bytes of today from {rule.pattern}, or from all hosts, are used up"
            raise PolicyDenied(detail, code=OVER_BYTES)
        self._budgets.spend(
            rule.budget,
            requests=1,
            rate_per_minute=rule.rate_per_minute,
            bytes_per_day=rule.bytes_per_day,
        )
        most = min(errand.ask.most_bytes, rule.response_bytes, room)
        return replace(errand.ask, most_bytes=most)

    def charge(self, answer: Got | NotGot) -> None:
        """Record that a server answered, and what the answer weighed."""
        self.was_online = self.was_online or answer.status is not None
        if isinstance(answer, Got):
            self._charge(self._answered, parse_url(answer.url).host, len(answer.body))

    def carried(self, host: str, size: int) -> None:
        """Record what came through a tunnel, as the proxy counted it.

        A server that breaks off, and a box that is silent about what it got, cost as much as
        an answer.  The proxy may be owned as well: no tunnel carries more than twice an answer.
        """
        rule = rule_for(self._bundle, host)
        if rule is not None:
            self._charge(self._carried, host, min(size, 2 * rule.response_bytes + MIB))

    def _charge(self, counted: Counter[str], host: str, size: int) -> None:
        """Count bytes, and charge what neither count had before: both see the same bytes."""
        with self._news:
            before = max(self._answered[host], self._carried[host])
            counted[host] += size
            more = max(self._answered[host], self._carried[host]) - before
        rule = rule_for(self._bundle, host)
        if more:
            for name in (ALL_HOSTS, *([rule.budget] if rule is not None else [])):
                self._budgets.charge(name, more)


class _Lane:
    """The askers of one rule."""

    def __init__(self, lanes: Lanes, name: str, bucket: Bucket) -> None:
        self.bucket = bucket
        self._lanes, self._name = lanes, name
        self._waiting: deque[Errand] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        # Each costs minutes where a host asks for patience every time, and all would wait for it.
        self.in_vain = 0
        self._threads: list[threading.Thread] = []

    def put(self, errand: Errand, askers: int) -> None:
        """Take a question, with one asker more if all are busy and there may be more."""
        with self._changed:
            self._waiting.append(errand)
            if self._idle < len(self._waiting) and len(self._threads) < askers:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def ended(self, answer: Got | NotGot, tries: int) -> None:
        """Take how a question ended; a host that wants to be left alone is, by all questions."""
        refused = answer if isinstance(answer, NotGot) else None
        self.in_vain = self.in_vain + 1 if refused is not None and tries >= MAX_TRIES else 0
        if refused is not None and refused.status in _WANTS_PATIENCE:
            self.bucket.pause(refused.retry_after or 0)

    def wake(self) -> None:
        """Let every asker look up."""
        with self._changed:
            self._changed.notify_all()

    def join(self, end: float | None) -> bool:
        """Return whether every asker has ended, at `end` at the latest."""
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        asker = _Asker(self._lanes, self)
        try:
            while (errand := self._next(asker)) is not None:
                self._lanes.tell(asker.carry_out(errand))
        except Exception as exc:  # noqa: BLE001  # whoever started the run raises it
            self._lanes.tell(Broken(named_failure(exc)))
        finally:
            asker.drop()

    def _next(self, asker: "_Asker") -> Errand | None:
        """Return the next question, None at the end; without one the connection is given back."""
        while True:
            with self._changed:
                self._idle += 1
                if not self._waiting and not self._lanes.stopped:
                    self._changed.wait(IDLE_SECONDS)
                self._idle -= 1
                if self._waiting:
                    return self._waiting.popleft()
                if self._lanes.stopped:
                    return None
            asker.drop()


class _Asker:
    """One thread's box, for the host and the level it was last used for."""

    def __init__(self, lanes: Lanes, lane: _Lane) -> None:
        self._lanes, self._lane = lanes, lane
        self._box: Asker | None = None
        self._for: tuple[str, str, int] | None = None

    def carry_out(self, errand: Errand) -> Done:
        """Ask, again where that makes sense, and return what came of it."""
        tries, why = 0, "its turn"
        answer: Got | NotGot | None = None
        while True:
            granted = self._lanes.granted(self._lane, errand, why)
            if granted is None or isinstance(granted, NotGot):
                return Done(errand, answer or granted, tries)
            tries += 1
            self._lanes.tell(Asking(errand))
            answer = self._box_for(errand).ask(granted)
            self._lanes.charge(answer)
            if isinstance(answer, Got):
                self._lane.bucket.heed(rate_told(answer.limits))
            online = self._lanes.was_online
            wait = wait_before_again(answer, tries, jitter, was_online=online)
            if wait is None:
                self._lane.ended(answer, tries)
                return Done(errand, answer, tries)
            assert isinstance(answer, NotGot)
            self._lane.bucket.pause(wait)  # for everybody who asks there
            why = "it is busy" if answer.status is not None else "it did not answer"

    def drop(self) -> None:
        """End the box there is."""
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def _box_for(self, errand: Errand) -> Asker:
        wanted = (errand.host, errand.level, self._lanes.generation)
        if self._box is not None and (self._for != wanted or not self._box.usable):
            self.drop()
        if self._box is None:
            self._box, self._for = self._lanes.open_box(errand), wanted
        return self._box
