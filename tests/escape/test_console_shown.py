"""Texts that would trick whoever reads them in the console, in a real browser: every page."""

import json

import pytest

from tests.escape.test_console_browser import sends_away
from tests.escape.test_report_browser import ESCAPES, LOADS, MARKS, SCRIPTS
from tests.support.browser import BASE, Tab
from tests.support.console import (
    Canary,
    Scene,
    form_of,
    fresh,
    has_hidden,
    read_all,
    refuse_live,
    settled,
)
from tests.support.holdings import paper
from tests.support.samples import box
from threegate.base.text import FORBIDDEN, visible
from threegate.console.routes import PAGES
from threegate.gates.fetch.normalize.hazards import Findings, show

pytestmark = pytest.mark.usefixtures("closed_tabs")
MIB = 2**20
STYLE = "<style>*{display:none!important}#approve-button{position:fixed;inset:0}</style>"
MARKUP = "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=1></math>"
URLS = "javascript:alert(1) data:text/html,<script>1</script> vbscript:1 //elsewhere.test/x"
FRAME = "<base href='//elsewhere.test/'><form action=/x><button>Approve</button></form>"


def hostile(base: str, *more: str) -> str:
    parts = [ESCAPES, *LOADS.values(), *SCRIPTS.values(), MARKUP, URLS, *more]
    return FORBIDDEN.sub("", "\n".join(parts).replace(BASE, base))


# claim TG-C-270
def test_hostile_sources_answers_and_results_are_inert_on_every_page(
    served: Scene, enemy: Canary
) -> None:
    text = hostile(enemy.base, STYLE, FRAME, sends_away(served, enemy))
    acting = hostile(enemy.base)  # what hides or moves all of a page keeps others from acting
    enemy.pages["/plain"] = f"<!DOCTYPE html><html><body>{acting}</body></html>"
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    wanted = json.dumps(sorted(MARKS))
    plain.wait(f"{wanted}.every((m) => document.documentElement.outerHTML.includes(m))")
    settled(plain)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: elsewhere it acts"
    enemy.asked.clear()

    # A packet holds no markup: FETCH escapes it.  A result and a program hold anything.
    escaped = "\n".join(show(line, Findings()) for line in text.split("\n"))
    title = escaped.replace("\n", " ")[:900]
    (packet,) = served.hold(paper(1, escaped, "Ice floats.", title=title))
    (result,) = served.result(text)
    answer = served.cli("ask", "--extractive", "Does ice float?", "--json").json["id"]
    (request,) = served.hold(fresh("# " + text.replace("\n", "\n# ") + "\nx = 1\n"))
    paths = ["/packets?q=img", *(page.path for page in PAGES if page.listed)]
    paths += [f"/artifact/{packet}?text=1&offset=3&length=400", f"/request/{request}/bytes"]
    paths += [f"/artifact/{one}" for one in (packet, result, answer)]
    paths += [f"/request/{request}", f"/provenance/{packet}"]
    for path in paths:
        tab = served.tab(path)
        settled(tab)
        assert not {mark for mark in MARKS if mark in tab.html()}, path
        refuse_live(served, tab, path)
        served.chrome.close_tabs()
    tab = served.tab(f"/artifact/{result}")
    assert text.split("\n")[1] in tab.text(), "control: it is shown, as text"
    for path in (f"/provenance/{packet}/picture", f"/report/{answer}"):
        tab.open(served.console.base + path)
        settled(tab)
        assert tab.url == served.console.base + path
        assert not {mark for mark in MARKS if mark in tab.html()}, path
        assert tab.js("document.querySelectorAll('script, img, iframe, foreignObject').length") == 0
    assert enemy.asked == []


