"""The console as a process, for tests that open it in a browser or speak to it by hand."""

import http.server
import json
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.browser import PAGE_SECONDS, Chrome, Tab, chrome
from tests.support.cli import Cli, made
from tests.support.holdings import put_results
from tests.support.requests import program
from tests.support.workspaces import files_below, take_in
from threegate.artifacts.registry import Artifact, Request
from threegate.host.workspace.workspace import Workspace, open_workspace

SECONDS = 40.0


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def fresh(code: str = "total = 1 + 2\nprint(total)\ntotal\n", **changes: Any) -> Request:
    """Return a request of this moment that the shipped policy lets a human approve."""
    return program(code, created=now(), nonce=secrets.token_hex(16), functions=(), **changes)


def held(cli: Cli, *artifacts: Artifact) -> list[str]:
    """Take artifacts in, as `admit` does; return their ids."""
    with opened(cli) as ws:
        return take_in(ws, *artifacts)


def state(cli: Cli, request_id: str) -> str | None:
    """Return the state of a request."""
    with opened(cli) as ws, ws.store.locked():
        return ws.store.standing(request_id)


@contextmanager
def opened(cli: Cli) -> Iterator[Workspace]:
    """Open a workspace beside the console."""
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    try:
        yield ws
    finally:
        ws.close()


@dataclass
class Console:
    """A console that serves."""

    process: "subprocess.Popen[str]"
    events: list[dict[str, Any]] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)

    def wait_for(self, kind: str, count: int = 1, waits: int = 1) -> dict[str, Any]:
        """Return the event of a kind, once it was told that often."""
        end = time.monotonic() + SECONDS * waits
        while time.monotonic() < end:
            found = [one for one in list(self.events) if one["event"] == kind]
            if len(found) >= count:
                return found[count - 1]
            assert self.process.poll() is None, (self.process.returncode, self.noted)
            time.sleep(0.02)
        raise TimeoutError(f"{kind}: {self.events[-10:]} {self.noted}")

    @property
    def link(self) -> str:
        return str(self.wait_for("link")["link"])

    @property
    def port(self) -> int:
        return int(self.wait_for("serving")["port"])

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def refused(self, code: str) -> bool:
        """Wait until the service has said that it refused something for this reason."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if any(one["event"] == "refused" and one["code"] == code for one in self.events):
                return True
            time.sleep(0.02)
        return False

    def ask(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request by hand: status, headers and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def approve(
        self, known: dict[str, str], request_id: str, look_seconds: float = 1.2, **fields: str
    ) -> tuple[int, str]:
        """Look at a request and say yes, by hand; return status and page."""
        page = self.ask("GET", f"/request/{request_id}", **known)[2].decode()
        found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', page))
        time.sleep(look_seconds)  # the console refuses who cannot have looked
        body = urlencode({**found, "uses": "1", **fields})
        sent = {**known, "Origin": self.base}
        status, _, answer = self.ask("POST", f"/request/{request_id}/approve", body, **sent)
        return status, answer.decode()

    def login(self, agent: str = "test") -> dict[str, str]:
        """Log in by hand; return what every later request sends."""
        path = self.link.removeprefix(self.base)
        status, headers, _ = self.ask("GET", path, User_Agent=agent)
        assert status == 303, status
        return {"User_Agent": agent, "Cookie": headers["Set-Cookie"].partition(";")[0]}


@contextmanager
def console(cli: Cli, *options: str, end: int = 0) -> Iterator[Console]:
    """Serve a workspace until the test is over."""
    process = subprocess.Popen(
        [*cli.program, "serve", "--port", "0", "--json", *options],
        cwd=cli.base,
        env=cli.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    found = Console(process)
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout, process.stderr

    def events() -> None:
        for line in out:
            found.events.append(json.loads(line))

    threads = [
        threading.Thread(target=events, daemon=True),
        threading.Thread(target=lambda: found.noted.extend(err), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        assert found.port
        yield found
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        for thread in threads:
            thread.join(SECONDS)
        out.close()
        err.close()
    assert code == end, (code, found.noted)


# -- A workspace, a console that serves it and a browser that was let in, for many tests at once.

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
    end = time.monotonic() + PAGE_SECONDS
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
