"""What clients of the real proxy try on the test internet; run by `internet.run_inside`."""

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.internet import RESOLV_CONF, Internet
from tests.support.origin import HERE, INSIDE, ORIGIN, OTHER
from tests.support.proxybox import ProxyBox
from tests.support.proxying import bundle, request, without

GET = b"GET /works HTTP/1.1\r\nHost: x\r\n\r\n"


class Client:
    """Tries things through the proxy, and keeps what each of them led to on all sides."""

    def __init__(self, directory: Path, world: Internet, box: ProxyBox) -> None:
        self._world, self._box = world, box
        self._context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
        self.told: dict[str, Any] = {}

    def attempt(self, title: str, act: Callable[[], str]) -> None:
        before = len(self._world.arrived())
        outcome = act()
        lines = self._box.hear(lambda lines: bool(lines) and lines[-1]["verdict"] != "allow")
        self.told[title] = {
            "client": outcome,
            "proxy": lines,
            "world": self._world.arrived()[before:],
        }

    def connect(self, name: str) -> tuple[socket.socket, str]:
        sock = self._box.connect()
        sock.sendall(request(name))
        answer = sock.recv(4096).decode()
        return sock, answer.split("\r\n")[0]

    def fetch(self, name: str, *, sni: str | None = None) -> str:
        sock, answer = self.connect(name)
        with sock:
            if " 200 " not in answer:
                return answer
            try:
                with self._context.wrap_socket(sock, server_hostname=sni or name) as tls:
                    tls.sendall(GET)
                    return tls.recv(4096).rpartition(b"\r\n\r\n")[2].decode()
            except OSError as exc:
                return type(exc).__name__

    def plain(self, name: str) -> str:
        sock, answer = self.connect(name)
        with sock:
            sock.sendall(GET)
            return f"{answer}, then {sock.recv(4096)!r}"

    def direct(self, address: str) -> str:
        """Connect without the proxy: what it refuses is within its reach."""
        with socket.create_connection((address, 443), timeout=10):
            return "connected"

    def whole(self) -> list[dict[str, Any]]:
        """Return all that arrived on the far side, once it has written everything down."""
        marks = {address: self._connects(address) for address in (ORIGIN, OTHER, INSIDE)}
        for address in marks:  # each origin takes one connection after the other
            self.direct(address)
        end = time.monotonic() + 10
        while any(self._connects(address) <= count for address, count in marks.items()):
            assert time.monotonic() < end, "an origin does not see what is sent to it"
            time.sleep(0.01)
        return self._world.seen()

    def _connects(self, address: str) -> int:
        wanted = {"event": "connect", "origin": address}
        return sum(event == wanted for event in self._world.seen())

    def reload(self) -> str:
        name = "api.crossref.org"
        sock, _ = self.connect(name)
        with sock, self._context.wrap_socket(sock, server_hostname=name) as tls:
            tls.sendall(GET)
            tls.recv(4096)
            self._box.apply(without(name))
            try:
                return f"then {tls.recv(4096)!r}"
            except OSError as exc:
                return type(exc).__name__


def scenes(directory: Path) -> dict[str, Any]:
    """Play every scene; return what client, proxy and the far side saw of each."""
    directory.chmod(0o755)
    with Internet(directory) as world, ProxyBox(directory, RESOLV_CONF) as box:
        box.apply(bundle())
        client = Client(directory, world, box)
        reach = {address: client.direct(address) for address in (INSIDE, OTHER)}
        client.attempt("allowed", lambda: client.fetch("api.crossref.org"))
        client.attempt("truncated", lambda: client.fetch("export.arxiv.org"))
        client.attempt("other name", lambda: client.fetch("evil.example"))
        client.attempt("private", lambda: client.fetch("api.datacite.org"))
        client.attempt("mixed", lambda: client.fetch("api.openalex.org"))
        with socket.create_server((HERE, 443)):
            reach[HERE] = client.direct(HERE)
            client.attempt("own address", lambda: client.fetch("api.unpaywall.org"))
        client.attempt("before rebinding", lambda: client.fetch("doi.org"))
        client.attempt("after rebinding", lambda: client.fetch("doi.org"))
        client.attempt("fronting", lambda: client.fetch("api.crossref.org", sni="evil.example"))
        client.attempt("plain", lambda: client.plain("api.crossref.org"))
        client.attempt("reload", client.reload)
        client.attempt("after reload", lambda: client.fetch("api.crossref.org"))
        ended = box.close()
        return {"reach": reach, "end": ended.why, "whole": client.whole(), **client.told}