# In which order the characters of each line stand on the screen; sideways is another line.
_ORDER = """(selector) => [...document.querySelectorAll(selector)].map((row) => {
  const walk = document.createTreeWalker(row, NodeFilter.SHOW_TEXT), found = [];
  for (let node; (node = walk.nextNode());) for (let at = 0; at < node.length; at += 1) {
    const range = document.createRange();
    range.setStart(node, at); range.setEnd(node, at + 1);
    const box = range.getBoundingClientRect();
    if (box.width) found.push([Math.round(box.top), box.left, node.data[at]]);
  }
  return found.every((one, n) => !n || found[n - 1][0] !== one[0] || found[n - 1][1] <= one[1]);
})"""


def in_order(tab: Tab, selector: str) -> list[bool]:
    """Tell of each line whether its characters stand on screen in the order they have."""
    return [bool(one) for one in tab.js(f"({_ORDER})({json.dumps(selector)})")]


# claim TG-C-217
def test_a_program_reads_on_screen_in_the_order_in_which_it_runs(
    served: Scene, enemy: Canary
) -> None:
    """Letters that run from right to left need no control character to turn a line around."""
    lines = (
        "level = '\u05d0' + 1 + 2 + '\u05d1'  # \u05d2 3 * 4 \u05d3",
        "if \u0627 == 1 and \u0628 == 2: \u062a = 3",
        "x\u200d = 1; x = 2  # \u200c joiners",
        "c\u043fde = 5  # a letter of another alphabet",
    )
    rows = "".join(f"<p>{line}</p>" for line in lines)
    enemy.pages["/plain"] = f"<!DOCTYPE html><html><body>{rows}</body></html>"
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    assert in_order(plain, "p")[:2] == [False, False], "control: elsewhere it is turned around"
    assert has_hidden(plain), "control: and joiners hide"
    request = fresh("\n".join(lines) + "\n", purpose=box("\u05d0 1 \u05d1 2"))
    (request_id,) = served.hold(request)
    path = f"/request/{request_id}"
    tab = served.tab(path)
    titles = list(tab.js("[...document.querySelectorAll('#sheet h2')].map((e) => e.innerText)"))
    # Prose keeps the direction of its language; nothing else has one.
    for title in titles:
        place = f"#sheet .part:nth-of-type({titles.index(title) + 1}) .text"
        assert title == "purpose" or all(in_order(tab, place)), title
    assert [title for title in titles if title.startswith("code, 4 lines")], "control: it is there"
    refuse_live(served, tab, path)
    for spelled in ("\\u{200d}", "\\u{43f}"):
        assert spelled in tab.text()


@pytest.mark.slow
def test_lines_as_long_as_anything_allows_cover_nothing(served: Scene) -> None:
    """Ten megabytes on a line of a file, and what one megabyte is spelled out to.

    A form and a program are in `test_console_typed.py`.
    """
    huge = served.cli.base / "huge.md"
    huge.write_bytes(b"---\n" + b"a" * (10 * MIB))
    assert "TG-ART" in served.cli("admit", huge, code=65).out, "no artifact is that long"
    (result,) = served.result("\u200d" * (MIB - 1))
    tab = served.tab(f"/artifact/{result}")
    shown = int(tab.js("document.querySelector('main').textContent.length"))
    assert shown > 8 * MIB, "all of it is shown"
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")


# claim TG-C-217
def test_names_of_files_that_drive_a_terminal_are_spelled_out(served: Scene) -> None:
    name = "\x1b]52;c;aGk=\x07\x1b[31m<img src=x onerror=alert(1)>\u202etxt.exe"
    accepted = served.root / "handoff" / "packets" / "accepted"
    stray, turned = accepted / name, accepted / "\u05d0 12 \u05d1 34.md"
    stray.write_bytes(b"x")
    turned.write_bytes(b"x")
    tab = served.tab("/audit")
    tab.js(f"document.title = {json.dumps(name)}")
    assert has_hidden(tab), "control: the page would show them"
    tab.acts(lambda: tab.click("main button"))
    assert visible(name) in tab.text()
    refuse_live(served, tab, "/audit")
    lines = "main .part :is(.reason, .note)"
    assert all(in_order(tab, lines)), "letters of another direction turn no line of ours around"
    assert "\\u{5d0} 12 \\u{5d1} 34.md" in tab.text()
    tab.js(f"document.querySelector('main .part .note').textContent += {json.dumps(turned.name)}")
    assert not all(in_order(tab, lines)), "control: as they are they would"
    stray.unlink()
    turned.unlink()


