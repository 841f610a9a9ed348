"""The page of a request in a real browser: all that review prints, and nothing counts unseen."""

import json
import re

import pytest

from tests.support.browser import Tab
from tests.support.console import Scene, fresh, is_disabled, now, read_all
from tests.support.holdings import paper
from tests.support.samples import box, fetch_request
from threegate.artifacts.tool_request import Input

pytestmark = pytest.mark.usefixtures("closed_tabs")
_SHEET = (
    "[...document.querySelectorAll('#sheet .part')].map((part) => [part.querySelector('h2')"
    ".textContent, [...part.querySelectorAll('.row')].map((row) => row.textContent)])"
)
_AGAIN = ("    : ", "      : ")  # what a terminal has before the rest of a line


def printed(served: Scene, request_id: str) -> list[str]:
    """Return every line that `review show` prints, as one row each."""
    found: list[str] = []
    for row in served.cli("review", "show", request_id).out.split("\n"):
        again = [gutter for gutter in _AGAIN if row.startswith(gutter)]
        if again:
            found[-1] += row.removeprefix(again[0])
        elif row:
            found.append(row)
    return found


def shown(served: Scene, request_id: str) -> list[str]:
    """Return every line of the page, titles of parts among them, in order."""
    parts = served.tab(f"/request/{request_id}").js(_SHEET)
    assert parts[0][0] == "request", "a title that the terminal has in its first line"
    rows = [[title, *rows] for title, rows in parts]
    return [row for part in (rows[0][1:], *rows[1:]) for row in part]


def ageless(rows: list[str]) -> list[str]:
    """Return rows without the age of a request and when it expires: both go on meanwhile."""
    age = re.compile(r"\d+ \w+ old, expires in \d+ \w+")
    return [age.sub("old", row) if "  state " in row else row for row in rows]


# claim TG-C-276
def test_the_page_has_every_line_that_review_show_prints_in_order(served: Scene) -> None:
    data, odd = "Ice floats.", "why\n<b>not</b> \u05d0 1 \u05d1\n" + "long words " * 40
    (packet,) = served.hold(paper(1, data))
    code = "c\u043fde = 1  # \u05d0\u200d\ny = 2" + " " * 200 + "; z = 3\n" + "w = '" + "a" * 300
    earlier = fresh(f"{code}'\nz\n", purpose=box(odd))
    given = (Input("text", packet, len(data), None),)
    made = {"inputs": given, "derived_from": (packet,), "integrity": "external"}
    later = fresh(f"{code}b'\nz + 1\n", purpose=box(odd), **made)
    asked = fetch_request(created=now(), references=(box("10.1000/182"), box("10.1000/183")))
    ids = served.hold(earlier, later, asked)
    for request_id in ids:
        whole = printed(served, request_id)
        assert ageless(shown(served, request_id)) == ageless(whole)
    whole = printed(served, ids[1])
    for words in (packet[:12], "\\u{43f}", "\\u{200d}", "-w = '", "+w = '", "a" * 300):
        assert [row for row in whole if words in row], (words, "control: that is in it")
    assert [row for row in printed(served, ids[2]) if "10.1000/183" in row], "control"


# claim TG-C-276
def test_what_is_off_the_screen_of_a_zoomed_page_was_not_seen(served: Scene) -> None:
    """Two fingers enlarge a page without laying it out anew: most of it is beside the screen."""
    code = "\n".join(f"x{n} = {n}" for n in range(60)) + "\nx1\n"
    zoomed, plain = served.hold(fresh(code), fresh(code))
    tab = served.tab(f"/request/{zoomed}")
    enlarge(tab, 2)
    tab.wait("visualViewport.scale > 1.9")
    walk(tab)
    assert is_disabled(tab)
    tab.wait("document.getElementById('seen').innerText.startsWith('zoomed in')")
    enlarge(tab, 1)
    tab.wait("visualViewport.scale < 1.01")
    read_all(tab)
    assert not is_disabled(tab), "control: it can be seen all the same"
    tab = served.tab(f"/request/{plain}")
    walk(tab)
    assert not is_disabled(tab), "control: the same way without zoom shows all of it"


# As long as the script of the page takes to look at it a few times, on a busy machine too.
_TICKS = (
    "new Promise((done) => { let left = 4; const timer = setInterval(() => {"
    "left -= 1; if (!left) { clearInterval(timer); done(); } }, 200); })"
)


def walk(tab: Tab) -> None:
    """Let all of a page come by, and stay at each place for a moment."""
    tab.call("Page.bringToFront")
    tab.js(_TICKS)
    end = "scrollY + innerHeight >= document.documentElement.scrollHeight - 2"
    while not tab.js(f"window.scrollBy(0, 200), {end}"):
        tab.js(_TICKS)
    tab.js(_TICKS)


def enlarge(tab: Tab, scale: float) -> None:
    """Enlarge a page as two fingers do."""
    tab.call("Page.bringToFront")
    tab.call("Emulation.setPageScaleFactor", pageScaleFactor=scale)


def test_a_verdict_that_comes_late_moves_nothing(served: Scene) -> None:
    (request_id,) = served.hold(fresh("import socket\nsocket.socket()\n"))
    tab = served.tab()
    for width in (1280, 600):
        tab.size(width, 900)
        tab.open(f"{served.console.base}/request/{request_id}")
        tab.wait("document.getElementById('verdict').innerText.startsWith('refuses line 1')")
        at, height = tab.js(_PLACES % json.dumps("is being asked"))
        assert tab.js(_PLACES % json.dumps("refuses line 1: " + "a b c " * 200)) == [at, height]
        tab.js("document.querySelector('.verdict').classList.remove('verdict')")
        assert tab.js(_PLACES % json.dumps("a b c " * 200)) > [at, height], "control: it would"


_PLACES = (
    "(document.getElementById('verdict').textContent = %s,"
    "[document.getElementById('sheet').getBoundingClientRect().top + scrollY,"
    "document.documentElement.scrollHeight])"
)
