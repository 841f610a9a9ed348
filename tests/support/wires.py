"""Two namespaces and a cable for the firewall: everything far away answers, on every port.

`Wire` is made inside a fresh namespace and makes the far one.  Whatever arrives there is
written down; clients ask `sweep` what they reach, one child for each uid.
"""

import errno
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests.support.internet import ROOT, python

GATEWAY, HERE = "45.1.1.1", "45.1.1.2"
GATEWAY_6, HERE_6 = "2a00:1::1", "2a00:1::2"
PUBLIC, PRIVATE, METADATA = "104.18.0.1", "10.0.0.5", "169.254.169.254"
PUBLIC_6, PRIVATE_6, ISATAP_6 = "2606:4700::1", "fd00::5", "2606:4700::5efe:a00:5"
FAR = (PUBLIC, PRIVATE, METADATA, PUBLIC_6, PRIVATE_6, ISATAP_6)
SQUID_PORT, MODEL_PORT, LOCAL_PORT = 3128, 8080, 9999
PORTS = (53, 80, 443, 8443)
SECONDS = 30  # a refusal that meets a busy socket is heard at the next try, seconds later
MPTCP = 262

# What is tried: a title, the kind of socket, where to.
ATTEMPTS: tuple[tuple[str, str, str, int], ...] = (
    ("443", "tcp", PUBLIC, 443),
    ("443 by MPTCP", "mptcp", PUBLIC, 443),
    ("443 by fast open", "fastopen", PUBLIC, 443),
    ("443 by IPv6", "tcp", PUBLIC_6, 443),
    ("80", "tcp", PUBLIC, 80),
    ("8443", "tcp", PUBLIC, 8443),
    ("80 by IPv6", "tcp", PUBLIC_6, 80),
    ("QUIC", "udp", PUBLIC, 443),
    ("QUIC by IPv6", "udp", PUBLIC_6, 443),
    ("name server", "udp", GATEWAY, 53),
    ("name server by TCP", "tcp", GATEWAY, 53),
    ("other name server", "udp", PUBLIC, 53),
    ("private", "tcp", PRIVATE, 443),
    ("metadata", "tcp", METADATA, 443),
    ("private by IPv6", "tcp", PRIVATE_6, 443),
    ("ISATAP", "tcp", ISATAP_6, 443),
    ("squid", "tcp", "127.0.0.1", SQUID_PORT),
    ("model server", "tcp", "127.0.0.1", MODEL_PORT),
    ("this machine", "tcp", "127.0.0.1", LOCAL_PORT),
    ("this machine by IPv6", "tcp", "::1", LOCAL_PORT),
    ("own address", "tcp", HERE, 443),
    ("own address by IPv6", "tcp", HERE_6, 443),
)


def attempt(kind: str, address: str, port: int, word: bytes) -> str:
    """Return `open`, or why not."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    stream = socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM
    with socket.socket(family, stream, MPTCP if kind == "mptcp" else 0) as sock:
        # A blocking socket: one with a time-out of Python's cannot open fast.
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", SECONDS, 0))
        try:
            if kind == "fastopen":
                sock.sendto(word, socket.MSG_FASTOPEN, (address, port))
            else:
                sock.connect((address, port))
                sock.send(word)
            return "open" if sock.recv(16) == word else "silent"
        except OSError as exc:
            return errno.errorcode[exc.errno or 0]


def _sweep() -> dict[str, str]:
    """Try everything at once: the kernel takes a second to believe a refusal."""
    word = str(os.getuid()).encode()
    with ThreadPoolExecutor(len(ATTEMPTS)) as pool:
        tried = {
            title: pool.submit(attempt, kind, address, port, word)
            for title, kind, address, port in ATTEMPTS
        }
        return {title: future.result() for title, future in tried.items()}


def as_somebody(uid: int, act: Callable[[], Any]) -> Callable[[], Any]:
    """Start `act` in a child that is `uid`; return how to wait for what it gives.

    A child of this very process: others cannot start the interpreter of root's home.
    """
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writing, json.dumps(act()).encode())
        except BaseException:  # noqa: BLE001  # a child that goes on would be a second test run
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(writing)

    def result() -> Any:
        with open(reading, "rb") as file:
            data = file.read()
        os.waitpid(child, 0)
        return json.loads(data)

    return result


def serve(sock: socket.socket, told: Any) -> None:
    """Echo what comes, and write down where it arrived."""
    while True:
        if sock.type == socket.SOCK_DGRAM:
            data, sender = sock.recvfrom(64)
            told.write(f"{data.decode()} udp {sock.getsockname()[0]} {sock.getsockname()[1]}\n")
            sock.sendto(data, sender)
        else:
            client, _ = sock.accept()
            threading.Thread(target=_echo, args=(client, told), daemon=True).start()


def _echo(client: socket.socket, told: Any) -> None:
    where = client.getsockname()
    with client:
        client.settimeout(SECONDS)
        try:
            data = client.recv(64)
            client.sendall(data)
        except OSError:
            data = b"nobody"
        told.write(f"{data.decode()} tcp {where[0].removeprefix('::ffff:')} {where[1]}\n")


def listen(port: int, kind: socket.SocketKind, told: Any, *, address: str = "::") -> None:
    """Listen on one address, or on every one of both families."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    if address == "::":
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    if kind == socket.SOCK_STREAM:
        sock.listen(64)
    threading.Thread(target=serve, args=(sock, told), daemon=True).start()


