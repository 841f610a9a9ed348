"""The far side of the test internet: name server and origins in a namespace of their own.

Started by `internet`, which connects the two namespaces.  Addresses are globally routable ones,
because the proxy rightly refuses all others; nothing leads from here to the real ones.
Everything that arrives is written down: tests judge by that, not by the client's word.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.internet_origins import Origins
from tests.support.origin import GATEWAY, Sites, addresses_of, sites_of

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
