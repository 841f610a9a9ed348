"""A whole day in the console, in a real browser on the test internet: run inside by a `Place`.

Fetch, ask, review, approve, run, ask again, report; each by hand of the browser alone.  Started
with the directory of a user, where pictures go, and who answers: `played`, a server of this
process behind the real bridge, or the name of a model in the cache.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from tests.support.browser import Tab
from tests.support.cli import Cli
from tests.support.console import Scene, read_all, scene_of
from tests.support.core_doubles import replies, use_model, use_server
from tests.support.models import own_server
from tests.support.origins import works
from threegate.host.models.catalogue import by_name

PLAYED = "played"
QUESTION = "How does the flexural strength of ice change? Calculate the mean of the strengths."
CLAIM = {"claims": [{"text": "The flexural strength was 1.31 MPa.", "from": [2]}]}
COMPUTE = {"compute": "the mean of the strengths", "fetch": []}
CODE = {"code": "mean = (1.31 + 0.88 + 0.62) / 3\nprint('mean strength', mean, 'MPa')\nmean\n"}
REFERENCES = (works.ARTICLE, works.SECOND_ARTICLE, works.RETRACTED)
_OVER = (
    "document.readyState === 'complete' && !document.getElementById('asking') && "
    "document.body.innerText.includes('nswered')"
)
# A click that comes before a page was drawn once is lost.
_DRAWN = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
)


class Day:
    """One tab, from the first page to the last."""

    def __init__(self, scene: Scene, pictures: Path) -> None:
        self.scene, self._pictures, self._taken = scene, pictures, 0
        self.tab: Tab = scene.tab()

    def go(self, path: str) -> None:
        self.tab.open(self.scene.console.base + path)

    def keep(self, name: str) -> None:
        """Keep a picture of the page."""
        self._taken += 1
        self.tab.shot(self._pictures / f"day-{self._taken:02}-{name}.png")

    def follow(self, selector: str) -> None:
        """Click on a link."""
        assert self.tab.js(_DRAWN)
        self.tab.acts(lambda: self.tab.click(selector))

    def fill(self, selector: str, words: str) -> None:
        self.tab.click(selector)
        self.tab.type(words)

    def approve(self) -> str:
        """Look at all of the request on the page and say yes; return its id."""
        tab = self.tab
        request_id = tab.url.rpartition("/")[2]
        read_all(tab)
        if tab.js("!!document.getElementById('typed')"):
            tab.js("document.getElementById('typed').value = ''")  # an `a` may have got there
            self.fill("#typed", request_id.partition("-")[2][:8])
        tab.wait("!document.getElementById('approve-button').disabled")
        self.keep("approve")
        self.follow("#approve-button")
        tab.wait(
            "document.body.innerText.includes('approved ')"
        )  # it loads itself again when it ran
        return request_id

    def ran(self, request_id: str, count: int) -> list[dict[str, object]]:
        """Wait until a request came to its end, so many things having become of it."""
        events: list[dict[str, object]] = []
        number = 0
        while len(events) < count:
            number += 1
            event = self.scene.console.wait_for("ran", number)
            if event["request"] == request_id:
                events.append(event)
        return events


def fetch(day: Day) -> None:
    """Ask for three works, sign that, and read what came."""
    day.go("/fetch")
    day.fill("#references", "\n".join(f"doi:{one.doi}" for one in REFERENCES))
    day.fill("#purpose", "What is known about the strength of ice")
    day.keep("fetch")
    day.follow("main button[type=submit]")
    request_id = day.approve()
    ended = day.ran(request_id, len(REFERENCES))
    assert {one["outcome"] for one in ended} == {"made"}, ended
    assert {one["code"] for one in ended} == {""}
    day.tab.acts(lambda: day.tab.press("r"))
    made = "document.querySelectorAll(\"a[href^='/artifact/rp-']\").length"
    assert day.tab.js(made) == len(REFERENCES)
    day.go("/packets?q=strength")
    assert "retracted" in day.tab.text().lower()
    day.keep("packets")


def ask(day: Day, *, extractive: bool = False) -> bool:
    """Put a question, read the answer, and follow its first claim to its words."""
    tab = day.tab
    day.go("/ask")
    day.fill("#question", QUESTION)
    if extractive:
        tab.click("[name=extractive]")
    day.follow("main button[type=submit]")
    answered = finish_asking(day)
    if not answered:
        return False
    assert "1.31 MPa" in tab.text()
    answer = tab.url
    claim, words = "document.querySelector('.claim:has(.cite)')", ".foreign:not(.headed)"
    quoted = f"[...{claim}.querySelectorAll('{words}')].at(-1)"
    quote = str(tab.js(f"{quoted}.innerText"))  # of words that are quoted there is no second copy
    day.follow(".cite a")
    assert tab.js("document.getElementById('quote').innerText") == quote, "its exact words"
    tab.open(answer)
    day.keep("answer")
    return True


def finish_asking(day: Day) -> bool:
    """Wait for the end of a question, however long a model takes; open the answer."""
    while True:
        try:
            day.tab.wait(_OVER)
            break
        except TimeoutError:
            state = day.tab.js("fetch('/ask/state').then((answer) => answer.json())")
            assert state == {"over": False}, day.tab.text()
    if day.tab.js("!document.querySelector('main a.open')"):
        assert "[TG-COR-" in day.tab.text() or "TG-COR-" in day.tab.text(), day.tab.text()
        return False
    day.follow("main a.open")
    return True


def run(day: Day) -> str:
    """Approve the program that CORE drafted, else one of the operator's own; return its result."""
    tab, answer = day.tab, day.tab.url.rpartition("/")[2]
    day.go("/inbox")
    if tab.js("!!document.querySelector(\"a[href^='/request/tr-']\")"):
        day.keep("inbox")
        day.follow("a[href^='/request/tr-']")
    else:
        day.go("/run")
        day.fill("#purpose", "The mean of the strengths")
        day.fill("#code", CODE["code"])
        day.fill("#inputs", f"answer={answer}")
        day.keep("run")
        day.follow("main button[type=submit]")
    assert "/request/tr-" in tab.url, tab.text()
    (ended,) = day.ran(day.approve(), 1)
    assert str(ended["made"]).startswith("res-"), ended
    tab.acts(lambda: tab.press("r"))
    day.follow("a[href^='/artifact/res-']")
    day.keep("result")
    return str(ended["made"])


