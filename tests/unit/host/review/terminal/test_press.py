"""Keys and what they ask for: every way to an approval, and every way around it."""

from dataclasses import replace

import pytest

from threegate.host.review.approval import TermBounds
from threegate.host.review.parts import StyledLine, StyledSpan
from threegate.host.review.terminal.pager import document
from threegate.host.review.terminal.press import (
    ApproveRequest,
    DenyRequest,
    Effect,
    Open,
    OpenRaw,
    Quit,
    Redraw,
    Suspend,
    is_question,
    press,
)
from threegate.host.review.terminal.screen import PASTE, Key
from threegate.host.review.terminal.state import (
    ConfirmMode,
    InputMode,
    ListMode,
    OpenedSheet,
    ReviewQueue,
    SheetMode,
    State,
    TermsChoice,
    TextMode,
    WaitingRequest,
    drawn,
    opened,
    refreshed,
    resized,
)

TERMS = TermsChoice(1, 3600, TermBounds(3600, 3, 86_400))


def waiting(name: str) -> WaitingRequest:
    return WaitingRequest(f"tr-{name * 64}", "held", "operator", 60, 0, f"purpose {name}")


def queue(*items: WaitingRequest) -> ReviewQueue:
    return ReviewQueue(items, len(items))


ITEMS = tuple(map(waiting, "abc"))
A, B, C = (item.id for item in ITEMS)


def sheet(request_id: str, lines: int = 100) -> OpenedSheet:
    return OpenedSheet(
        request_id, document(StyledLine((StyledSpan(f"line {n}"),)) for n in range(lines)), TERMS
    )


def listed(*items: WaitingRequest) -> State:
    return refreshed(State(80, 24), queue(*(items or ITEMS)), {})


def showing(lines: int = 100, request_id: str = A) -> State:
    return drawn(opened(listed(), sheet(request_id, lines)))


def pressed(state: State, *names: str) -> tuple[State, Effect | None]:
    """Press keys one after the other, each on the frame that the one before left."""
    effect = None
    for name in names:
        assert effect is None, f"{effect} before {name}"
        state, effect = press(drawn(state), Key(name, name if len(name) == 1 else ""))
    return drawn(state), effect


def seen(lines: int = 100) -> State:
    """Return a sheet whose every line was drawn."""
    state, _ = pressed(showing(lines), *["page-down"] * (lines // 10))
    return state


# -- the list ------------------------------------------------------------------------------


def test_the_list_starts_with_the_oldest() -> None:
    assert listed().at == A


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["down"], B),
        (["j", "j"], C),
        (["j", "j", "j"], C),
        (["up"], A),
        (["G"], C),
        (["end", "g"], A),
        (["page-down"], C),
        (["n", "p"], A),
    ],
)
def test_moving_in_the_list(keys: list[str], expected: str) -> None:
    state, effect = pressed(listed(), *keys)
    assert (state.at, effect) == (expected, None)


def test_enter_opens_the_current_one() -> None:
    assert pressed(listed(), "down", "enter")[1] == Open(B)


def test_the_list_cannot_approve() -> None:
    state, effect = pressed(listed(), "a")
    assert (state.mode, effect) == (ListMode(), None)
    assert "Enter" in state.said


def test_an_empty_list_answers_only_help_and_quit() -> None:
    empty = refreshed(State(80, 24), queue(), {})
    for key in ("enter", "a", "d", "s", "o", "down", "G"):
        state, effect = pressed(empty, key)
        assert (state.mode, effect) == (ListMode(), None), key
    assert isinstance(pressed(empty, "?")[0].mode, TextMode)
    assert pressed(empty, "q")[1] == Quit(0)


# -- approving -----------------------------------------------------------------------------


# claim TG-C-110
def test_what_was_not_on_screen_cannot_be_approved() -> None:
    state, effect = pressed(showing(), "a")
    assert (state.mode, effect) == (SheetMode(), None)
    assert "not on screen yet" in state.said
    state, _ = pressed(showing(), "G", "a")  # the end alone is not the whole
    assert state.mode == SheetMode()
    assert "not on screen yet" in state.said
    assert isinstance(pressed(seen(), "a")[0].mode, ConfirmMode), "control: with all of it seen"


