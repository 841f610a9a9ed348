"""The frames: as many rows as the terminal has, made from the state alone.

SECURITY
    Foreign text is last in its row or behind a gutter, so that neither its words nor
    right-to-left letters can look like text of ours.
"""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.text import visible
from threegate.host.review.parts import StyledLine, StyledRow, StyledSpan, plain
from threegate.host.review.terminal.cells import breaks, broken, cut, marked, pad, part
from threegate.host.review.terminal.pager import (
    PagedDocument,
    PagerView,
    ScreenRow,
    document,
    gutter,
    hits,
    layout,
    row_at,
    shown,
    unseen,
)
from threegate.host.review.terminal.state import (
    DENIAL,
    ConfirmMode,
    InputMode,
    ListMode,
    SheetMode,
    State,
    TextMode,
    WaitingRequest,
)

TWO_ROWS_BELOW_COLUMNS: Final = 72
_LIST_KEYS: Final = "Enter show  d deny  s skip  ? help  q quit"
_SHEET_KEYS: Final = "a approve  d deny  n next  p previous  s skip  / find  o raw  ? help  q quit"
_SHEET_KEYS_SHORT: Final = "a yes  d no  n next  ? help  q quit"
_READ_KEYS: Final = "Esc back  up down PgUp PgDn"
_TYPE_KEYS: Final = "Enter takes it  Esc goes back"
_ASK_KEYS: Final = "y sign  Esc back  arrows change uses and lifetime"
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def frame(state: State) -> tuple[StyledRow, ...]:
    """Return the rows to draw."""
    if not state.body:
        words = cut("larger terminal, please", state.columns)
        return _filled([(StyledSpan(words),)], state.rows)
    head = (StyledSpan(pad(_title(state), state.columns), "bar"),)
    foot = (StyledSpan(pad(_keys(state), state.columns), "bar"),)
    said: list[StyledRow] = [(StyledSpan(words, "said"),) for words in state.said_rows]
    return (head, *_filled(_body(state), state.body), *(said or [_place(state)]), foot)