def ask_again(day: Day, answer: str, result: str) -> None:
    """Go on from the answer; what was computed is a source now."""
    tab = day.tab
    tab.open(answer)
    day.follow("main a[href^='/ask?continues=']")
    day.fill("#question", "What is the mean strength in MPa?")
    tab.click("[name=extractive]")
    day.follow("main button[type=submit]")
    assert finish_asking(day)
    assert tab.js(f"!!document.querySelector(\"a[href^='/artifact/{result}']\")"), tab.text()


def report(day: Day) -> None:
    """Open the report, and have it as files."""
    tab = day.tab
    analysis_id = tab.url.rpartition("/")[2]
    read = "new Uint8Array(await (await fetch('{}')).arrayBuffer())"
    for form, start in (("pdf", "%PDF-"), ("md", "# `What is ")):
        path = f"/report/{analysis_id}/{form}"
        script = f"(async () => String.fromCharCode(...{read.format(path)}.slice(0, 11)))()"
        assert str(tab.js(script)).startswith(start)
    day.follow(f"main a[href='/report/{analysis_id}']")
    assert "What is the mean strength" in str(tab.js("document.querySelector('h1').innerText"))
    assert analysis_id in tab.text(), tab.text()[:500]
    assert "What was checked" in tab.text()
    colour = "getComputedStyle(document.querySelector('.foreign')).backgroundColor"
    assert tab.js(colour) == "rgb(244, 241, 232)", "its own style sheet counts"
    assert tab.js("document.scripts.length") == 0
    day.keep("report")


def spend(cli: Cli, pictures: Path) -> None:
    """Live the day."""
    with scene_of(cli) as scene:
        day = Day(scene, pictures)
        fetch(day)
        answered = ask(day) or ask(day, extractive=True)
        assert answered
        answer = day.tab.url
        result = run(day)
        ask_again(day, answer, result)
        report(day)
        day.go("/audit")
        day.follow("main button")
        assert "verified" in day.tab.text()
        day.keep("audit")
        wanted = ("Log.entryAdded", "Runtime.exceptionThrown")
        errors = [one["params"] for one in scene.chrome.heard if one["method"] in wanted]
        assert errors == []
        bugs = [one for one in scene.console.events if one["event"] == "bug"]
        assert bugs == []


def main(base: Path, pictures: Path, model: str, cache: str) -> None:
    """Sign a policy that names who answers, and live the day."""
    cli = Cli(base, base / "ws", {"XDG_CACHE_HOME": cache} if cache else {})
    with ExitStack() as stack:
        if model == PLAYED:
            server = stack.enter_context(own_server())
            server.complete = replies(CLAIM, COMPUTE, CODE)
            use_server(cli, server.port)
        else:
            found = by_name(model)
            assert found is not None
            digest = found.files[0].sha256
            rules = {"claims": "4", "output_tokens": "512", "drafts": "2", "retries": "1"}
            use_model(cli, deadline="15m", name=model, sha256=digest, **rules)
        spend(cli, pictures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
