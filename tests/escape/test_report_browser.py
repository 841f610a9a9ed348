"""A report made of hostile text, opened in a real browser: nothing runs, nothing is asked for."""

from html import escape
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from tests.support.browser import BASE, opened
from tests.support.cli import made, write
from tests.support.holdings import paper
from tests.support.reports import drawn, saying
from threegate.artifacts import registry
from threegate.host.review.characters import in_lines, on_one_line

# Each asks for its own name.
LOADS = {
    "img": f'<img src="{BASE}/img">',
    "svg": f'<svg><image href="{BASE}/svg"/></svg>',
    "link": f'<link rel="stylesheet" href="{BASE}/link">',
    "prefetch": f'<link rel="prefetch" href="{BASE}/prefetch">',
    "import": f"<style>@import url({BASE}/import);</style>",
    "background": f'<p style="background:url({BASE}/background)">x</p>',
    "frame": f'<iframe src="{BASE}/frame"></iframe>',
    "object": f'<object data="{BASE}/object"></object>',
    "video": f'<video src="{BASE}/video" preload="auto"></video>',
    "script": f'<script src="{BASE}/script"></script>',
    "fetch": f'<script>fetch("{BASE}/fetch")</script>',
    "beacon": f'<script>navigator.sendBeacon("{BASE}/beacon")</script>',
}
# Each leaves a product on the root that stands in none of the texts.
_RAN = "document.documentElement.setAttribute('data-{}', 6 * 7)"
SCRIPTS = {
    "inline": f"<script>{_RAN.format('inline')}</script>",
    "handler": f'<img src="x:" onerror="{_RAN.format("handler")}">',
    "drawing": f'<svg onload="{_RAN.format("drawing")}"></svg>',
}
# What a text would have to write to leave the place it stands in.
ESCAPES = "</pre></bdi></code></text></title></svg></style></li></ul></div>-->]]>\"'>"
BIDI = "\u202eecalp sti ni sdnats txet siht\u2066\u200f"
GOES_ELSEWHERE = f'<meta http-equiv="refresh" content="0;url={BASE}/refresh">'
HOSTILE = "\n".join([ESCAPES, *LOADS.values(), *SCRIPTS.values(), GOES_ELSEWHERE, BIDI])
ASKED = {f"/{name}" for name in LOADS}
MARKS = {f'data-{name}="42"' for name in SCRIPTS}


def plain(body: str) -> bytes:
    return f"<!DOCTYPE html><html><body>{body}</body></html>".encode()


def marks(dom: str) -> set[str]:
    return {mark for mark in MARKS if mark in dom}


def foreign(dom: str) -> list[str]:
    """Return the texts of others as they stand in the browser's tree."""
    return [one.text() for one in LexborHTMLParser(dom).css("pre.foreign, bdi.foreign")]


# claim TG-C-157
def test_a_browser_runs_and_asks_for_nothing_in_a_report(tmp_path: Path) -> None:
    acting = opened(plain("\n".join([*LOADS.values(), *SCRIPTS.values()])), tmp_path / "plain")
    assert set(acting.asked) >= ASKED, "control: in a plain page each of them is asked for"
    assert marks(acting.dom) == MARKS, "control: and every script runs"
    leaving = opened(plain(GOES_ELSEWHERE), tmp_path / "leaving")
    assert "/refresh" in leaving.asked, "control: and it goes where it is sent"

    page = drawn(saying(HOSTILE), "html")
    found = opened(page, tmp_path / "report")
    assert (found.asked, found.connections) == ([], 0)
    assert marks(found.dom) == set()
    assert BIDI[0] in HOSTILE
    assert not set(BIDI[0] + BIDI[-1]) & set(found.dom), "what reorders is spelled out"
    shown = {"\n".join(in_lines(HOSTILE)), on_one_line(HOSTILE)}
    assert shown <= set(foreign(found.dom)), "all of it is shown"


# claim TG-C-157
def test_the_policy_of_the_page_would_hold_without_escaping(tmp_path: Path) -> None:
    """The second wall alone: what a text becomes if it is written into the page as it is."""
    text = "\n".join([*LOADS.values(), *SCRIPTS.values()])
    page = drawn(saying(text), "html").decode()
    broken = page.replace(escape("\n".join(in_lines(text))), text)
    assert broken.count(text) >= 3, "control: the text is markup now"
    without = broken.replace('http-equiv="Content-Security-Policy"', 'name="nothing"', 1)
    acting = opened(without.encode(), tmp_path / "without")
    assert set(acting.asked) >= ASKED, "control: without the policy it acts"
    assert marks(acting.dom) == MARKS
    found = opened(broken.encode(), tmp_path / "with")
    assert found.asked == [], "a browser may connect ahead of what it is not allowed to ask for"
    assert marks(found.dom) == set()


# claim TG-C-157
def test_the_report_of_the_real_command_is_as_inert(tmp_path: Path) -> None:
    words = f"How cold is ice? {SCRIPTS['inline']} {LOADS['img']}"
    cli = made(tmp_path)
    spelled = words.replace("<", "&lt;")  # a packet holds no markup, but what becomes of it may
    cli("admit", write(tmp_path / "p.md", registry.emit(paper(1, f"Ice is cold. {spelled}"))))
    found = cli("ask", "--extractive", words, "--json").json
    page = cli("report", found["id"], "--format", "html").raw_out
    seen = opened(page, tmp_path / "report")
    assert (seen.asked, seen.connections) == ([], 0)
    assert marks(seen.dom) == set()
    shown = foreign(seen.dom)
    assert words in shown
    assert any(spelled in one for one in shown), "the quote is shown as it stands"
