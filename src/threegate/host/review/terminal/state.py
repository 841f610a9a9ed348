"""The state of the interactive review: the waiting requests, the current one, and the mode.

Pure values.  `press` changes them, `views` draws them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import short
from threegate.host.review.approval import TermBounds
from threegate.host.review.terminal.cells import broken, cut
from threegate.host.review.terminal.pager import PagedDocument, PagerView, at_place, looked

LEAST_COLUMNS: Final = 20
LEAST_ROWS: Final = 6
_BARS: Final = 2  # the title and the keys
_MOST_SAID_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """One line of the list; the purpose is foreign text with everything spelled out."""

    id: str
    state: str
    origin: str
    age_seconds: int
    flags: int
    purpose: str


@dataclass(frozen=True, slots=True)
class ReviewQueue:
    """The requests to decide, oldest first, how many wait in all, and which were tampered with."""

    items: tuple[WaitingRequest, ...]
    total: int
    tampered: Mapping[str, str] = field(default_factory=dict)  # with what is wrong


@dataclass(frozen=True, slots=True)
class TermsChoice:
    """The terms that are chosen, and what policy allows."""

    uses: int
    seconds: int
    bounds: TermBounds


@dataclass(frozen=True, slots=True)
class OpenedSheet:
    """Everything about one request, and what an approval of it may be like."""

    id: str
    document: PagedDocument
    terms: TermsChoice
    notices: tuple[str, ...] = ()  # warnings shown with the last question
    means: tuple[str, ...] = ()  # the statement of an approval, in our words
    refusal: str = ""  # why it cannot be approved, if so


@dataclass(frozen=True, slots=True)
class ListMode:
    """The list."""


@dataclass(frozen=True, slots=True)
class SheetMode:
    """The sheet of the current request."""


@dataclass(frozen=True, slots=True)
class TextMode:
    """Something else to read: the raw bytes, the help."""

    title: str
    view: PagerView
    below: "ListMode | SheetMode"


@dataclass(frozen=True, slots=True)
class ConfirmMode:
    """The last question before a signature."""

    terms: TermsChoice
    on_uses: bool = True


@dataclass(frozen=True, slots=True)
class InputMode:
    """A line of text the reviewer types: why not, or what to look for."""

    what: str
    text: str
    below: "ListMode | SheetMode"


Mode = ListMode | SheetMode | TextMode | ConfirmMode | InputMode
DENIAL: Final = "denial"
SEARCH: Final = "search"


@dataclass(frozen=True, slots=True)
class State:
    """Everything the reviewer has before them."""

    columns: int
    rows: int
    items: tuple[WaitingRequest, ...] = ()
    total: int = 0
    tampered: Mapping[str, str] = field(default_factory=dict)
    at: str = ""  # the current request
    mode: Mode = ListMode()
    sheets: Mapping[str, OpenedSheet] = field(default_factory=dict)
    views: Mapping[str, PagerView] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    said: str = ""

    @property
    def body(self) -> int:
        """How many rows there are between the bars; none on a screen too small for any."""
        too_small = self.columns < LEAST_COLUMNS or self.rows < LEAST_ROWS
        return 0 if too_small else max(self.rows - _BARS - max(len(self.said_rows), 1), 1)

    @property
    def said_rows(self) -> list[str]:
        """The message in its rows; they are not taken from the document's rows."""
        if not self.said:
            return []
        rows = broken(self.said, self.columns)
        most = min(_MOST_SAID_ROWS, max(self.rows - _BARS - 1, 1))
        return (
            rows
            if len(rows) <= most
            else [*rows[: most - 1], cut(rows[most - 1] + " ...", self.columns)]
        )

    @property
    def index(self) -> int:
        """The place of the current request in the list, 0 if it is not there."""
        ids = [item.id for item in self.items]
        return ids.index(self.at) if self.at in ids else 0

    @property
    def view(self) -> PagerView | None:
        """The document being read, if there is one."""
        if isinstance(self.mode, TextMode):
            return self.mode.view
        below = self.mode.below if isinstance(self.mode, InputMode) else self.mode
        return self.views.get(self.at) if isinstance(below, SheetMode) else None