def test_asking_too_early_goes_to_the_first_line_that_is_missing() -> None:
    state = showing()
    first = state.body
    state, _ = pressed(state, "G", "a")
    assert state.view is not None
    assert state.view.top == state.view.document.starts[first]


def test_asking_again_and_again_leads_through_the_whole_sheet() -> None:
    state = showing(500)
    for _ in range(500 // (state.body - 1) + 1):
        state, effect = pressed(state, "a")
        assert effect is None
    assert isinstance(state.mode, ConfirmMode)


def test_a_frame_that_was_never_drawn_was_not_seen() -> None:
    state = opened(listed(), sheet(A, 3))
    state, _ = press(state, Key("a", "a"))
    assert "not on screen yet" in state.said
    assert isinstance(press(drawn(state), Key("a", "a"))[0].mode, ConfirmMode), "control"


def test_a_terminal_too_small_for_a_line_shows_nothing() -> None:
    state = drawn(resized(showing(3), 10, 3))
    assert state.body == 0
    assert pressed(replace(state, views={}), "a")[0].mode == SheetMode()


def test_only_y_signs() -> None:
    asked, _ = pressed(seen(), "a")
    assert is_question(asked.mode)
    assert pressed(asked, "y")[1] == ApproveRequest(A, 1, 3600)
    for key in ("enter", " ", "a", "Y", "d", "o", "s", "G", PASTE):
        state, effect = press(asked, Key(key, "y"))
        assert effect is None, key
        assert not isinstance(state.mode, SheetMode), key
    for key in ("escape", "n", "q"):
        state, effect = pressed(asked, key)
        assert (state.mode, effect) == (SheetMode(), None), key


def test_uses_and_lifetime_stay_within_policy() -> None:
    asked, _ = pressed(seen(), "a")
    assert pressed(asked, "right", "y")[1] == ApproveRequest(A, 2, 3600)
    assert pressed(asked, *["right"] * 9, "y")[1] == ApproveRequest(A, 3, 3600)
    assert pressed(asked, *["left"] * 9, "y")[1] == ApproveRequest(A, 1, 3600)
    assert pressed(asked, "down", *["right"] * 9, "y")[1] == ApproveRequest(A, 1, 86_400)
    assert pressed(asked, "down", *["left"] * 9, "y")[1] == ApproveRequest(A, 1, 300)
    assert pressed(asked, "tab", "+", "tab", "+", "y")[1] == ApproveRequest(A, 2, 4 * 3600)


def test_a_lifetime_of_policy_that_is_no_usual_one_can_be_left_and_found_again() -> None:
    odd = TermsChoice(1, 77, TermBounds(77, 3, 100))
    state = replace(seen(), mode=ConfirmMode(odd, on_uses=False))
    assert pressed(state, "right", "y")[1] == ApproveRequest(A, 1, 100)
    assert pressed(state, "right", "left", "y")[1] == ApproveRequest(A, 1, 77)


def test_what_policy_refuses_is_not_asked_for() -> None:
    refused = replace(sheet(A, 3), refusal="policy says no [TG-POL-001]")
    state, effect = pressed(drawn(opened(listed(), refused)), "a")
    assert (state.mode, effect) == (SheetMode(), None)
    assert state.said == "it cannot be approved: policy says no [TG-POL-001]"


# -- denying, skipping, moving on ------------------------------------------------------------


@pytest.mark.parametrize("state", [listed(), showing()])
def test_a_denial_carries_what_was_typed(state: State) -> None:
    typed, _ = pressed(state, "d", *"too much", "backspace")
    assert isinstance(typed.mode, InputMode)
    after, effect = pressed(typed, "enter")
    assert effect == DenyRequest(A, "too muc")
    assert after.mode == state.mode


def test_a_denial_needs_a_reason() -> None:
    state, effect = pressed(showing(), "d", " ", "enter")
    assert isinstance(state.mode, InputMode)
    assert effect is None
    assert "reason" in state.said
    assert pressed(state, "escape")[0].mode == SheetMode()


def test_a_pasted_reason_stays_one_line_and_sends_nothing() -> None:
    state, _ = pressed(showing(), "d")
    state, effect = press(state, Key(PASTE, "no\r\x1b[2Jy\n"))
    assert effect is None
    assert isinstance(state.mode, InputMode)
    assert state.mode.text == "no  [2Jy "


def test_a_paste_outside_a_text_does_nothing() -> None:
    for state in (listed(), showing(), seen()):
        after, effect = press(state, Key(PASTE, "qay"))
        assert (after.mode, effect) == (state.mode, None)


def test_typing_takes_letters_that_are_keys_elsewhere() -> None:
    state, _ = pressed(showing(), "d", *"qjk?", "erase", *"no")
    assert pressed(state, "enter")[1] == DenyRequest(A, "no")


def test_next_and_previous() -> None:
    assert pressed(showing(), "n")[1] == Open(B)
    assert pressed(showing(request_id=B), "p")[1] == Open(A)
    state, effect = pressed(showing(request_id=C), "n")
    assert (effect, state.said) == (None, "this is the last one")
    assert pressed(showing(), "p")[0].said == "this is the first one"


def test_skipping_leaves_it_waiting_and_goes_on() -> None:
    state, effect = pressed(showing(), "s")
    assert effect == Open(B)
    assert A in state.skipped
    assert A in {item.id for item in state.items}
    state = replace(state, skipped=frozenset({A, B}), at=C)
    state, effect = pressed(state, "s")
    assert (effect, state.mode) == (None, ListMode())
    assert "still waiting" in state.said


# -- reading ---------------------------------------------------------------------------------


def test_scrolling_and_searching_in_a_sheet() -> None:
    state, _ = pressed(showing(), "/", *"LINE 5", "enter")
    tops = [state.views[A].top]
    for key in ("f", "f", "F"):
        state, _ = pressed(state, key)
        tops.append(state.views[A].top)
    starts = state.views[A].document.starts
    assert tops == [starts[5], starts[50], starts[51], starts[50]]
    assert pressed(state, "/", *"nowhere", "enter")[0].said == "nowhere: nowhere"


def test_help_and_raw_go_back_where_they_came_from() -> None:
    for state in (listed(), showing()):
        inside, _ = pressed(state, "?")
        assert isinstance(inside.mode, TextMode)
        assert pressed(inside, "a")[1] is None, "nothing is decided from there"
        for key in ("q", "escape", "?"):
            assert pressed(inside, key)[0].mode == state.mode
    assert pressed(showing(), "o")[1] == OpenRaw(A)


def test_keys_that_work_everywhere() -> None:
    asked, _ = pressed(seen(), "a")
    typing, _ = pressed(showing(), "d")
    for state in (listed(), showing(), asked, typing):
        assert press(state, Key("interrupt"))[1] == Quit(130)
        assert press(state, Key("suspend"))[1] == Suspend()
        assert press(state, Key("redraw"))[1] == Redraw()


def test_a_sheet_opened_again_keeps_its_place_unless_it_changed() -> None:
    state = seen()
    again = drawn(opened(state, sheet(A)))
    assert again.views[A].top == state.views[A].top
    assert isinstance(pressed(again, "a")[0].mode, ConfirmMode)
    other = drawn(opened(state, sheet(A, 101)))
    assert other.views[A].top == 0
    assert pressed(other, "a")[0].mode == SheetMode(), "what changed was not seen"


# -- what others do meanwhile ------------------------------------------------------------------


def test_a_request_decided_elsewhere_is_left_and_said() -> None:
    asked, _ = pressed(seen(), "a")
    typing, _ = pressed(showing(), "d")
    for state in (showing(), asked, typing):
        after = refreshed(state, queue(*ITEMS[1:]), {A: "denied"})
        assert after.mode == ListMode()
        assert after.at == B
        assert after.said == f"{A[:15]} was decided elsewhere: it is denied now"


def test_another_request_decided_elsewhere_does_not_disturb() -> None:
    after = refreshed(showing(), queue(*ITEMS[:1]), {B: "denied", C: "expired"})
    assert (after.mode, after.at) == (SheetMode(), A)
    assert "and 1 more decided elsewhere" in after.said


def test_a_new_request_is_said_and_the_place_kept() -> None:
    after = refreshed(listed(), queue(*ITEMS, waiting("d")), {})
    assert (after.at, after.said) == (A, "1 more waiting")


def test_a_longer_message_takes_rows_from_nobody_unseen() -> None:
    state = showing()
    spoken = replace(state, said="word " * 60)
    assert spoken.body == state.body - 3, "the text has fewer rows, and only those count"
