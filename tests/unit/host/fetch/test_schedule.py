"""Who is asked when: never more at once, more often or for more than the rule says."""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.support.fetches import got
from tests.support.policies import policy
from tests.support.proxies import without
from tests.support.workspaces import Clock
from threegate.base.errors import GateUnavailable
from threegate.gates.fetch.retrieve.messages import FetchQuestion, Got, NotGot
from threegate.host.fetch.budgets import Budgets
from threegate.host.fetch.host_rules import MAX_TRIES, NO_NETWORK
from threegate.host.fetch.schedule import (
    MOST_UNANSWERED,
    FetchTask,
    HostQueues,
    ScheduleBroken,
    ScheduleEvent,
    TaskDone,
    TaskStarted,
    TaskWaiting,
)
from threegate.policy.bundle import Bundle

CROSSREF = "api.crossref.org"
OPENALEX = "api.openalex.org"  # two connections
SECONDS = 20.0


def bundle(old: str = "", new: str = "") -> Bundle:
    return (policy(fetch=(old, new)) if old else policy()).bundle()


def task(
    number: int, host: str = CROSSREF, *, level: str = "public", most: int = 1000
) -> FetchTask:
    return FetchTask(
        (number, 0), host, FetchQuestion(f"https://{host}/{number}", "*/*", most), level
    )


Answering = Callable[[FetchTask, FetchQuestion], Got | NotGot]


@dataclass
class Box:
    """An asker that answers as it was told to."""

    world: "World"
    opened_for: FetchTask
    usable: bool = True
    closed: bool = False

    def ask(self, ask: FetchQuestion) -> Got | NotGot:
        self.world.asked.append(ask)
        return self.world.answer(self.opened_for, ask)

    def close(self) -> None:
        self.closed = True


@dataclass
class World:
    """Boxes that were opened, what they were asked, and how time passes."""

    budgets: Budgets
    clock: Clock
    answer: Answering = lambda _, ask: got(ask.url, b"{}")
    boxes: list[Box] = field(default_factory=list)
    asked: list[FetchQuestion] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    told: "SimpleQueue[ScheduleEvent]" = field(default_factory=SimpleQueue)
    refuse: Exception | None = None

    def open_box(self, item: FetchTask) -> Box:
        if self.refuse is not None:
            raise self.refuse
        self.boxes.append(Box(self, item))
        return self.boxes[-1]

    def wait(self, seconds: float) -> float:
        self.waits.append(seconds)
        self.clock.now += int(seconds) + 1
        return 0.0

    @contextmanager
    def lanes(self, rules: Bundle, *, real_time: bool = False) -> Iterator[HostQueues]:
        wait = None if real_time else self.wait
        made = HostQueues(
            rules, open_box=self.open_box, budgets=self.budgets, tell=self.told.put, wait=wait
        )
        try:
            yield made
        finally:
            made.close()

    def done(self, count: int) -> list[TaskDone]:
        """Return the next outcomes, in the order of the items."""
        found: list[TaskDone] = []
        while len(found) < count:
            told = self.told.get(timeout=SECONDS)
            assert not isinstance(told, ScheduleBroken), told
            found += [told] if isinstance(told, TaskDone) else []
        return sorted(found, key=lambda item: item.task.key)


@pytest.fixture
def world(tmp_path: Path) -> World:
    clock = Clock()
    return World(Budgets(tmp_path / "budgets", clock), clock)


def test_a_box_serves_one_host_again_and_again(world: World) -> None:
    with world.lanes(bundle()) as lanes:
        for number in range(3):
            lanes.submit(task(number))
        answers = [item.answer for item in world.done(3)]
    assert all(isinstance(answer, Got) for answer in answers)
    assert len(world.boxes) == 1
    assert world.boxes[0].closed


def test_a_box_that_is_not_usable_any_more_is_replaced(world: World) -> None:
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        world.done(1)
        world.boxes[0].usable = False
        lanes.submit(task(1))
        world.done(1)
    assert [box.closed for box in world.boxes] == [True, True]


