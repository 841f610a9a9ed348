"""The console as a process, for tests that open it in a browser or speak to it by hand."""

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
from typing import Any
from urllib.parse import urlencode

from tests.support.cli import Cli
from tests.support.reviewing import program
from tests.support.workspaces import take_in
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
