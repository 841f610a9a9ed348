"""A workspace, a console that serves it and a browser that was let in, for many tests at once."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.chrome import SECONDS, Chrome, Tab, chrome
from tests.support.cli import Cli, made
from tests.support.console import Console, console, held, opened, state
from tests.support.results import put_results
from tests.support.workspaces import files_below
from threegate.artifacts.registry import Artifact

REBOUND = "rebound.test"
ELSEWHERE = "elsewhere.test"
ICON = "/favicon.ico"  # asked for by the browser itself, of any page, whenever it finds the time
PICTURES = Path(__file__).resolve().parents[2] / "dist" / "console"


@dataclass
class Scene:
    """Everything a test of the console needs."""

    cli: Cli
    console: Console
    chrome: Chrome

    @property
    def root(self) -> Path:
        assert self.cli.workspace is not None
        return self.cli.workspace

    def hold(self, *artifacts: Artifact) -> list[str]:
        """Take artifacts in, as `admit` does; return their ids."""
        return held(self.cli, *artifacts)

    def result(self, *texts: str) -> list[str]:
        """Put results with these outputs there; return their ids."""
        with opened(self.cli) as ws:
            return put_results(ws, texts)

    def state(self, request_id: str) -> str | None:
        return state(self.cli, request_id)

    def approvals(self) -> set[str]:
        found = files_below(self.root / "handoff" / "approvals")
        return {name for name in found if name.endswith(".md")}

    def tab(self, path: str = "/inbox") -> Tab:
        """Open a page of the console in a new tab of the browser that was let in."""
        return self.chrome.tab().open(self.console.base + path)


def read_all(tab: Tab) -> None:
    """Look at all of a request, as the keys let you: `a` goes to what was not seen yet."""
    tab.call("Page.bringToFront")  # what is behind another tab is not on screen
    end = time.monotonic() + SECONDS
    while "all of it was on screen" not in str(tab.js("document.getElementById('seen').innerText")):
        assert time.monotonic() < end, tab.text()[-500:]
        tab.press("a")
        time.sleep(0.25)


def settled(tab: Tab) -> None:
    """Wait until every request and timer of a page that a text could have caused is over."""
    # A tab that is not in front may never be idle.
    idle = "requestIdleCallback(() => setTimeout(done, 300), {timeout: 5000})"
    tab.js(f"new Promise((done) => {idle})")


# Elements of ours in which foreign text stands; anything else in there would be the text's own.
_STRANGE = (
    "[...document.querySelectorAll('main :is(.foreign, .text) *')]"
    ".filter((e) => !['SPAN', 'BDI', 'BR', 'MARK'].includes(e.tagName)).length"
)
_HIDDEN = (
    r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufe00-\ufe0f\ufeff]|[\u{e0000}-\u{e0fff}]/u"
)


def refuse_live(scene: Scene, tab: Tab, path: str) -> None:
    """Raise unless a page shows what it shows as inert text: no markup, no way out, no trick."""
    assert tab.url == scene.console.base + path
    assert tab.js(_STRANGE) == 0, path
    loose = (
        "main :is(img:not([src^='/provenance/']),svg,iframe,object,video,style,math,script,embed)"
    )
    assert tab.js(f"document.querySelectorAll({json.dumps(loose)}).length") == 0, path
    assert tab.js("[...document.links].every((a) => a.origin === location.origin)"), path
    assert not has_hidden(tab), path
    assert tab.js("document.documentElement.scrollWidth <= innerWidth"), path


def has_hidden(tab: Tab) -> bool:
    """Tell whether a page has a character that hides or reorders others."""
    return bool(tab.js(f"{_HIDDEN}.test(document.documentElement.textContent)"))


def is_disabled(tab: Tab) -> bool:
    return bool(tab.js("document.getElementById('approve-button').disabled"))


def form_of(tab: Tab) -> dict[str, str]:
    """Return the fields of the form that approves, as they stand in the page."""
    script = "Object.fromEntries(new FormData(document.getElementById('approve')))"
    return dict(json.loads(str(tab.js(f"JSON.stringify({script})"))))


def post(tab: Tab, path: str, fields: dict[str, str]) -> tuple[int, str]:
    """Post a form from the page itself, whatever its script would say; status and words."""
    script = (
        f"fetch({json.dumps(path)}, {{method: 'POST',"
        f"body: new URLSearchParams({json.dumps(fields)}),"
        "headers: {'Content-Type': 'application/x-www-form-urlencoded'}})"
        ".then(async (r) => [r.status, await r.text()])"
    )
    status, words = tab.js(script)
    return int(status), str(words)


@contextmanager
def scene(base: Path, *options: str) -> Iterator[Scene]:
    """Serve a new workspace, and let a browser in."""
    with scene_of(made(base), *options) as found:
        yield found


@contextmanager
def scene_of(cli: Cli, *options: str) -> Iterator[Scene]:
    """Serve a workspace, and let a browser in."""
    names = {REBOUND: "127.0.0.1", ELSEWHERE: "127.0.0.1"}
    with console(cli, *options) as served, chrome(**names) as browser:
        found = Scene(cli, served, browser)
        browser.tab().open(served.link)
        yield found


@dataclass
class Canary:
    """A server of the attacker's, which remembers what it was asked."""

    server: http.server.ThreadingHTTPServer
    pages: dict[str, str] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)  # more of them, by path
    asked: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def canary() -> Iterator[Canary]:
    """Serve pages of an attacker on a port of loopback."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != ICON:
                found.asked.append(self.path)
            found.cookies.append(self.headers.get("Cookie", ""))
            body = found.pages.get(self.path, "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Access-Control-Allow-Origin", "*")
            for name, value in found.headers.get(self.path, {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        found = Canary(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
