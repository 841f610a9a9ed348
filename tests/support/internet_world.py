"""The far side of the test internet: name server and origins in a namespace of their own.

Started by `internet`, which connects the two namespaces.  Addresses are globally routable ones,
because the proxy rightly refuses all others; nothing leads from here to the real ones.
Everything that arrives is written down: tests judge by that, not by the client's word.
"""

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.origin import GATEWAY, Request, Site, Sites, addresses_of, sites_of

# -- The servers of the far side: TLS by name, HTTP/1.1 with keep-alive, everything written down.

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


A = 1


class Log:
    """One line for each thing that happened, in the order it did."""

    def __init__(self, path: Path) -> None:
        self._file, self._lock = path.open("a", encoding="utf-8"), threading.Lock()

    def add(self, **event: Any) -> None:
        with self._lock:
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()


class NameServer:
    """Answers as the sites say, and may say something else the next time."""

    def __init__(self, sites: Sites, log: Log) -> None:
        self._sites, self._log, self._asked = sites, log, dict.fromkeys(sites, 0)

    def answer(self, query: bytes, *, by: str) -> bytes:
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size])
            at += 1 + size
        name, (kind,) = b".".join(labels).decode(), struct.unpack_from(">H", query, at + 1)
        self._log.add(event="dns", name=name, kind=kind, by=by)
        tail = query[12 : at + 5]
        if name not in self._sites:
            return query[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + tail
        if self._sites[name].truncated and by == "udp":
            return query[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + tail
        found = self._next(name) if kind == A else ()
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 0, 4) + socket.inet_aton(text)
            for text in found
        )
        return query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0) + tail + records

    def _next(self, name: str) -> tuple[str, ...]:
        turns = self._sites[name].turns
        turn = min(self._asked[name], len(turns) - 1)
        self._asked[name] += 1
        return turns[turn]

    def datagrams(self, sock: socket.socket) -> None:
        while True:
            query, sender = sock.recvfrom(512)
            sock.sendto(self.answer(query, by="udp"), sender)

    def streams(self, sock: socket.socket) -> None:
        while True:
            client, _ = sock.accept()
            with client:
                query = client.recv(512)
                answer = self.answer(query[2:], by="tcp")
                client.sendall(len(answer).to_bytes(2, "big") + answer)


def listen(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    if kind == socket.SOCK_STREAM:
        sock.listen(64)
    return sock


def start(act: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=act, args=arguments, daemon=True).start()


def main(world: str, directory: Path) -> None:
    """Say that the namespace is there, wait for the cable, serve until stdin ends."""
    os.write(1, b"here\n")
    sys.stdin.buffer.readline()
    sites = sites_of(world)
    addresses = addresses_of(sites)
    link = [["link", "set", "lo", "up"], ["addr", "add", f"{GATEWAY}/24", "dev", "tg1"]]
    link += [["link", "set", "tg1", "up"]]
    link += [["addr", "add", f"{text}/32", "dev", "lo"] for text in addresses]
    for arguments in link:
        subprocess.run(["ip", *arguments], check=True)
    log = Log(directory / "world.jsonl")
    names = NameServer(sites, log)
    start(names.datagrams, listen(GATEWAY, 53, socket.SOCK_DGRAM))
    start(names.streams, listen(GATEWAY, 53, socket.SOCK_STREAM))
    origins = Origins(sites, directory, log.add)
    for address in addresses:
        start(origins.serve, address, listen(address, 443, socket.SOCK_STREAM))
    os.write(1, b"ready\n")
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
