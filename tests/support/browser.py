"""A real browser on pages of the test: what it made of them, and what it asked a server for.

It runs in a network namespace in which there is loopback and nothing else, so whatever a page
makes it send arrives at the one server there, or nowhere.  The browser's own sandbox is off:
it does not start as root, and what is tested is the page.
"""

import base64
import http.server
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.internet import run_inside

BASE = "http://127.0.0.1:8080"
BROWSER = "chromium"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
    # Timers and loads are over when the page is looked at, however slow the machine is.
    "--virtual-time-budget=10000",
)
SECONDS = 100.0


@dataclass(frozen=True, slots=True)
class Opened:
    """What came of a page."""

    dom: str  # the tree as the browser has it in the end, written out again
    asked: list[str]  # paths that were asked for, in any order
    connections: int


def opened(page: bytes, directory: Path) -> Opened:
    """Open a page from a file, as somebody does who was sent it."""
    directory.mkdir()
    (directory / "page.html").write_bytes(page)
    return Opened(**run_inside("tests.support.browser:look", directory))


class _Server(http.server.ThreadingHTTPServer):
    """Says yes to everything, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 8080), _Answer)
        self.asked: list[str] = []
        self.connections = 0

    def get_request(self) -> tuple[Any, Any]:
        self.connections += 1
        return super().get_request()


class _Answer(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:  # what a beacon is sent by
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Say nothing: the test looks at `asked`."""


