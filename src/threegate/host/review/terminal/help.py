"""The page behind `?`."""

from typing import Final

from threegate.host.review.parts import StyledLine, StyledSpan
from threegate.host.review.terminal.pager import PagedDocument, document

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
Whatever is typed before a question is on screen does not answer it, and what is pasted
presses no key."""


def help_document() -> PagedDocument:
    """Return the help."""
    return document(_line(words) for words in _WORDS.split("\n"))


def _line(words: str) -> StyledLine:
    if words.startswith("# "):
        return StyledLine((StyledSpan(words[2:], "title"),))
    return StyledLine((StyledSpan(words),))