def test_levels_of_confidentiality_never_meet_in_a_box(world: World) -> None:
    with world.lanes(bundle()) as lanes:
        for number, level in enumerate(("public", "confidential", "confidential")):
            lanes.submit(task(number, level=level))
            world.done(1)
    assert [box.opened_for.level for box in world.boxes] == ["public", "confidential"]


# claim TG-C-128
def test_a_rule_allows_so_many_at_a_time_and_hosts_do_not_wait_for_each_other(
    world: World,
) -> None:
    active: dict[str, int] = {}
    most: dict[str, int] = {}
    changed = threading.Condition()
    together = threading.Event()

    def answer(item: FetchTask, ask: FetchQuestion) -> Got:
        with changed:
            active[item.host] = active.get(item.host, 0) + 1
            most[item.host] = max(most.get(item.host, 0), active[item.host])
            if active == {CROSSREF: 1, OPENALEX: 2}:
                together.set()  # nobody gets an answer before all three are at it
        assert together.wait(SECONDS)
        with changed:
            active[item.host] -= 1
        return got(ask.url, b"{}")

    world.answer = answer
    with world.lanes(bundle()) as lanes:
        for number in range(4):
            lanes.submit(task(number, CROSSREF))
            lanes.submit(task(number + 10, OPENALEX))
        world.done(8)
    assert most == {CROSSREF: 1, OPENALEX: 2}


# claim TG-C-128
def test_runs_share_one_rate(world: World, tmp_path: Path) -> None:
    rules = bundle("rate_per_minute: 240", "rate_per_minute: 3")
    start = world.clock.now
    waits: list[list[float]] = []
    for number in range(4):  # four commands, each new to its host
        each = World(Budgets(tmp_path / "budgets", world.clock), world.clock)
        with each.lanes(rules) as lanes:
            lanes.submit(task(number))
            (done,) = each.done(1)
        assert isinstance(done.answer, Got), "all are asked in the end"
        waits.append(each.waits)
    assert waits[:3] == [[], [], []], "control: three in one minute"
    assert waits[3] == [60], "the fourth waits until the first is a minute old"
    assert world.clock.now - start >= 60


# claim TG-C-128
def test_bytes_of_a_day_are_an_end(world: World) -> None:
    rules = bundle("bytes_per_day: 512MiB", "bytes_per_day: 1000")
    world.answer = lambda _, ask: got(ask.url, b"x" * min(900, ask.most_bytes))
    with world.lanes(rules) as lanes:
        lanes.submit(task(0))
        lanes.submit(task(1))
        lanes.submit(task(2))
        first, second, third = world.done(3)
    assert [ask.most_bytes for ask in world.asked] == [1000, 100], "what is left, and no more"
    assert isinstance(first.answer, Got)
    assert isinstance(second.answer, Got)
    assert isinstance(third.answer, NotGot)
    assert (third.answer.code, third.answer.reason) == ("TG-BUD-002", "denied")
    world.clock.now += 86_400
    with world.lanes(rules) as lanes:
        lanes.submit(task(3))
        (tomorrow,) = world.done(1)
    assert isinstance(tomorrow.answer, Got), "control: another day, another budget"


# claim TG-C-128
def test_bytes_that_came_to_nothing_count_like_those_of_an_answer(world: World) -> None:
    """A server that breaks off is asked again, and could send any amount that way."""
    rules = bundle("bytes_per_day: 512MiB", "bytes_per_day: 1000")
    cut = NotGot("TG-FET-016", "failed", "less than was announced", None, ())
    with world.lanes(rules) as lanes:

        def broken_off(_: FetchTask, ask: FetchQuestion) -> NotGot:
            lanes.carried(CROSSREF, ask.most_bytes)
            return cut

        world.answer = broken_off
        lanes.submit(task(0, most=600))
        lanes.submit(task(1, most=600))
        world.done(2)
        assert [ask.most_bytes for ask in world.asked] == [600, 400], "and then no more"
        world.answer = lambda _, ask: got(ask.url, b"x" * 600)
        lanes.submit(task(2, OPENALEX, most=600))
        world.done(1)
        lanes.carried(OPENALEX, 600)
    left = world.budgets.left(OPENALEX, rate_per_minute=1, bytes_per_day=1000)
    assert left.bytes == 400, "control: what an answer was charged with is not charged again"


