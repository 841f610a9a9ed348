"""Everything in the corpus of injections and tricky texts, shown by the console in a real browser.

All of it is offered as a source (escaped as FETCH does), as the output of a run and as programs,
and each page is looked at: the words are there, and nothing in them acts, hides or leads away.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Tab
from tests.support.console import Scene, canary, fresh, has_hidden, refuse_live, scene
from tests.support.holdings import paper
from tests.support.requests import unspelled
from threegate.base.text import FORBIDDEN
from threegate.gates.fetch.normalize.hazards import Findings, show
from threegate.host.review.characters import in_lines

MAX_CHARS = 19_000  # of one text in a packet
CODE_CHARS = 60_000
_FOREIGN = (
    "[...document.querySelectorAll('main .foreign')].map((box) =>"
    "[...box.querySelectorAll('bdi')].map((line) => line.textContent).join('\\n'))"
)


_PART = "part.querySelector('h2').textContent.startsWith('code, ')"
_CODE = (
    f"[...[...document.querySelectorAll('#sheet .part')].find((part) => {_PART})"
    ".querySelectorAll('.row')]"
    ".filter((row) => /[|!] $/.test(row.querySelector('.margin').textContent))"
    ".map((row) => row.querySelector('.text').textContent)"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("console"), "--no-run") as found:
        yield found


def texts(corpus: Path) -> dict[str, str]:
    """Return every file of both parts of the corpus."""
    found = {}
    for part in ("injection", "unicode"):
        for path in sorted((corpus / part).rglob("*")):
            if path.is_file():
                name = str(path.relative_to(corpus))
                found[name] = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    return found


def parts(text: str) -> list[str]:
    """Return a text as the excerpts of a packet."""
    shown = "\n".join(show(line, Findings()) for line in text.split("\n"))
    return [shown[at : at + MAX_CHARS] for at in range(0, len(shown), MAX_CHARS)]


def look(served: Scene, tab: Tab, path: str) -> list[str]:
    """Open a page, on which everything must be inert; return the foreign texts it shows."""
    tab.open(served.console.base + path)
    refuse_live(served, tab, path)
    assert tab.js("document.documentElement.getAttributeNames().sort().join()") == "dir,lang"
    return list(tab.js(_FOREIGN))


def acts_elsewhere(served: Scene, text: str) -> tuple[int, bool]:
    """Return how many elements a text is in a plain page, and whether it hides anything there."""
    with canary() as enemy:
        enemy.pages["/"] = f"<!DOCTYPE html><html><body><main>{text}</main></body></html>"
        plain = served.chrome.tab()
        plain.call("Emulation.setScriptExecutionDisabled", value=True)  # some of it would stay
        plain.open(f"{enemy.base}/")
        return int(plain.js("document.querySelectorAll('main *').length")), has_hidden(plain)


# claim TG-C-218
def test_the_corpus_is_shown_as_text_and_nothing_else(served: Scene, corpus: Path) -> None:
    found = texts(corpus)
    assert len([name for name in found if name.startswith("injection/")]) >= 30
    assert len([name for name in found if name.startswith("unicode/")]) >= 18
    whole = "\n".join(found.values())
    elements, hides = acts_elsewhere(served, whole)
    assert elements > 50, "control: elsewhere it is markup"
    assert hides, "control: and some of it hides or turns text around"
    tab = served.tab()
    written = {name: FORBIDDEN.sub("", text) for name, text in found.items()}  # what can be held
    (result,) = served.result("\n".join(written.values()))
    shown = "\n".join(look(served, tab, f"/artifact/{result}"))
    for name, text in written.items():
        assert "\n".join(in_lines(text)) in shown, name
    (packet,) = served.hold(paper(1, *parts(whole)))
    kept = look(served, tab, f"/artifact/{packet}")
    assert {"\n".join(in_lines(part)) for part in parts(whole)} <= set(kept)
    for at in range(0, len(whole), CODE_CHARS):
        code = FORBIDDEN.sub("", whole[at : at + CODE_CHARS]).replace("\n", "\n# ")
        (request,) = served.hold(fresh(f"# {code}\nx = 1\n"))
        look(served, tab, f"/request/{request}")
        shown = "\n".join(map(unspelled, tab.js(_CODE)))
        assert shown == f"# {code}\nx = 1", (
            "every character of it is there, spelled out or as it is"
        )
        look(served, tab, f"/request/{request}/bytes")
    for path in ("/inbox", "/packets", "/results", "/packets?q=ignore"):
        look(served, tab, path)
    assert [one for one in served.console.events if one["event"] == "bug"] == []
