"""The console on a small screen, in a real browser: every page fits and everything is reachable."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.test_console_pages import contrast, everything
from tests.e2e.test_console_session import violations
from tests.support.browser import Tab
from tests.support.console import (
    PICTURES,
    Scene,
    fresh,
    is_disabled,
    opened,
    read_all,
    scene,
    settled,
)
from tests.support.holdings import answer_on, png
from tests.support.samples import tool_result
from tests.support.workspaces import take_in

WIDTH, HEIGHT = 390, 844
LARGEST_SHARE = 0.15  # of the screen, for what stays on top of every page
TABLE = b",group,mean\n" + b"".join(b"%d,group-%d,%d.25\n" % (n, n, n) for n in range(70))
COLUMNS = "group     mean  n\nalpha     1.25  1\niiiiiiii  0.75  2\nWWWWWWWW  0.50  3\n"
LOOKED_AT = ("files", "run", "code", "answer", "policy")  # every kind of element is on one of them

# Fields and buttons that cannot be brought on screen, or lie under something else there.
_UNREACHABLE = """[...document.querySelectorAll('main *')]
  .filter((e) => e.matches('a, button, input, select, textarea, summary'))
  .filter((e) => e.type !== 'hidden' && !e.disabled && e.getClientRects().length)
  .filter((e) => {
    e.scrollIntoView({block: 'center', inline: 'nearest'});
    const box = e.getClientRects()[0];
    const [x, y] = [box.left + Math.min(box.width, 8) / 2, box.top + box.height / 2];
    const found = document.elementFromPoint(x, y);
    return !(found && e.contains(found) && x >= 0 && x <= innerWidth);
  }).map((e) => e.outerHTML.slice(0, 200))"""
_SHARE = "document.querySelector('header.top').getBoundingClientRect().height / innerHeight"
_COVERED = """[...document.querySelectorAll('body *')]
  .filter((e) => ['fixed', 'sticky'].includes(getComputedStyle(e).position))
  .reduce((sum, e) => sum + e.getBoundingClientRect().height, 0) / innerHeight"""
_WIDTH = "document.scrollingElement.scrollWidth"
_CURRENT = """(() => { const e = document.querySelector('.top nav [aria-current]');
  if (!e) return true; const b = e.getBoundingClientRect();
  return b.left >= 0 && b.right <= innerWidth; })()"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("console"), "--no-run") as found:
        yield found


@pytest.fixture(scope="module")
def paths(served: Scene) -> dict[str, str]:
    return everything(served)


@pytest.fixture(autouse=True)
def _tabs(served: Scene) -> Iterator[None]:
    yield
    served.chrome.close_tabs()


def narrow(served: Scene) -> Tab:
    tab = served.tab()
    tab.size(WIDTH, HEIGHT)
    return tab