def test_a_proxy_that_counts_wildly_spends_no_more_than_a_tunnel_carries(world: World) -> None:
    """A budget is of the user: what stands in it must not outlive the day, or be past reading."""
    rules = bundle("response_bytes: 16MiB", "response_bytes: 1MiB")
    with world.lanes(rules) as lanes:
        lanes.carried(CROSSREF, 2**53 - 1)
        lanes.carried("nobody.example", 2**53 - 1)
    for name in (CROSSREF, "_all"):
        left = world.budgets.left(name, rate_per_minute=1, bytes_per_day=2**30)
        assert left.bytes == 2**30 - 3 * 2**20


def test_all_hosts_together_have_a_budget(world: World) -> None:
    rules = bundle("bytes_per_day: 4GiB", "bytes_per_day: 1000")
    world.answer = lambda _, ask: got(ask.url, b"x" * min(1000, ask.most_bytes))
    with world.lanes(rules) as lanes:
        lanes.submit(task(0, CROSSREF))
        world.done(1)
        lanes.submit(task(1, OPENALEX))
        (second,) = world.done(1)
    assert isinstance(second.answer, NotGot)
    assert second.answer.code == "TG-BUD-002"


def busy(after: int | None) -> NotGot:
    return NotGot("TG-FET-019", "failed", "too many requests", None, (), after, 429)


# claim TG-C-128
def test_a_host_that_asks_for_patience_gets_it(world: World) -> None:
    answers: list[NotGot | None] = [busy(100), None]

    def answer(_: FetchTask, ask: FetchQuestion) -> Got | NotGot:
        return answers.pop(0) or got(ask.url, b"{}")

    world.answer = answer
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        told: list[ScheduleEvent] = []
        while not told or not isinstance(told[-1], TaskDone):
            told.append(world.told.get(timeout=SECONDS))
    assert isinstance(told[-1], TaskDone)
    assert (told[-1].tries, type(told[-1].answer)) == (2, Got)
    assert [type(item) for item in told if isinstance(item, TaskStarted)] == [
        TaskStarted,
        TaskStarted,
    ]
    (waiting,) = [item for item in told if isinstance(item, TaskWaiting)]
    assert waiting.why == "it is busy", "and says so"
    assert world.waits == [waiting.seconds]
    assert 60 < waiting.seconds <= 100, "what is left of it; no wait of ours is that long"


def test_a_host_that_asks_for_an_hour_is_left_alone(world: World) -> None:
    world.answer = lambda _, __: busy(3_600)
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        (done,) = world.done(1)
        lanes.submit(task(1))
        lanes.submit(task(2, OPENALEX))
        later = {item.task.key[0]: item for item in world.done(2)}
    assert (done.tries, done.answer) == (1, busy(3_600))
    refused = later[1].answer
    assert isinstance(refused, NotGot), "and by every other question"
    assert (later[1].tries, refused.code) == (0, "TG-BUD-001")
    assert later[2].tries == 1, "control: another host did not ask for it"


