"""Key bindings: how each key changes the state.  Pure, so every key is tested without a terminal.

SECURITY
    Only this module requests an approval: after the whole sheet was on screen, after a question
    that names request, uses and lifetime, and by one key with no other meaning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from threegate.base.errors import EX_INTERRUPTED
from threegate.host.review.terminal.pager import at_place, scrolled, sought, unseen
from threegate.host.review.terminal.screen import PASTE, Key
from threegate.host.review.terminal.state import (
    DENIAL,
    SEARCH,
    ConfirmMode,
    InputMode,
    ListMode,
    Mode,
    SheetMode,
    State,
    TermsChoice,
    TextMode,
    neighbour,
    reading,
    say,
    with_view,
)
from threegate.host.review.terminal.views import help_document

MAX_TYPED_CHARS: Final = 1000
LIFETIMES_SECONDS: Final = (300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


@dataclass(frozen=True, slots=True)
class Open:
    """Read the sheet of a request."""

    id: str


@dataclass(frozen=True, slots=True)
class OpenRaw:
    """Read the bytes of a request."""

    id: str


@dataclass(frozen=True, slots=True)
class ApproveRequest:
    """Sign and store an approval."""

    id: str
    uses: int
    seconds: int


@dataclass(frozen=True, slots=True)
class DenyRequest:
    """Deny a request."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Quit:
    """End, with an exit code."""

    code: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Give the terminal to the shell until it continues this job."""


@dataclass(frozen=True, slots=True)
class Redraw:
    """Draw everything again, and look whether the list changed."""


Effect = Open | OpenRaw | ApproveRequest | DenyRequest | Quit | Suspend | Redraw
Answer = tuple[State, Effect | None]

_ANYWHERE: Final[Mapping[str, Effect]] = {
    "interrupt": Quit(EX_INTERRUPTED),
    "suspend": Suspend(),
    "redraw": Redraw(),
}


def press(state: State, key: Key) -> Answer:
    """Return the state after a key, and the act that it requests."""
    if key.name in _ANYWHERE:
        return state, _ANYWHERE[key.name]
    state = say(state, "")
    match state.mode:
        case InputMode():
            return _typing(state, state.mode, key)
        case ConfirmMode():
            return _confirming(state, state.mode, key)
        case TextMode():
            return _reading(state, state.mode, key)
        case SheetMode():
            return _showing(state, key)
        case ListMode():
            return _listing(state, key)


# -- the list ------------------------------------------------------------------------


def _listing(state: State, key: Key) -> Answer:
    steps = {"down": 1, "j": 1, "n": 1, "up": -1, "k": -1, "p": -1}
    steps |= {"page-down": state.body, " ": state.body, "page-up": -state.body}
    steps |= {"g": -len(state.items), "home": -len(state.items)}
    steps |= {"G": len(state.items), "end": len(state.items)}
    if key.name in steps and state.items:
        index = min(max(state.index + steps[key.name], 0), len(state.items) - 1)
        return replace(state, at=state.items[index].id), None
    if key.name in ("enter", "right", "l") and state.items:
        return state, Open(state.items[state.index].id)
    if key.name == "a" and state.items:
        return say(state, "Enter shows it; it is approved from there"), None
    return _common(state, key)


def _common(state: State, key: Key) -> Answer:
    """Answer the keys that list and sheet have in common."""
    if key.name == "q":
        return state, Quit(0)
    if key.name == "?":
        return reading(state, "help", help_document()), None
    if not state.items:
        return state, None
    if key.name == "d" and isinstance(state.mode, ListMode | SheetMode):
        return replace(state, mode=InputMode(DENIAL, "", state.mode)), None
    if key.name == "s":
        return _skip(state)
    if key.name == "o":
        return state, OpenRaw(state.at)
    return state, None


def _skip(state: State) -> Answer:
    state = replace(state, skipped=state.skipped | {state.at})
    after = neighbour(state, state.items)
    if after in state.skipped:
        said = say(state, "every request was skipped; they are still waiting")
        return replace(said, mode=ListMode()), None
    state = replace(state, at=after)
    return state, Open(after) if isinstance(state.mode, SheetMode) else None


# -- a sheet, and other things to read -------------------------------------------------


def _showing(state: State, key: Key) -> Answer:
    if key.name in ("escape", "left", "h", "backspace"):
        return replace(state, mode=ListMode()), None
    if key.name == "a":
        return _ask(state), None
    if key.name in ("n", "p"):
        index = state.index + (1 if key.name == "n" else -1)
        if not 0 <= index < len(state.items):
            end = "last" if key.name == "n" else "first"
            return say(state, f"this is the {end} one"), None
        return state, Open(state.items[index].id)
    moved = _moved(state, key)
    return (moved, None) if moved is not None else _common(state, key)


def _ask(state: State) -> State:
    """Return the last question, or the first line that was not on the screen yet."""
    sheet, view = state.sheets.get(state.at), state.views.get(state.at)
    if sheet is None or view is None or not state.body:
        return say(state, "look at it first")
    if sheet.refusal:
        return say(state, f"it cannot be approved: {sheet.refusal}")
    missing = unseen(view)
    if missing is None:
        return replace(state, mode=ConfirmMode(sheet.terms))
    state = with_view(state, at_place(view, state.columns, state.body, missing.at))
    lines = "1 line was" if missing.lines == 1 else f"{missing.lines} lines were"
    return say(state, f"{lines} not on screen yet: look at the rest first, it goes on here")


def _reading(state: State, mode: TextMode, key: Key) -> Answer:
    if key.name in ("q", "escape", "left", "h", "?", "o"):
        return replace(state, mode=mode.below), None
    moved = _moved(state, key)
    return (state if moved is None else moved), None


def _moved(state: State, key: Key) -> State | None:
    """Return the state after a key that moves through a document; None for other keys."""
    view, columns, rows = state.view, state.columns, max(state.body, 1)
    if view is None:
        return None
    page, end = max(rows - 1, 1), view.document.end
    steps = {"down": 1, "j": 1, "enter": 1, "up": -1, "k": -1, "half-down": max(rows // 2, 1)}
    steps |= {"page-down": page, " ": page, "page-up": -page, "b": -page}
    if key.name in steps:
        return with_view(state, scrolled(view, columns, rows, steps[key.name]))
    if key.name in ("g", "home", "G", "end"):
        place = end if key.name in ("G", "end") else 0
        return with_view(state, at_place(view, columns, rows, place))
    if key.name == "/" and isinstance(state.mode, SheetMode):
        return replace(state, mode=InputMode(SEARCH, "", state.mode))
    if key.name in ("f", "F"):
        return _find(state, back=key.name == "F")
    return None


def _find(state: State, *, back: bool = False) -> State:
    view = state.view
    if view is None or not view.needle:
        return say(state, "/ says what to look for")
    found = sought(view, state.columns, max(state.body, 1), back=back)
    if found is None:
        return say(state, f"nowhere: {view.needle}")
    return with_view(state, found)


# -- questions ---------------------------------------------------------------------------


def _confirming(state: State, mode: ConfirmMode, key: Key) -> Answer:
    if key.name == "y":
        asked = ApproveRequest(state.at, mode.terms.uses, mode.terms.seconds)
        return replace(state, mode=SheetMode()), asked
    if key.name in ("escape", "n", "q"):
        return say(replace(state, mode=SheetMode()), "not approved"), None
    changed = mode
    if key.name in ("up", "down", "tab", "back-tab", "j", "k"):
        changed = replace(mode, on_uses=not mode.on_uses)
    elif key.name in ("right", "+", "l", "left", "-", "h"):
        more = key.name in ("right", "+", "l")
        change = _other_uses if mode.on_uses else _other_lifetime
        changed = replace(mode, terms=change(mode.terms, more=more))
    return replace(state, mode=changed), None


def _other_uses(terms: TermsChoice, *, more: bool) -> TermsChoice:
    uses = terms.uses + (1 if more else -1)
    return replace(terms, uses=min(max(uses, 1), terms.bounds.max_uses))


def _other_lifetime(terms: TermsChoice, *, more: bool) -> TermsChoice:
    usual, longest = terms.bounds.usual_seconds, terms.bounds.max_seconds
    choices = {*LIFETIMES_SECONDS, terms.seconds, usual, longest}
    allowed = sorted(one for one in choices if one <= longest)
    index = allowed.index(terms.seconds) + (1 if more else -1)
    return replace(terms, seconds=allowed[min(max(index, 0), len(allowed) - 1)])


def _typing(state: State, mode: InputMode, key: Key) -> Answer:
    if key.name == "escape":
        return replace(state, mode=mode.below), None
    if key.name == "enter":
        return _TYPED[mode.what](state, mode.text.strip(), mode.below)
    text = _edited(mode.text, key)
    return replace(state, mode=replace(mode, text=text)), None


def _edited(text: str, key: Key) -> str:
    if key.name == "backspace":
        return text[:-1]
    if key.name == "erase":
        return ""
    if key.name == PASTE:
        words = "".join(c if c.isprintable() else " " for c in key.text)
        return (text + words)[:MAX_TYPED_CHARS]
    return (text + key.text)[:MAX_TYPED_CHARS]


def _typed_denial(state: State, text: str, below: ListMode | SheetMode) -> Answer:
    if not text:
        return say(state, "a denial needs a reason; Esc goes back"), None
    return replace(state, mode=below), DenyRequest(state.at, text)


def _typed_search(state: State, text: str, below: ListMode | SheetMode) -> Answer:
    state = replace(state, mode=below)
    view = state.view
    if view is not None and text:
        state = with_view(state, replace(view, needle=text))
    return _find(state), None


_TYPED: Final[Mapping[str, Callable[[State, str, ListMode | SheetMode], Answer]]] = {
    DENIAL: _typed_denial,
    SEARCH: _typed_search,
}


def is_question(mode: Mode) -> bool:
    """Tell whether a key can sign here; keys typed before the question was drawn are dropped."""
    return isinstance(mode, ConfirmMode)