# claim TG-C-465
def test_every_page_fits_a_small_screen_in_both_schemes(
    served: Scene, paths: dict[str, str]
) -> None:
    with opened(served.cli) as ws:
        files = {"a.csv": TABLE, "plot.png": png(width=640), "page.html": b"<b>"}
        answer, result = answer_on(ws, files)
    paths = paths | {"files": f"/artifact/{result}", "of-run": f"/artifact/{answer}"}
    tab = narrow(served)
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        for name, path in paths.items():
            tab.open(served.console.base + path)
            tab.shot(PICTURES / f"narrow-{name}-{scheme}.png")
            tab.js("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert tab.js(_WIDTH) <= WIDTH, (name, tab.js(_WIDTH))
            assert tab.js(_SHARE) < LARGEST_SHARE, name
            assert tab.js(_COVERED) < LARGEST_SHARE, name
            assert tab.js(_CURRENT), (name, "the page we are on is in sight in the row of pages")
            assert tab.js(_UNREACHABLE) == [], name
            if name in LOOKED_AT:
                assert violations(tab) == [], (name, scheme)
                assert contrast(tab) == [1, []], (name, scheme)
    tab.js("document.adoptedStyleSheets = [new CSSStyleSheet()]")
    over = "main::after { content: ''; position: fixed; inset: 0; }"
    for rule in ("main { min-width: 421px; }", ".top { height: 40vh; }", over):
        tab.js(f"document.adoptedStyleSheets[0].insertRule({json.dumps(rule)})")
    assert tab.js(_WIDTH) > WIDTH, "control"
    assert tab.js(_SHARE) > LARGEST_SHARE, "control"
    assert tab.js(_UNREACHABLE), "control"


# claim TG-C-466
def test_on_a_small_screen_a_yes_takes_a_look_at_all_of_it_too(served: Scene) -> None:
    """The form is below the request there, off the screen: what is between was not seen."""
    (request_id,) = served.hold(fresh("\n".join(f"x{n} = {n}" for n in range(200)) + "\nx1\n"))
    tab = narrow(served)
    tab.open(f"{served.console.base}/request/{request_id}")
    settled(tab)
    settled(tab)
    seen = "document.getElementById('seen').innerText"
    tab.wait(f"{seen}.startsWith('seen ')")
    share = int(str(tab.js(f"{seen}.match(/[0-9]+/)[0]")))
    assert share < 50, "a screen of it is not all of it"
    for _ in range(3):
        tab.js("window.scrollTo(0, document.body.scrollHeight)")
        settled(tab)
    assert is_disabled(tab), "the end alone is not all of it"
    read_all(tab)
    tab.wait("!document.getElementById('approve-button').disabled")
    tab.acts(lambda: tab.click("#approve-button"))
    assert "approved " in tab.text(), "control: having read it, one can approve it there"
    assert served.state(request_id) == "approved"


# Where everything is that can be clicked, and what lies over it where that is news.
_PLACES = """[...document.querySelectorAll('a, button, input, select, textarea, summary')]
  .filter((e) => e.type !== 'hidden' && !e.closest('#live') && e.getClientRects().length)
  .map((e) => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })"""
_UNDER_NEWS = """(() => { const n = document.getElementById('live').getBoundingClientRect();
  return [...document.querySelectorAll('a, button, input, select, textarea, summary')]
    .filter((e) => e.type !== 'hidden' && !e.closest('#live'))
    .filter((e) => [...e.getClientRects()].some((b) => b.left < n.right && b.right > n.left
      && b.top < n.bottom && b.bottom > n.top)).map((e) => e.outerHTML.slice(0, 200)); })()"""
_SHOWN = """(() => { const e = document.getElementById('live-reload');
  const b = e.getBoundingClientRect(), top = document.querySelector('header.top');
  const found = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);
  return found === e && top.contains(e) && b.left >= 0 && b.right <= innerWidth; })()"""


# claim TG-C-465
def test_news_covers_nothing_and_moves_nothing(served: Scene, paths: dict[str, str]) -> None:
    """A click that was meant for a button must not land on news, nor on another button."""
    tab = served.tab()
    for width in (1280, 800, WIDTH, 320):
        tab.size(width, HEIGHT)
        for name, path in paths.items():
            tab.open(served.console.base + path)
            tab.js("document.getElementById('live').hidden = true")  # of what the test itself did
            before = tab.js(_PLACES)
            assert before, name
            for words in ("Something changed.", "It ran: a-word-longer-than-any-outcome."):
                said = f"document.getElementById('live-words').textContent = {json.dumps(words)}"
                tab.js(f"{said}; document.getElementById('live').hidden = false")
                assert tab.js(_SHOWN), (width, name)
                assert tab.js(_UNDER_NEWS) == [], (width, name)
                assert tab.js(_PLACES) == before, (width, name)
    tab.js("document.getElementById('live').style.position = 'fixed'")
    tab.js("document.getElementById('live').style.inset = '0'")
    assert tab.js(_UNDER_NEWS), "control"


_WIDTHS = """(() => [...document.querySelectorAll('.foreign bdi')].map((e) => {
  const range = document.createRange(); range.selectNodeContents(e);
  return [e.textContent, Math.round(range.getBoundingClientRect().width)]; }))()"""


def test_columns_that_a_program_printed_line_up(served: Scene) -> None:
    with opened(served.cli) as ws:
        _, request = answer_on(ws, {"a": b"x"})
        found = ws.store.read(request)
        same = {"request": found.request, "approval": found.approval}  # type: ignore[union-attr]
        (result,) = take_in(ws, tool_result("1", COLUMNS, COLUMNS, **same))
    for width in (WIDTH, 1280):
        tab = served.tab()
        tab.size(width, HEIGHT)
        tab.open(f"{served.console.base}/artifact/{result}")
        lines = {text: wide for text, wide in tab.js(_WIDTHS) if len(text) == 17}
        assert len(lines) == 4, lines
        assert len(set(lines.values())) == 1, "each has 17 characters, so all are equally wide"
    tab.js("document.querySelectorAll('.output').forEach((e) => e.classList.remove('output'))")
    lines = {text: wide for text, wide in tab.js(_WIDTHS) if len(text) == 17}
    assert len(set(lines.values())) > 1, "control: in the font of prose they are not"