def ip(*commands: str) -> None:
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


class Wire:
    """The cable, the far side, and listeners on this machine."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "far.log"
        self._here = (directory / "here.log").open("w", buffering=1)
        self._far = subprocess.Popen(
            ["unshare", "--net", *python("tests.support.wires"), self._log],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._say("here")
        ip(
            "link set lo up",
            f"link add tg0 type veth peer name tg1 netns {self._far.pid}",
            f"addr add {HERE}/24 dev tg0",
            f"addr add {HERE_6}/64 dev tg0 nodad",
            "link set tg0 up",
        )
        self._say("ready")
        for family in ("ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"):
            # A refusal is told by ICMP; told seldom, every attempt would last a second.
            Path(f"/proc/sys/net/{family}").write_text("0", "ascii")
        ip(f"route add default via {GATEWAY}", f"-6 route add default via {GATEWAY_6}")
        for port in (443, SQUID_PORT, MODEL_PORT, LOCAL_PORT):
            listen(port, socket.SOCK_STREAM, self._here)

    def _say(self, expected: str) -> None:
        assert self._far.stdin
        assert self._far.stdout
        self._far.stdin.write(b"go\n")
        self._far.stdin.flush()
        assert self._far.stdout.readline() == f"{expected}\n".encode()

    def arrived(self) -> list[str]:
        """Return what arrived on the far side since the last time: uid, kind, address, port."""
        lines = self._log.read_text("ascii").splitlines()
        self._log.write_text("", "ascii")
        return lines

    def sweep(self, uids: Mapping[str, int]) -> dict[str, dict[str, str]]:
        """Return what each of them reaches: title to `open` or an error."""
        started = {name: as_somebody(uid, _sweep) for name, uid in uids.items()}
        return {name: result() for name, result in started.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._far.communicate()


def far(log: Path) -> None:
    """Be the far side until stdin ends."""
    sys.stdin.buffer.readline()
    os.write(1, b"here\n")
    sys.stdin.buffer.readline()
    ip("link set lo up", f"addr add {GATEWAY}/24 dev tg1")
    ip(f"addr add {GATEWAY_6}/64 dev tg1 nodad", "link set tg1 up")
    for address in FAR:
        # Without `nodad` an address may not be there yet when it is bound.
        ip(f"addr add {address}/{'128 dev lo nodad' if ':' in address else '32 dev lo'}")
    with log.open("a", buffering=1) as told:
        for port in PORTS:
            listen(port, socket.SOCK_STREAM, told)
            for address in (GATEWAY, *FAR):  # an answer comes from where the question went
                listen(port, socket.SOCK_DGRAM, told, address=address)
        os.write(1, b"ready\n")
        sys.stdin.buffer.read()


if __name__ == "__main__":
    far(Path(sys.argv[1]))
