"""A real browser on pages of the test: what it made of them, and what it asked a server for.

It runs in a network namespace in which there is loopback and nothing else, so whatever a page
makes it send arrives at the one server there, or nowhere.  The browser's own sandbox is off:
it does not start as root, and what is tested is the page.
"""

import http.server
import subprocess
import tempfile
import threading
from dataclasses import dataclass
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