def look(directory: Path) -> dict[str, Any]:
    """Be `opened`, inside the namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with _Server() as server, tempfile.TemporaryDirectory(prefix="browser-") as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ran = subprocess.run(
            [
                *(BROWSER, *OPTIONS, f"--user-data-dir={profile}", "--dump-dom"),
                (directory / "page.html").as_uri(),
            ],
            env={"PATH": "/usr/bin:/bin", "HOME": profile, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        server.shutdown()
        assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
        dom = ran.stdout.decode("utf-8")
        return {"dom": dom, "asked": server.asked, "connections": server.connections}


# -- A real browser that a test drives: Chromium, spoken to by its own protocol on a pipe.
# No server listens for that, and no name but those the test maps to loopback is found. The
# browser's own sandbox is off: it does not start as root, and what is tested is the page.

PAGE_SECONDS = 40.0
SETTINGS = tuple(one for one in OPTIONS if not one.startswith("--virtual-time"))
# Chromium hands its descriptors 3 and 4 to the protocol.
_START = 'exec 3<&"$0" 4>&"$1"; shift 1; exec "$@"'


class PageError(AssertionError):
    """The page threw where the test asked it something."""


@dataclass
class Chrome:
    """A running browser."""

    _read: int
    _write: int
    _left: bytes = b""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    heard: list[dict[str, Any]] = field(default_factory=list)
    _tabs: list[str] = field(default_factory=list)

    def close_tabs(self) -> None:
        """Close every tab that was opened; cookies stay."""
        while self._tabs:
            self.call("Target.closeTarget", targetId=self._tabs.pop())

    def call(
        self, method: str, session: str = "", seconds: float = PAGE_SECONDS, **params: Any
    ) -> dict[str, Any]:
        """Ask the browser, and wait for its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._until(lambda one: one.get("id") == number, method, seconds)

    def _until(
        self, wanted: Callable[[dict[str, Any]], bool], what: str, seconds: float
    ) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            one = self._next(left)
            if one is not None and wanted(one):
                assert "error" not in one, f"{what}: {one['error']}"
                return dict(one.get("result", {}))
            if one is not None and "method" in one:
                self.heard.append(one)
        raise TimeoutError(what)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        while b"\0" not in self._left:
            if not select.select([self._read], [], [], min(seconds, 1.0))[0]:
                return None
            data = os.read(self._read, 1 << 20)
            assert data, "the browser ended"
            self._left += data
        line, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(line))

    def tab(self, **more: Any) -> "Tab":
        """Open a tab, in the same profile as the others."""
        target = self.call("Target.createTarget", url="about:blank", **more)["targetId"]
        self._tabs.append(target)
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, str(found["sessionId"]))
        for domain in ("Page", "Runtime", "Log"):
            tab.call(f"{domain}.enable")
        tab.call("Network.enable", maxPostDataSize=1024)  # a form may have ten megabytes
        tab.size(1280, 900)
        return tab

    def stranger(self) -> "Tab":
        """Open a tab in a profile of its own: another browser."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        return self.tab(browserContextId=context)


@dataclass
class Tab:
    """One tab."""

    chrome: Chrome
    session: str

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.chrome.call(method, self.session, **params)

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """Prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> "Tab":
        """Go to a page and wait until it is there."""
        with suppress(AssertionError, TimeoutError):  # it may be loading itself again just now
            self.js("window.__before = true", seconds=3.0)
        went = self.call("Page.navigate", url=url)
        assert "errorText" not in went, went
        self.loaded()
        return self

    def loaded(self) -> None:
        """Wait until a new document is complete."""
        self.wait("window.__before === undefined && document.readyState === 'complete'")

    def acts(self, act: Callable[[], object]) -> None:
        """Do something that leads to another page, and wait for that."""
        self.js("window.__before = true")
        act()
        self.loaded()

    def js(self, expression: str, seconds: float = PAGE_SECONDS) -> Any:
        """Return what an expression is in the page."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = self.chrome.call("Runtime.evaluate", self.session, seconds, **asked)
        if "exceptionDetails" in found:
            raise PageError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + PAGE_SECONDS
        while time.monotonic() < end:
            try:
                # A page that is left while it is asked never answers.
                if self.js(expression, seconds=3.0):
                    return
            except (AssertionError, TimeoutError):  # between two pages
                pass
            time.sleep(0.05)
        raise TimeoutError(f"{expression}\n{self.text()[:2000]}")

    def text(self) -> str:
        return str(self.js("document.body ? document.body.innerText : ''"))

    def html(self) -> str:
        return str(self.js("document.documentElement.outerHTML"))

    @property
    def url(self) -> str:
        return str(self.js("location.href"))

    def press(self, key: str) -> None:
        """Press a key as a person does."""
        text = key if len(key) == 1 else {"Enter": "\r", "Space": " "}.get(key, "")
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, ord(key) if len(key) == 1 else 0)
        down: dict[str, Any] = {"type": "keyDown", "key": key, "windowsVirtualKeyCode": code}
        if text:
            down["text"] = text
        self.call("Input.dispatchKeyEvent", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, words: str) -> None:
        self.call("Input.insertText", text=words)

    def click(self, selector: str) -> None:
        """Click with the mouse on the middle of an element, whatever lies on top of it there."""
        found = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        x, y = found
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, selector: str, *files: Path) -> None:
        """Choose files in a field of a form, as a person does in the dialog."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(one) for one in files])

    def shot(self, path: Path, *, whole: bool = False) -> None:
        """Keep a picture of the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def cookies(self) -> list[dict[str, Any]]:
        return list(self.call("Network.getCookies")["cookies"])


@contextmanager
def chrome(**names: str) -> Iterator[Chrome]:
    """Run a browser in which each of `names` (dots as `_`) is an address; no others are found."""
    rules = ",".join(
        [
            *(f"MAP {name} {to}" for name, to in names.items()),
            "MAP * ~NOTFOUND",
            "EXCLUDE 127.0.0.1",
            "EXCLUDE localhost",
        ]
    )
    ours, theirs = os.pipe(), os.pipe()
    profile = tempfile.mkdtemp(prefix="chrome-")
    process = subprocess.Popen(
        [
            *("/bin/bash", "-c", _START, str(theirs[0]), str(ours[1])),
            *(BROWSER, *SETTINGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"),
            f"--host-resolver-rules={rules}",
            "about:blank",
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": profile, "LC_ALL": "C.UTF-8"},
        pass_fds=(theirs[0], ours[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs[0])
    os.close(ours[1])
    found = Chrome(ours[0], theirs[1])
    try:
        yield found
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours[0])
        os.close(theirs[1])
        shutil.rmtree(profile, ignore_errors=True)