_MOMENT_MS = 1500  # until both tabs say yes


def say_yes(tabs: list[Tab], request_id: str) -> list[tuple[int, str]]:
    """Have each tab send its own form at the same moment; return what each was answered."""
    path, at = json.dumps(f"/request/{request_id}/approve"), "Date.now()"
    moment = int(tabs[0].js(at)) + _MOMENT_MS
    for tab in tabs:
        tab.js(
            f"window.__answer = new Promise((done) => setTimeout(done, {moment} - {at}))"
            f".then(() => fetch({path}, {{method: 'POST', body: new URLSearchParams("
            "new FormData(document.getElementById('approve'))), headers: "
            "{'Content-Type': 'application/x-www-form-urlencoded'}}))"
            ".then(async (r) => [r.status, await r.text()]); 0"
        )
    return [(int(status), str(words)) for status, words in (tab.js("__answer") for tab in tabs)]


def shown_twice(served: Scene) -> tuple[str, list[Tab]]:
    """Hold a request, and look at all of it in two tabs."""
    (request_id,) = served.hold(fresh("race = 1\nrace\n"))
    tabs = [served.tab(f"/request/{request_id}") for _ in range(2)]
    for tab in tabs:
        read_all(tab)
    return request_id, tabs


# claim TG-C-275
def test_two_tabs_that_say_yes_at_once_make_one_approval(served: Scene) -> None:
    for alone in range(2):
        request_id, tabs = shown_twice(served)
        before = served.approvals()
        ((status, words),) = say_yes([tabs[alone]], request_id)
        assert (status, "approved " in words) == (200, True), "control: each does by itself"
        assert len(served.approvals() - before) == 1
        assert served.state(request_id) == "approved"
        served.chrome.close_tabs()
    request_id, tabs = shown_twice(served)
    before = served.approvals()
    answers = sorted(say_yes(tabs, request_id))
    assert [status for status, _ in answers] == [200, 409], answers
    assert "approved " in answers[0][1], "it leads to the page of the request"
    assert "TG-CON-010" in answers[1][1]
    assert "has changed since it was shown" in answers[1][1]
    assert len(served.approvals() - before) == 1
    for status, words in say_yes(tabs, request_id):
        assert (status, "TG-CON-009" in words) == (409, True), "and neither form works again"


# claim TG-C-275
def test_a_form_of_a_session_that_ended_is_refused(served: Scene) -> None:
    (request_id,) = served.hold(fresh("ended = 1\nended\n"))
    other = served.chrome.stranger()
    link = served.cli("serve", "--link", "--port", str(served.console.port)).out.strip()
    other.open(link)
    other.open(f"{served.console.base}/request/{request_id}")
    read_all(other)
    out = {"csrf": form_of(other)["csrf"]}
    before = served.approvals()
    script = (
        f"fetch('/logout', {{method: 'POST', redirect: 'manual', body: "
        f"new URLSearchParams({json.dumps(out)}), headers: "
        "{'Content-Type': 'application/x-www-form-urlencoded'}}).then(() => true)"
    )
    assert other.js(script)
    other.acts(lambda: other.click("#approve-button"))
    assert "Not logged in" in other.text()
    assert served.approvals() == before
    tab = served.tab(f"/request/{request_id}")
    read_all(tab)
    tab.acts(lambda: tab.click("#approve-button"))
    assert "approved " in tab.text(), "control: a session that goes on can"