# claim TG-C-128
def test_a_host_that_always_asks_for_patience_does_not_hold_up_a_whole_list(world: World) -> None:
    """Four tries with two minutes between them, for each question: a list would take a day."""
    world.answer = lambda _, __: busy(100)
    with world.lanes(bundle()) as lanes:
        for number in range(MOST_UNANSWERED + 20):
            lanes.submit(task(number))
        found = world.done(MOST_UNANSWERED + 20)
        asked = len(world.asked)
        world.answer = lambda _, ask: got(ask.url, b"{}")
        lanes.submit(task(99, OPENALEX))
        (control,) = world.done(1)
    codes = [item.answer.code for item in found if isinstance(item.answer, NotGot)]
    assert codes.count("TG-FET-078") >= 20 - 3, "but for what was under way already"
    assert asked <= MAX_TRIES * (MOST_UNANSWERED + 3)
    assert isinstance(control.answer, Got), "control: others are asked"


def test_a_host_that_never_recovers_is_asked_so_often_and_no_more(world: World) -> None:
    world.answer = lambda _, __: busy(None)
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        (done,) = world.done(1)
    assert (done.tries, len(world.asked)) == (4, 4)


def test_other_rules_mean_other_boxes_and_lost_hosts_are_not_asked(world: World) -> None:
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0, OPENALEX))
        world.done(1)
        lanes.reload(without(CROSSREF))
        lanes.submit(task(1, OPENALEX))
        lanes.submit(task(2, CROSSREF))
        kept, lost = world.done(2)
    assert isinstance(kept.answer, Got)
    assert len(world.boxes) == 2, "the box that knew the old rules is not asked again"
    assert isinstance(lost.answer, NotGot)
    assert (lost.answer.code, lost.answer.reason) == ("TG-FET-069", "denied")


def test_who_waits_for_a_host_hears_that_it_lost_its_rule(world: World) -> None:
    rules = bundle("rate_per_minute: 240", "rate_per_minute: 1")
    with world.lanes(rules, real_time=True) as lanes:
        lanes.submit(task(0))
        lanes.submit(task(1))  # its turn would come in a minute
        world.done(1)
        lanes.reload(without(CROSSREF))
        (second,) = world.done(1)
    assert isinstance(second.answer, NotGot)
    assert second.answer.code == "TG-FET-069"
    assert len(world.asked) == 1


def test_a_stopped_run_asks_nothing_more(world: World) -> None:
    rules = bundle("rate_per_minute: 240", "rate_per_minute: 1")
    with world.lanes(rules, real_time=True) as lanes:
        lanes.submit(task(0))
        lanes.submit(task(1))  # its turn would come in a minute
        world.done(1)
        lanes.stop()
        (second,) = world.done(1)
    assert second.answer is None
    assert len(world.asked) == 1


def test_where_no_box_can_be_had_the_run_is_told(world: World) -> None:
    world.refuse = GateUnavailable("no box here")
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        told = world.told.get(timeout=SECONDS)
        while isinstance(told, TaskStarted):
            told = world.told.get(timeout=SECONDS)
    assert told == ScheduleBroken(world.refuse)


def test_a_machine_that_has_run_out_is_no_bug(world: World) -> None:
    world.refuse = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        told = world.told.get(timeout=SECONDS)
        while not isinstance(told, ScheduleBroken):
            told = world.told.get(timeout=SECONDS)
    assert isinstance(told.error, GateUnavailable)
    assert told.error.code == "TG-BOX-041"
    assert "resource temporarily unavailable" in told.error.message


# claim TG-C-473
def test_a_network_that_is_gone_is_asked_again_only_after_an_answer(world: World) -> None:
    gone = NotGot(NO_NETWORK, "failed", "the proxy found no way: no-network", None, ())
    world.answer = lambda *_: gone
    with world.lanes(bundle()) as lanes:
        lanes.submit(task(0))
        assert [item.tries for item in world.done(1)] == [1]
        world.answer = lambda _, ask: got(ask.url, b"{}")
        lanes.submit(task(1))
        assert [item.tries for item in world.done(1)] == [1], "control: there is a network"
        world.answer = lambda *_: gone
        lanes.submit(task(2))
        assert [item.tries for item in world.done(1)] == [MAX_TRIES], "it may come back"
