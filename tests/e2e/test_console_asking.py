"""A question in the browser while a model writes: what the page says meanwhile, and of the answer.

The model is a server of the test behind the real bridge; CORE is in its real box.
"""

import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.browser import Tab
from tests.support.console import PICTURES, scene_of
from tests.support.core_doubles import asked_of, asker, use_server
from tests.support.holdings import shelf
from tests.support.models import completion, own_server, says

QUESTION = "At which pressure did sea ice break?"
GENERATED = "The sea ice gave way under load."
WRONG = "Sea ice broke at 7.7 MPa."
QUOTE = "Sea ice at -5 \u00b0C broke at 1.2 MPa."
LOOSE = "Everybody was surprised."


class Writer:
    """A model that begins to write when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()

    def __call__(self, sock: Any, server: Any) -> None:
        assert self.may.wait(60)
        _, found = asked_of(server.asked[-1])
        (at,) = [number for number, text in found.items() if text == QUOTE]
        claims = [(GENERATED, [at]), (WRONG, [at]), (LOOSE, [])]
        reply = {"claims": [{"text": text, "from": cited} for text, cited in claims]}
        says(completion(json.dumps(reply, separators=(",", ":"))))(sock, server)


def test_progress_labels_and_the_quote_of_an_answer(tmp_path: Path) -> None:
    cli = asker(tmp_path, *shelf())
    with own_server() as server:
        server.complete = writer = Writer()
        use_server(cli, server.port, drafts="0")
        with scene_of(cli, "--no-run") as served:
            tab = served.tab("/ask")
            tab.click("#question")
            tab.type(QUESTION)
            tab.acts(lambda: tab.click("main button[type=submit]"))
            words = "document.getElementById('asking-words').innerText"
            first = tab.js(words)
            tab.js("window.__same = true")
            while not server.bodies():
                time.sleep(0.05)
            told = [one["words"] for one in served.console.events if one["event"] == "asking"]
            tab.wait(f"{words} === {json.dumps(told[-1])}")
            assert told[-1] != first
            assert "loading the model" in told
            assert tab.js("window.__same"), "the page was not loaded anew for it"
            assert tab.js("document.querySelector('main button[type=submit]').disabled")
            tab.shot(PICTURES / "asking.png")
            writer.may.set()
            tab.wait("document.body.innerText.includes('Read the answer')")
            steps = "[...document.querySelectorAll('main .note')].map((e) => e.innerText)"
            assert set(told) <= set(tab.js(steps)), "what it said stays there"
            tab.acts(lambda: tab.click("main a.open"))
            read_answer(tab)


# The label of each claim, its colour, its words, and what is quoted for it.
_CLAIMS = """[...document.querySelectorAll('.claim')].map((one) => [
  one.querySelector('.chip').innerText, one.querySelector('.chip').classList[1],
  ...[...one.querySelectorAll('.foreign')].map((text) => text.innerText)])"""
TITLE = "On the strength of sea ice (Ada Example et al., 2024)"


def read_answer(tab: Tab) -> None:
    """Compare every mark with what was checked, and follow a quote to its place."""
    found = [tuple(one) for one in tab.js(_CLAIMS)]
    assert found[:3] == [
        ("quote found", "good", GENERATED, QUOTE, TITLE),
        ("number differs", "bad", WRONG, QUOTE, TITLE),
        ("unchecked", "warn", LOOSE),
    ]
    assert {one[:2] for one in found[3:]} == {("quote found", "good")}, "of the host's own"
    answer = tab.url
    for number in (1, 2):
        tab.acts(partial(tab.click, f".claim:nth-of-type({number}) .cite a"))
        assert tab.js("document.getElementById('quote').innerText") == QUOTE, "its exact words"
        tab.open(answer)
