"""The servers of the far side: TLS by name, HTTP/1.1 with keep-alive, everything written down."""

import socket
import ssl
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.origin import Request, Site, Sites

SECONDS = 20.0
MAX_HEAD = 65536
Tell = Callable[..., None]


class CountedSocket(ssl.SSLSocket):
    """Counts what goes through it, inside of TLS."""

    taken = given = 0
    hello: str | None = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        data = super().recv(buflen, flags)
        self.taken += len(data)
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        count = super().send(data, flags)
        self.given += count
        return count


class Origins:
    """Every server of a world, by address; who answers is decided by the name."""

    def __init__(self, sites: Sites, directory: Path, tell: Tell) -> None:
        self._sites, self._tell = sites, tell
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        kinds = {"good", *(site.certificate for site in sites.values())}
        self._contexts = {kind: self._context(directory / f"{kind}.pem") for kind in kinds}

    def _context(self, pem: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        context.sslsocket_class = CountedSocket
        context.sni_callback = self._choose
        return context

    def serve(self, address: str, sock: socket.socket) -> None:
        while True:
            client, _ = sock.accept()
            self._tell(event="connect", origin=address)
            threading.Thread(target=self._one, args=(address, client), daemon=True).start()

    def _one(self, address: str, client: socket.socket) -> None:
        client.settimeout(SECONDS)
        # As servers do; otherwise an answer waits behind the session tickets of its handshake.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet(address, client)
        except OSError as exc:
            self._tell(event="end", origin=address, error=type(exc).__name__)
        except Exception:  # noqa: BLE001  # a test must hear of it: `Internet.seen` raises it
            self._tell(event="bug", origin=address, trace=traceback.format_exc())
        finally:
            client.close()

    def _greet(self, address: str, client: socket.socket) -> None:
        with self._contexts["good"].wrap_socket(client, server_side=True) as tls:
            assert isinstance(tls, CountedSocket)
            self._talk(address, tls.hello or "", tls)

    def _choose(self, tls: Any, name: str | None, _: ssl.SSLContext) -> None:
        tls.hello = name
        self._tell(event="hello", origin=tls.getsockname()[0], name=name)
        if name is not None and name in self._sites:
            tls.context = self._contexts[self._sites[name].certificate]

    def _talk(self, address: str, name: str, tls: CountedSocket) -> None:
        rest = b""
        try:
            while (read := read_request(tls, rest, name)) is not None:
                request, rest = self._numbered(read[0]), read[1]
                if not self._answer(address, request, tls):
                    break
        finally:
            self._tell(event="bytes", origin=address, name=name, received=tls.taken, sent=tls.given)

    def _numbered(self, request: Request) -> Request:
        key = (request.host, request.target)
        with self._lock:
            number, self._asked[key] = self._asked[key], self._asked[key] + 1
        return Request(
            request.name, request.method, request.target, request.headers, number, request.body
        )

    def _answer(self, address: str, request: Request, tls: ssl.SSLSocket) -> bool:
        """Answer; tell whether the connection goes on."""
        told = {"origin": address, "host": request.host, "line": request.line}
        self._tell(event="request", **told, headers=request.headers, at=time.monotonic())
        site = self._sites.get(request.host) or self._sites.get(request.name) or Site()
        response = site.handler(request, tls)
        if response is None:
            return False
        # Written down first: whoever has the answer finds it in the log.
        self._tell(event="answer", **told, status=response.status, bytes=len(response.body))
        tls.sendall(response.to_bytes(head_only=request.method == "HEAD"))
        return (request.header("connection") or "").lower() != "close"


def read_request(tls: ssl.SSLSocket, rest: bytes, name: str) -> tuple[Request, bytes] | None:
    """Return the next request and what came after it; None when the client has gone."""
    data = rest
    while b"\r\n\r\n" not in data:
        more = tls.recv(4096)
        if not more or len(data) > MAX_HEAD:
            return None
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = tuple(
        (key.lower(), value.strip()) for key, _, value in (line.partition(":") for line in lines)
    )
    size = int(dict(pairs).get("content-length", "0"))
    while len(rest) < size:
        more = tls.recv(4096)
        if not more:
            return None
        rest += more
    return Request(name, method, target, pairs, 0, rest[:size]), rest[size:]