def age(seconds: int) -> str:
    """Return a time in its largest unit."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "now"


def lifetime(seconds: int) -> str:
    """Return a time exactly, in the largest unit that divides it."""
    size, unit = next(one for one in _UNITS if seconds % one[0] == 0)
    return f"{seconds // size} {unit}"


def _filled(rows: Sequence[StyledRow], count: int) -> tuple[StyledRow, ...]:
    return tuple(row for row, _ in zip(chain(rows, repeat(())), range(count), strict=False))


# -- the bars ----------------------------------------------------------------------------


def _title(state: State) -> str:
    number = f"{state.index + 1} of {len(state.items)}" if state.items else "none"
    match state.mode:
        case ListMode():
            more = f", the oldest of {state.total}" if state.total > len(state.items) else ""
            more += f"; tampered with: {len(state.tampered)}" if state.tampered else ""
            return f" requests waiting for review: {len(state.items)}{more}"
        case TextMode():
            return f" {state.mode.title}"
        case ConfirmMode():
            return f" approve {short(state.at)}?"
        case InputMode(what=what) if what == DENIAL:
            return f" deny {short(state.at)}"
        case _:
            return f" {short(state.at)}  {number}  {_section(state)}"


def _section(state: State) -> str:
    view = state.view
    if view is None:
        return ""
    top = layout(view.document, state.columns)[row_at(view, state.columns)]
    return view.document.lines[top.line].section


def _keys(state: State) -> str:
    match state.mode:
        case ListMode():
            return f" {_LIST_KEYS}" if state.items else " ? help  q quit"
        case SheetMode():
            return f" {_SHEET_KEYS if state.columns >= len(_SHEET_KEYS) + 2 else _SHEET_KEYS_SHORT}"
        case TextMode():
            return f" {_READ_KEYS}"
        case ConfirmMode():
            return f" {_ASK_KEYS}"
        case InputMode():
            return f" {_TYPE_KEYS}"


def _place(state: State) -> StyledRow:
    """Return the row that says where in a document this is, and how much was never shown."""
    view, mode = state.view, state.mode
    if view is None or not isinstance(mode, SheetMode | TextMode):
        return ()
    rows = layout(view.document, state.columns)
    top = row_at(view, state.columns)
    bottom = min(top + state.body, len(rows))
    words = f"rows {top + 1}-{bottom} of {len(rows)}"
    if isinstance(state.mode, TextMode):
        return (StyledSpan(cut(words, state.columns), "dim"),)
    missing = unseen(view)
    if missing is None:
        return (StyledSpan(cut(f"all seen, {words}", state.columns), "dim"),)
    lines = "1 line" if missing.lines == 1 else f"{missing.lines} lines"
    words = f"{lines} not seen yet, {words}; Space goes on"
    return (StyledSpan(cut(words, state.columns), "warn"),)


# -- between them --------------------------------------------------------------------------


def _body(state: State) -> list[StyledRow]:
    match state.mode:
        case ConfirmMode():
            return _question(state, state.mode)
        case InputMode(what=what) if what == DENIAL:
            return _denial(state, state.mode)
        case InputMode():
            return [*_document(state)[: state.body - 1], _prompt(state, "find: ", state.mode.text)]
        case ListMode():
            return _list(state)
        case _:
            return _document(state)


def _list(state: State) -> list[StyledRow]:
    if not state.items:
        return [(), (StyledSpan(cut("  nothing waits for a human", state.columns)),)]
    each = 2 if state.columns < TWO_ROWS_BELOW_COLUMNS else 1
    count = max(state.body // each, 1)
    first = state.index // count * count
    rows: list[StyledRow] = []
    for index, item in enumerate(state.items[first : first + count], first):
        rows += _item(state, item, current=index == state.index, each=each)
    return rows


def _item(state: State, item: WaitingRequest, *, current: bool, each: int) -> list[StyledRow]:
    mark, style = (">", "cursor") if current else (" ", "")
    seen = "~" if item.id in state.skipped else " "
    flags = f"{item.flags} flag" + ("" if item.flags == 1 else "s") if item.flags else ""
    flagged = StyledSpan(f" {pad(flags, 9)}", "warn" if item.flags else "")
    about = f"{pad(item.state, 8)} {pad(item.origin, 8)} {pad(age(item.age_seconds), 6)}"
    name = f"{mark}{seen}{short(item.id)}"
    if each == 1:
        used = len(name) + len(about) + len(flagged.text) + 3
        purpose = StyledSpan(cut(item.purpose, state.columns - used))
        return [(StyledSpan(f"{name}  {about}", style), flagged, StyledSpan(" "), purpose)]
    # A whole id would leave no room for the rest; its first digits are enough.
    brief = f"{mark}{seen}{item.id[:8]} {item.state} {item.origin} {age(item.age_seconds)} {flags}"
    words = cut(item.purpose, state.columns - 4)
    return [
        (StyledSpan(cut(brief, state.columns), style),),
        (StyledSpan("    "), StyledSpan(words)),
    ]


def _document(state: State) -> list[StyledRow]:
    view = state.view
    if view is None:
        return []
    columns = state.columns
    return [_row(view, place, columns) for place in shown(view, columns, state.body)]


def _row(view: PagerView, place: ScreenRow, columns: int) -> StyledRow:
    line = view.document.lines[place.line]
    spans = line.spans
    if view.needle:
        spans = marked(spans, hits(plain(spans), view.needle), "match")
    text = part(spans, place.start, place.end)
    if not gutter(line, columns):
        return text
    return (line.head if place.start == 0 else line.again, *text)


def _prompt(state: State, words: str, text: str) -> StyledRow:
    """Return a line that is typed; of a long one its end."""
    room = max(state.columns - len(words) - 1, 2)
    rows = list(breaks(text, room))
    start, end = rows[-1]
    return (StyledSpan(words, "title"), StyledSpan(text[start:end]), StyledSpan("_", "cursor"))


def _denial(state: State, mode: InputMode) -> list[StyledRow]:
    words = "why not? The author of the request gets this reason, as data."
    rows = [_purpose(state), ()]
    rows += [(StyledSpan(row),) for row in broken(words, state.columns)]
    return [*rows, (), _prompt(state, "reason: ", mode.text)]


def _purpose(state: State) -> StyledRow:
    item = next((one for one in state.items if one.id == state.at), None)
    words = "" if item is None else item.purpose
    return (StyledSpan("  "), StyledSpan(cut(words, state.columns - 2)))


def _question(state: State, mode: ConfirmMode) -> list[StyledRow]:
    terms, sheet = mode.terms, state.sheets[state.at]
    uses, seconds = f"uses      {terms.uses}", f"lifetime  {lifetime(terms.seconds)}"
    most = f"   (policy: at most {terms.bounds.max_uses})"
    longest = f"   (policy: at most {lifetime(terms.bounds.max_seconds)})"
    texts = [
        ("request", ""),
        *((line, "title") for line in _indented(state.at, state.columns)),
        ("", ""),
        (("> " if mode.on_uses else "  ") + uses + most, "cursor" if mode.on_uses else ""),
        (("  " if mode.on_uses else "> ") + seconds + longest, "" if mode.on_uses else "cursor"),
        ("", ""),
        *(
            (line, "warn")
            for note in sheet.notices
            for line in _indented(visible(note), state.columns)
        ),
        *((line, "") for line in _indented(_MEANS, state.columns)),
        *((line, "dim") for note in sheet.means for line in _indented(note, state.columns)),
    ]
    rows: list[StyledRow] = [_purpose(state), ()]
    rows += [(StyledSpan(cut(text, state.columns), style),) for text, style in texts]
    if len(rows) <= state.body:
        return rows
    return [
        *rows[: state.body - 1],
        (StyledSpan(cut("  ... as the sheet says", state.columns), "dim"),),
    ]


_MEANS: Final = "y signs it with your key: exactly this may then be done, and nothing else."


def _indented(text: str, columns: int) -> list[str]:
    return [f"  {row}" for row in broken(text, columns - 2)]


# -- the help page ---------------------------------------------------------------------------

_WORDS: Final = """\
# in the list
up down j k      move
Enter            show the request

# in a request
up down j k      one line
PgUp PgDn Space  one screen
g G              beginning, end
/                look for a word; f and F go on
a                approve: asks first, then signs with your key
n p              next, previous request
o                its bytes as they are, spelled out
Esc              back to the list

# everywhere
d                deny, with a reason
s                skip: it keeps waiting
?                this page
q                quit

# what counts
An approval covers exactly the bytes of the request. It is asked for only when every line of
the sheet was on screen; the bar at the bottom says how many were not.
Characters that are invisible, change the direction of writing or pass for others are spelled
out as \\u{...}. A long line goes on in the next row, behind its own gutter.
Keys typed before a question is on screen do not answer it. Keys typed between a decision and
the next screen are ignored. Pasted text presses no key."""


def help_document() -> PagedDocument:
    """Return the help."""
    return document(_line(words) for words in _WORDS.split("\n"))


def _line(words: str) -> StyledLine:
    if words.startswith("# "):
        return StyledLine((StyledSpan(words[2:], "title"),))
    return StyledLine((StyledSpan(words),))
