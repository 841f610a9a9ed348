"""A day in the console, in a real browser: read, ask, review, approve, run; every page once."""

import json
from collections.abc import Iterator
from pathlib import Path

import axe_core_python  # type: ignore[import-untyped]
import pytest

from tests.support.browser import Tab
from tests.support.console import PICTURES, Scene, fresh, now, read_all, scene
from tests.support.holdings import found_by_search, paper, shelf
from tests.support.samples import box, fetch_request
from threegate.console.routes import PAGES

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8")
CANDIDATES = (
    "title: On the strength of sea ice\npublished: 2024-03-17\ndoi:10.5555/12345678",
    "title: Ice, retracted\npublished: 2020\nretraction: retracted\ndoi:10.5555/87654321",
    "title: A talk about ice, without any name",
)
LOOKED_AT = ("request", "answer", "run-heavy", "candidates")
AXE_SECONDS = 200.0  # it looks at every element, on a busy machine too
_FOUND = (
    "axe.run().then((found) => JSON.stringify(found.violations.map((one) =>"
    "[one.id, one.nodes.map((node) => node.html.slice(0, 200))])))"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("console")) as found:
        yield found


def looked_over(tab: Tab, script: str) -> list[object]:
    """Return what axe finds; it is let in past the policy of the page, which allows no script."""
    tab.call("Page.setBypassCSP", enabled=True)
    # Three hundred rules take it half a minute, and the rows of a table are made by one line.
    tab.js("document.querySelectorAll('tbody tr:nth-child(n+9)').forEach((row) => row.remove())")
    tab.js(f"{AXE};0")
    found = list(json.loads(str(tab.js(script, seconds=AXE_SECONDS))))
    tab.call("Page.setBypassCSP", enabled=False)
    return found


def violations(tab: Tab) -> list[object]:
    """Return what is not accessible on a page."""
    return looked_over(tab, _FOUND)


def errors(scene: Scene) -> list[object]:
    """Return what the browser complained about."""
    wanted = ("Log.entryAdded", "Runtime.exceptionThrown")
    return [one["params"] for one in scene.chrome.heard if one["method"] in wanted]


def test_a_session_from_a_question_to_a_result(served: Scene) -> None:
    served.hold(*shelf())
    tab = served.tab("/ask")
    tab.click("#question")
    tab.type("How tough is sea ice?")
    tab.click("[name=extractive]")
    tab.acts(lambda: tab.click("main button[type=submit]"))
    tab.wait("document.body.innerText.includes('Read the answer')")
    tab.acts(lambda: tab.click("main a.open"))
    assert "quote found" in tab.text()
    words = str(tab.js("document.querySelector('.claim .foreign').innerText"))
    tab.acts(lambda: tab.click(".cite a"))
    assert tab.js("document.getElementById('quote').innerText") == words, "its exact place"

    (request_id,) = served.hold(fresh())
    tab.open(f"{served.console.base}/inbox")
    tab.press("j")
    tab.acts(lambda: tab.press("Enter"))
    assert request_id in tab.url
    tab.wait("document.getElementById('verdict').innerText.startsWith('can express it')")
    read_all(tab)
    tab.js("document.activeElement.blur()")
    tab.press("a")
    tab.acts(lambda: tab.press("Enter"))
    tab.wait("document.body.innerText.includes('approved ')")
    ran = served.console.wait_for("ran")
    assert (ran["request"], ran["outcome"], ran["code"]) == (request_id, "ok", "")
    tab.wait("document.getElementById('sheet').dataset.state === 'done'")  # by itself
    assert "approved " in tab.text(), "and it still says what was done"
    tab.acts(lambda: tab.click("a[href^='/artifact/res-']"))
    assert "3" in str(tab.js("document.querySelector('.foreign:not(.headed)').innerText"))
    assert served.state(request_id) == "done"
    (other,) = served.hold(fresh("x = 3\nx\n"))
    tab.open(f"{served.console.base}/request/{other}")
    tab.press("d")
    tab.type("not needed")
    tab.acts(lambda: tab.press("Enter"))
    assert (served.state(other), tab.url) == ("denied", f"{served.console.base}/inbox")
    assert errors(served) == []


def test_every_page_is_there_and_accessible(served: Scene) -> None:
    (packet,) = served.hold(paper(7, "Ice floats."))
    (found,) = served.hold(found_by_search(*CANDIDATES))
    analysis = served.cli("ask", "--extractive", "Does ice float?", "--json").json["id"]
    tab = served.tab()
    (waiting,) = served.hold(fetch_request(created=now(), references=(box("10.1000/182"),)))
    paths = {
        **{page.path.removeprefix("/"): page.path for page in PAGES if page.listed},
        "packets": "/packets?q=ice",
        "search": "/search",
        "candidates": f"/candidates/{found}",
        "run-heavy": "/run?backend=era&limits=wall_ms%3D10s&name-1=rows",  # every part is open
        "packet": f"/artifact/{packet}",
        "answer": f"/artifact/{analysis}",
        "provenance": f"/provenance/{analysis}",
        "request": f"/request/{waiting}",
        "bytes": f"/request/{waiting}/bytes",
    }
    for name, path in paths.items():
        tab.open(served.console.base + path)
        assert "Not done" not in tab.text(), (name, tab.text())
        tab.shot(PICTURES / f"{name}.png")
        assert violations(tab) == [], name
    for width, scheme in ((1280, "dark"), (820, "light")):
        tab.size(width, 900)
        tab.scheme(scheme)
        for name in (*LOOKED_AT, "fetch", "inbox", "audit", "policy"):
            tab.open(served.console.base + paths[name])
            tab.shot(PICTURES / f"{name}-{scheme}-{width}.png")
            assert tab.js("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            if name in LOOKED_AT:  # every colour and every kind of field
                assert violations(tab) == [], (name, scheme)
    tab.press("?")
    assert tab.js("document.getElementById('help').open")


def test_axe_finds_what_it_should(served: Scene) -> None:
    tab = served.tab()
    tab.js("document.querySelector('#help-button').removeAttribute('title')")
    tab.js("document.querySelector('#help-button').textContent = ''")
    assert [one[0] for one in violations(tab) if isinstance(one, list)] == ["button-name"], (
        "control"
    )


def test_verifying_and_trying_the_boxes(served: Scene) -> None:
    tab = served.tab("/audit")
    tab.acts(lambda: tab.click("main button"))
    assert "verified" in tab.text()
    tab.open(f"{served.console.base}/doctor")
    tab.acts(lambda: tab.click("main button"))
    assert "mode s" in tab.text()


def test_a_page_is_told_what_others_do(served: Scene) -> None:
    tab = served.tab("/inbox")
    tab.wait("document.getElementById('live').hidden")
    served.hold(fresh("x = 4\nx\n"))
    tab.wait("!document.getElementById('live').hidden")