def say(state: State, words: str) -> State:
    """Return the state with something said."""
    return replace(state, said=words)


def with_view(state: State, view: PagerView) -> State:
    """Return the state with another view of the document."""
    if isinstance(state.mode, TextMode):
        return replace(state, mode=replace(state.mode, view=view))
    return replace(state, views={**state.views, state.at: view})


def resized(state: State, columns: int, rows: int) -> State:
    """Return the state on a screen of another size, at the same place of the document."""
    state = replace(state, columns=columns, rows=rows)
    if state.view is None or not state.body:
        return state
    return with_view(state, at_place(state.view, columns, state.body, state.view.top))


def drawn(state: State) -> State:
    """Return the state with the drawn rows marked as seen."""
    if state.view is None or not isinstance(state.mode, SheetMode | TextMode) or not state.body:
        return state
    return with_view(state, looked(state.view, state.columns, state.body))


def opened(state: State, sheet: OpenedSheet) -> State:
    """Return the state that shows a sheet; the same one again keeps its place."""
    before = state.views.get(sheet.id)
    same = before is not None and before.document.lines == sheet.document.lines
    view = (
        replace(before, document=sheet.document) if before and same else PagerView(sheet.document)
    )
    return replace(
        state,
        at=sheet.id,
        mode=SheetMode(),
        sheets={**state.sheets, sheet.id: sheet},
        views={**state.views, sheet.id: view},
    )


def with_sheet(state: State, sheet: OpenedSheet) -> State:
    """Return the state with new data about a request; nothing on screen moves."""
    return replace(state, sheets={**state.sheets, sheet.id: sheet})


def reading(state: State, title: str, found: PagedDocument) -> State:
    """Return the state that shows another document over the current one."""
    below = state.mode if isinstance(state.mode, ListMode | SheetMode) else ListMode()
    return replace(state, mode=TextMode(title, PagerView(found), below))


def refreshed(state: State, queue: ReviewQueue, states: Mapping[str, str]) -> State:
    """Return the state with a new list; `states` has the states of requests that left it.

    If somebody else decided the current request, a message says so and the list is shown.
    """
    items, known = queue.items, {item.id for item in state.items}
    left = [item for item in items if item.id not in known]
    words = _tampered_words(state, queue) or _decided_words(state.at, states)
    words = words or (f"{len(left)} more waiting" if left and known else "")
    gone = state.at in states or (state.at != "" and state.at not in {item.id for item in items})
    return replace(
        state,
        items=items,
        total=queue.total,
        tampered=queue.tampered,
        at=neighbour(state, items) if gone or not state.at else state.at,
        mode=ListMode() if gone else state.mode,
        said=words or state.said,
    )


def neighbour(state: State, items: Sequence[WaitingRequest]) -> str:
    """Return the request that takes the place of the current one: the next not skipped."""
    here = {item.id for item in items}
    order = [item.id for item in state.items]
    start = order.index(state.at) + 1 if state.at in order else 0
    new = [item.id for item in items if item.id not in order]
    rest = [one for one in [*order[start:], *new, *order[:start]] if one in here]
    return next((one for one in rest if one not in state.skipped), rest[0] if rest else "")


def _tampered_words(state: State, queue: ReviewQueue) -> str:
    """Return the fault of a request that was not reported yet."""
    new = [words for one, words in queue.tampered.items() if one not in state.tampered]
    more = f", and {len(new) - 1} more" if len(new) > 1 else ""
    return f"{new[0]}{more}" if new else ""


def _decided_words(current: str, states: Mapping[str, str]) -> str:
    if current in states:
        return f"{short(current)} was decided elsewhere: it is {states[current]} now"
    if states:
        one = next(iter(states))
        more = f" and {len(states) - 1} more" if len(states) > 1 else ""
        return f"{short(one)}{more} decided elsewhere"
    return ""
