"""Everything worth reaching on the host, in one process of the attacker's own uid.

Listens on the network and on Unix sockets, holds a secret in a file, in memory, in its
environment and in System V objects, and remembers who reached it.  The runner starts it
outside every box, asks `seen`, and closes its input: then it removes all of it and ends.

SECURITY
    Reads at most a few bytes of each connection and keeps those that begin with its own
    token.  Runs as an ordinary uid, never as root.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import struct
import sys
from pathlib import Path

from threegate.sandbox.attacks.base import call, libc
from threegate.sandbox.kernel import prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PTRACER = 0x59616D61
ANYBODY = 2**64 - 1
SMALLEST_QUEUE = struct.pack(
    "8l", 0, 1, 16, 0, 0, 0, 0, 0
)  # the bytes of queues are counted per uid
NEW = 0o3600  # made, not found: what a killed canary left may have the same key
MAX_TOKEN_BYTES = 256


class Canary:
    """The objects, and what touched them."""

    def __init__(self, directory: str, secret: str) -> None:
        self._directory, self._secret = Path(directory), secret
        # Not by process id: another one may have left something of that name.
        self._name = f"threegate-canary-{os.urandom(8).hex()}"
        self._selector = selectors.DefaultSelector()
        self._seen: set[str] = set()
        self._signals = 0
        self._path = self._directory / "secret"
        self._path.write_text(secret, encoding="utf-8")
        self._fd = os.open(self._path, os.O_RDONLY)
        self._memory = ctypes.create_string_buffer(secret.encode())
        signal.signal(signal.SIGWINCH, self._signalled)
        _anybody_may_trace()

    def _signalled(self, *_: object) -> None:
        self._signals += 1

    def facts(self) -> dict[str, Any]:
        """Make everything, and return where it is."""
        address4, address6 = _own_address(socket.AF_INET), _own_address(socket.AF_INET6)
        tcp = self._listen(socket.AF_INET, ("0.0.0.0", 0))  # noqa: S104  # a host address
        tcp6 = self._listen(socket.AF_INET6, ("::", 0)) if address6 else tcp
        udp = self._datagrams(socket.AF_INET, ("0.0.0.0", 0))  # noqa: S104
        abstract = self._name
        self._listen(socket.AF_UNIX, "\0" + abstract)
        self._datagrams(socket.AF_UNIX, f"\0{abstract}-datagram")
        self._listen(socket.AF_UNIX, str(self._directory / "stream"))
        self._datagrams(socket.AF_UNIX, str(self._directory / "datagram"))
        return {
            "address4": address4 or "127.0.0.1",
            "address6": address6 or "::1",
            "tcp_port": tcp.getsockname()[1],
            "tcp6_port": tcp6.getsockname()[1],
            "udp_port": udp.getsockname()[1],
            "abstract": abstract,
            "socket_path": str(self._directory / "stream"),
            "datagram_path": str(self._directory / "datagram"),
            "secret": str(self._path),
            "secret_text": self._secret,
            "directory": str(self._directory),
            "victim": os.getpid(),
            "victim_address": ctypes.addressof(self._memory),
            "victim_fd": self._fd,
            "host_name": socket.gethostname(),
            **self._system_v(),
        }

    def _system_v(self) -> dict[str, Any]:
        key = _made_segment()
        self._segment = call("shmget", key, 0, 0)
        at = call("shmat", self._segment, 0, 0)
        ctypes.memmove(at, self._secret.encode(), len(self._secret))
        self._semaphore = call("semget", 0, 1, 0o1600)
        self._messages = call("msgget", 0, 0o1600)
        queue, options = self._name.encode(), os.O_RDWR | os.O_CREAT | os.O_EXCL
        call("mq_open", queue, options, 0o600, ctypes.create_string_buffer(SMALLEST_QUEUE))
        return {
            "shm_key": key,
            "shm_id": self._segment,
            "sem_id": self._semaphore,
            "msg_id": self._messages,
            "queue": self._name,
        }

    def _listen(self, family: int, address: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
        sock.bind(address)
        sock.listen(64)
        self._selector.register(sock, selectors.EVENT_READ, self._accept)
        return sock

    def _datagrams(self, family: int, address: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind(address)
        self._selector.register(sock, selectors.EVENT_READ, self._note)
        return sock

    def _accept(self, sock: socket.socket) -> None:
        connection, _ = sock.accept()
        connection.settimeout(0)
        if sock.family == socket.AF_UNIX:
            with contextlib.suppress(OSError):  # the client may be gone already
                socket.send_fds(connection, [b"x"], [self._fd])
        self._selector.register(connection, selectors.EVENT_READ, self._note)

    def _note(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(MAX_TOKEN_BYTES)
        except OSError:
            data = b""
        if data:
            self._seen.add(data.decode("latin-1"))
        elif sock.type == socket.SOCK_STREAM:
            self._selector.unregister(sock)
            sock.close()

    def serve(self) -> None:
        """Answer the runner until it goes away."""
        self._selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    key.data(key.fileobj)
                elif not sys.stdin.readline():
                    return
                else:
                    self._drain()
                    print(json.dumps({"seen": sorted(self._seen), "signals": self._signals}))  # noqa: T201
                    sys.stdout.flush()

    def _drain(self) -> None:
        """Take what has arrived before the question."""
        while True:
            ready = [key for key, _ in self._selector.select(0.05) if key.data is not None]
            if not ready:
                return
            for key in ready:
                key.data(key.fileobj)

    def remove(self) -> None:
        """Leave nothing behind: System V objects outlive their makers."""
        call("shmctl", self._segment, 0, 0)
        call("semctl", self._semaphore, 0, 0, 0)
        call("msgctl", self._messages, 0, 0)
        libc("mq_unlink", f"/{self._name}".encode())


def _made_segment() -> int:
    """Make a System V segment under a key that is free; return the key."""
    while True:
        key = int.from_bytes(os.urandom(4), "little") >> 1 | 1  # 0 would mean: no key
        with contextlib.suppress(FileExistsError):
            call("shmget", key, 4096, NEW)
            return key


def _anybody_may_trace() -> None:
    try:
        prctl(PR_SET_PTRACER, ANYBODY)  # or Yama would make the control fail
    except OSError:
        return


def _own_address(family: int) -> str:
    """Return the address this machine would speak from; nothing is sent."""
    target = ("192.0.2.1", 9) if family == socket.AF_INET else ("2001:db8::1", 9)
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(target)
            return str(sock.getsockname()[0])
    except OSError:
        return ""


def main() -> None:
    """Make the canary in the directory given, and serve."""
    canary = Canary(sys.argv[1], sys.argv[2])
    print(json.dumps(canary.facts()))  # noqa: T201
    sys.stdout.flush()
    try:
        canary.serve()
    finally:
        canary.remove()
