"""The session, with a desk and a screen that do what the test says."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from tests.unit.host.review.terminal.test_press import A, B, C, sheet, waiting
from threegate.base.errors import PolicyDenied, UsageError, WorkspaceBusy
from threegate.host.review.parts import StyledLine, StyledRow, StyledSpan, plain
from threegate.host.review.terminal.loop import ReviewSession
from threegate.host.review.terminal.pager import PagedDocument, document
from threegate.host.review.terminal.screen import Key, Screen
from threegate.host.review.terminal.state import OpenedSheet, ReviewQueue, WaitingRequest


@dataclass
class FakeDesk:
    """Three requests in memory."""

    here: dict[str, WaitingRequest] = field(
        default_factory=lambda: {w.id: w for w in map(waiting, "abc")}
    )
    states: dict[str, str] = field(default_factory=dict)
    acts: list[tuple[object, ...]] = field(default_factory=list)
    busy: bool = False
    lines: int = 10
    policy_moved: bool = False
    tampered: dict[str, str] = field(default_factory=dict)

    def changed(self) -> bool:
        if self.busy:
            raise WorkspaceBusy("somebody holds the lock")
        return True

    def waiting(self) -> ReviewQueue:
        return ReviewQueue(tuple(self.here.values()), len(self.here), dict(self.tampered))

    def state(self, request_id: str) -> str:
        return self.states[request_id]

    def sheet(self, request_id: str) -> OpenedSheet:
        self.refuse_decided(request_id)
        return sheet(request_id, self.lines)

    def raw(self, request_id: str) -> PagedDocument:
        return document([StyledLine((StyledSpan(f"raw {request_id}"),))])

    def approve(self, request_id: str, *, uses: int, seconds: int) -> str:
        self.refuse_decided(request_id)
        if self.policy_moved:
            self.lines = 12
            raise PolicyDenied("the policy changed meanwhile", code="TG-APR-014")
        self.acts.append(("approve", request_id, uses, seconds))
        del self.here[request_id]
        return "approved"

    def deny(self, request_id: str, reason: str) -> str:
        self.refuse_decided(request_id)
        self.acts.append(("deny", request_id, reason))
        del self.here[request_id]
        return "denied"

    def refuse_decided(self, request_id: str) -> None:
        if request_id not in self.here:
            raise UsageError(f"{request_id} is not waiting (any more)")

    def decide_elsewhere(self, request_id: str, fate: str) -> None:
        self.states[request_id] = fate
        del self.here[request_id]


@dataclass
class FakeScreen:
    """Keys from a list, one reading each; frames into a list."""

    typed: deque[object]
    size: tuple[int, int] = (80, 24)
    frames: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def draw(self, rows: Sequence[StyledRow]) -> None:
        self.frames.append("\n".join(plain(row) for row in rows))
        self.notes.append(self.frames[-1])

    def forgotten_before(self, words: str) -> bool:
        """Tell whether typed keys were dropped right before the first frame with these words."""
        first = next(n for n, note in enumerate(self.notes) if words in note)
        return self.notes[first - 1] == "forgot"

    def keys(self, seconds: float) -> list[Key]:
        assert seconds > 0, "no busy waiting"
        one = self.typed.popleft()
        if callable(one):
            one()
            return []
        assert isinstance(one, str)
        names = one.split("+")
        return [Key(name, name if len(name) == 1 else "") for name in names if name]

    def forget_typed(self) -> None:
        self.notes.append("forgot")

    def redraw(self) -> None:
        self.notes.append("redraw")

    def suspend(self) -> None:
        self.notes.append("suspend")

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.notes.append("aside")
        yield
        self.notes.append("back")


def run(desk: FakeDesk, *typed: object) -> tuple[int, FakeScreen]:
    screen = FakeScreen(deque(typed))
    code = ReviewSession(desk, cast(Screen, screen)).run()
    assert not screen.typed, "it left before everything was typed"
    return code, screen


def test_approving_leads_to_the_next_one() -> None:
    desk = FakeDesk()
    code, screen = run(desk, "enter", "a", "y", "q")
    assert code == 0
    assert desk.acts == [("approve", A, 1, 3600)]
    assert "approved" in screen.frames[-1]
    assert B[:15] in screen.frames[-1]
    assert screen.notes.index("aside") < screen.notes.index("back")


def test_a_yes_that_was_typed_before_the_question_is_dropped() -> None:
    desk = FakeDesk()
    _, screen = run(desk, "enter", "a+y", "escape", "q")
    assert desk.acts == []
    assert "forgot" in screen.notes
    run(desk, "enter", "a", "y", "q")
    assert desk.acts == [("approve", A, 1, 3600)], "control: typed after it, it signs"


# claim TG-C-110
def test_keys_typed_before_the_next_request_is_shown_decide_nothing_about_it() -> None:
    ahead = "d+n+o+enter"  # the denial of the request that is shown
    for decision, act in (
        (("a", f"y+{ahead}"), ("approve", A, 1, 3600)),
        ((f"{ahead}+{ahead}",), ("deny", A, "no")),
    ):
        desk = FakeDesk()
        _, screen = run(desk, "enter", *decision, "q")
        assert desk.acts == [act]
        assert screen.forgotten_before("1 of 2"), "what the terminal still holds is dropped, too"
        run(desk, "enter", ahead, "q")
        assert desk.acts == [act, ("deny", B, "no")], "control: typed after it was shown"


def test_keys_typed_ahead_move_about() -> None:
    _, screen = run(FakeDesk(), "enter+n+n", "q")
    assert C[:15] in screen.frames[-1]
    assert "forgot" not in screen.notes


# claim TG-C-110
def test_keys_typed_before_what_others_changed_is_shown_are_dropped() -> None:
    desk = FakeDesk()
    _, screen = run(desk, "enter", lambda: desk.decide_elsewhere(A, "denied"), "q")
    assert screen.forgotten_before("was decided elsewhere")
    _, screen = run(desk, "enter", lambda: setattr(desk, "lines", 12), "q")
    assert screen.forgotten_before("changed: look at it again")
    _, screen = run(desk, "enter", lambda: desk.decide_elsewhere(C, "denied"), "q")
    assert "decided elsewhere" in screen.frames[-1]
    assert "forgot" not in screen.notes, "another request left the list: nothing moved"


def test_denying_leads_to_the_next_one_and_at_last_to_an_empty_list() -> None:
    desk = FakeDesk()
    denial = ("d", "n+o", "enter")
    code, screen = run(desk, "enter", *denial, *denial, *denial, "q")
    assert desk.acts == [("deny", one, "no") for one in (A, B, C)]
    assert code == 0
    assert "nothing waits" in screen.frames[-1]


def test_denying_in_the_list_stays_in_the_list() -> None:
    _, screen = run(FakeDesk(), "d", "n+o", "enter", "q")
    assert "requests waiting for review: 2" in screen.frames[-1]


def test_a_request_decided_meanwhile_is_noticed_while_nobody_types() -> None:
    desk = FakeDesk()
    _, screen = run(desk, "enter", lambda: desk.decide_elsewhere(A, "approved"), "", "q")
    assert f"{A[:15]} was decided elsewhere: it is approved now" in screen.frames[-1]
    assert "requests waiting for review: 2" in screen.frames[-1]


def test_a_request_decided_meanwhile_cannot_be_decided_again() -> None:
    for last in (("y",), ("escape", "d", "n+o", "enter")):
        desk = FakeDesk()

        def elsewhere(desk: FakeDesk = desk) -> None:
            desk.decide_elsewhere(A, "denied")
            desk.busy = True  # else it would be noticed at once

        def free(desk: FakeDesk = desk) -> None:
            desk.busy = False

        _, screen = run(desk, "enter", "a", elsewhere, *last, free, "", "q")
        assert desk.acts == []
        assert any("TG-USE-001" in one for one in screen.frames)
        assert "requests waiting for review: 2" in screen.frames[-1]


def test_opening_what_is_gone_says_so_and_refreshes_the_list() -> None:
    desk = FakeDesk()
    _, screen = run(desk, "down", "q")
    assert "requests waiting for review: 3" in screen.frames[-1], "control"

    def elsewhere() -> None:
        desk.busy = True
        desk.decide_elsewhere(A, "expired")

    def free() -> None:
        desk.busy = False

    _, screen = run(desk, elsewhere, "enter", free, "", "q")
    assert f"{A[:15]} was decided elsewhere: it is expired now" in screen.frames[-1]


def test_what_changes_about_the_request_on_the_screen_is_shown_and_said() -> None:
    desk = FakeDesk()

    def other_rules() -> None:
        desk.lines = 12

    _, screen = run(desk, "enter", "a", lambda: None, "y", "q")
    assert desk.acts == [("approve", A, 1, 3600)], "control: a look around disturbs nothing"
    desk.acts.clear()
    _, screen = run(desk, "enter", "a", other_rules, "y", "q")
    assert any("changed: look at it again" in one for one in screen.frames)
    assert desk.acts == [], "the question was about something else"


def test_what_changes_meanwhile_takes_no_half_typed_reason_away() -> None:
    desk = FakeDesk()

    def other_rules() -> None:
        desk.lines = 12

    for before in (("enter",), ("enter", "escape")):
        run(desk, *before, "d", "n", other_rules, "o", "enter", "q")
    assert desk.acts == [("deny", A, "no"), ("deny", B, "no")]


def test_an_approval_that_fails_shows_what_it_failed_on() -> None:
    desk = FakeDesk(policy_moved=True)
    _, screen = run(desk, "enter", "a", "y", "q")
    assert "changed: look at it again" in screen.frames[-1]
    assert "line 11" in screen.frames[-1]
    assert desk.acts == []


def test_a_busy_workspace_is_said_and_does_not_end_the_session() -> None:
    desk = FakeDesk(busy=True)
    code, screen = run(desk, "", "j", "q")
    assert code == 0
    assert any("somebody holds the lock [TG-WS-002]" in one for one in screen.frames)


def test_a_new_size_is_drawn_at_once() -> None:
    desk = FakeDesk()
    screen = FakeScreen(deque(["enter"]))

    def narrow() -> None:
        screen.size = (40, 10)

    screen.typed += [narrow, "q"]
    assert ReviewSession(desk, cast(Screen, screen)).run() == 0
    rows = screen.frames[-1].split("\n")
    assert len(rows) == 10
    assert len(rows[0]) == 40


def test_raw_bytes_help_suspend_and_interrupt() -> None:
    code, screen = run(FakeDesk(), "enter", "o", "escape", "?", "q", "suspend", "interrupt")
    assert code == 130
    assert any(f"raw {A}" in one for one in screen.frames)
    assert any("deny, with a reason" in one for one in screen.frames)
    assert "suspend" in screen.notes


def test_a_request_that_somebody_meddles_with_is_named_and_not_said_to_be_decided() -> None:
    desk = FakeDesk()

    def meddle() -> None:
        del desk.here[A]
        desk.tampered[A] = f"{A}.md is not what its name says [TG-HND-008]"

    code, screen = run(desk, "enter", meddle, "", "down", "q")
    shown = "".join(screen.frames)
    assert "[TG-HND-008]" in shown
    assert "decided elsewhere" not in shown
    assert "requests waiting for review: 2; tampered with: 1" in screen.frames[-1]
    assert code == 0, "whoever started the session names it again"
