"""The real Squid with the generated configuration, behind the socket its unit puts before it."""

import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Self

from tests.support.internet import Internet
from tests.support.origin import GATEWAY, HERE, INSIDE, OTHER
from tests.support.origins.simple import CERTIFICATES, INSIDE_V6
from tests.support.policies import altered, policy
from threegate.host.deploy.place import SQUID, Place, default_uids
from threegate.host.deploy.squid import squid_conf
from threegate.policy.bundle import Bundle

SECONDS = 30.0
SOCKET_PROXY = "/lib/systemd/systemd-socket-proxyd"
UIDS = default_uids()


def wait_until(act: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not act():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


def as_uid(uid: int, *argv: str) -> list[str]:
    """Return a command run by somebody without any privilege."""
    bounded = ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *bounded, *argv]


class Squid:
    """Squid and the bridge before it; `log` is what it wrote about requests."""

    def __init__(self, directory: Path, conf: str, port: int) -> None:
        self._directory, self._port = directory, port
        self.logs, self.socket = directory / "squid", directory / "gateway.sock"
        self._log = self.logs / "access.log"
        self.logs.mkdir()
        os.chown(self.logs, UIDS[SQUID], UIDS[SQUID])
        file = directory / "squid.conf"
        file.write_text(conf, "utf-8")
        file.chmod(0o644)
        program = shutil.which("squid")
        assert program is not None, "no squid: `make setup-tests` installs it"
        command = as_uid(UIDS[SQUID], program, "--foreground", "-f", str(file))
        self._squid = subprocess.Popen(command, cwd=self.logs, stderr=subprocess.DEVNULL)
        wait_until(self._listens, "squid listens")
        activate = ["systemd-socket-activate", "-l", str(self.socket)]
        self._bridge = subprocess.Popen(
            [*activate, SOCKET_PROXY, f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL
        )
        wait_until(self.socket.exists, "the socket is there")

    def _listens(self) -> bool:
        assert self._squid.poll() is None, (self.logs / "cache.log").read_text("utf-8")
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def ask(self, request: bytes) -> bytes:
        """Send one request through the socket; return all that comes back."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(SECONDS)
            sock.connect(str(self.socket))
            sock.sendall(request)
            answer = b""
            while data := sock.recv(65536):
                answer += data
            return answer

    def log(self) -> list[str]:
        if not self._log.exists():
            return []
        # What only knocked, as `_listens` did, asked for nothing.
        lines = self._log.read_text("utf-8").splitlines()
        return [line for line in lines if "error:transaction-end-before-headers" not in line]

    def files(self) -> list[str]:
        """Return what it left on disk."""
        return sorted(str(path.relative_to(self.logs)) for path in self.logs.rglob("*"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._bridge, self._squid):
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)


def gateway_policy(ca: Path, hosts: dict[str, dict[str, Any]]) -> Bundle:
    """Return the shipped policy that believes `ca` alone, with changed or added hosts."""
    digest = hashlib.sha256(ca.read_bytes()).hexdigest()

    def change(sections: dict[str, Any]) -> None:
        fetch = sections["fetch"]
        fetch["trust_anchors"] = [f"sha256:{digest}"]
        for name, rule in hosts.items():
            usual = fetch["hosts"].get(name, fetch["hosts"]["api.crossref.org"])
            fetch["hosts"][name] = {**usual, **rule}
        fetch["hosts"] = dict(sorted(fetch["hosts"].items()))

    return altered(policy(), change).bundle()


def gateway_conf(bundle: Bundle, directory: Path, ca: Path, where: Place) -> str:
    """Return the configuration, with the anchor where it looks for it."""
    digest = hashlib.sha256(ca.read_bytes()).hexdigest()
    anchors = directory / "anchors"
    anchors.mkdir()
    shutil.copyfile(ca, anchors / f"{digest}.pem")
    (anchors / f"{digest}.pem").chmod(0o644)
    assert where.anchors == str(anchors)
    return squid_conf(bundle, where)


# -- What clients of Squid try on the test internet; run by `internet.run_inside`.

WORLD = "tests.support.origins.simple:gateway_world"
RESOLVER = "127.0.0.1"
RESPONSE_BYTES = 64 * 1024
KEY = "canary-of-a-key"
AAAA = 28
# One listed name and one that is not, in URLs that two readers could read differently.
CONFUSED = (
    "https://api.crossref.org@evil.example/",
    "https://api.crossref.org:443@evil.example/",
    "https://evil.example#@api.crossref.org/",
    "https://evil.example?@api.crossref.org/",
    "https://evil.example\\@api.crossref.org/",
    "https://evil.example%2f@api.crossref.org/",
    "https://evil.example%00.api.crossref.org/",
    "https://evil.example\t.api.crossref.org/",
    "https://api.crossref.org.evil.example/",
    "https:evil.example/",
    "https:///evil.example/",
    "//evil.example/",
)
HOSTS: dict[str, dict[str, Any]] = {
    "api.crossref.org": {"response_bytes": RESPONSE_BYTES},
    "*.publisher.org": {},
    "*.broken.org": {},
    "*.inside.org": {},
    "eutils.ncbi.nlm.nih.gov": {"content_types": ["application/json"]},
}


class Names(threading.Thread):
    """A name server that knows some IPv6 addresses and asks the test internet for the rest."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind((RESOLVER, 53))
        self.start()

    def run(self) -> None:
        while True:
            query, sender = self._sock.recvfrom(512)
            self._sock.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode())
            at += 1 + size
        name, (kind,) = ".".join(labels), struct.unpack_from(">H", query, at + 1)
        if name not in INSIDE_V6:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(10)
                sock.sendto(query, (GATEWAY, 53))
                return sock.recv(4096)
        found = IPv6Address(INSIDE_V6[name]).packed if kind == AAAA else b""
        record = b"\xc0\x0c" + struct.pack(">HHIH", AAAA, 1, 60, 16) + found if found else b""
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, bool(found), 0, 0)
        return head + query[12 : at + 5] + record


class Client:
    """Tries things, and keeps what each of them led to on all sides."""

    def __init__(self, world: Internet, squid: Squid) -> None:
        self._world, self._squid = world, squid
        self.told: dict[str, Any] = {}

    def ask(self, title: str, url: str, *, method: str = "GET", headers: str = "") -> None:
        request = f"{method} {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
        self.attempt(title, lambda: self._squid.ask(request.encode()))

    def attempt(self, title: str, act: Callable[[], bytes]) -> None:
        before, lines = len(self._world.arrived()), len(self._squid.log())
        answer = act()
        head, _, body = answer.partition(b"\r\n\r\n")
        end = time.monotonic() + 10
        while len(self._squid.log()) == lines:
            assert time.monotonic() < end, f"nothing in the log about {title}: {answer[:200]!r}"
            time.sleep(0.01)
        self.told[title] = {
            "head": head.decode("latin-1"),
            "body": body[:256].decode("latin-1"),
            "tail": body[-8:].decode("latin-1"),
            "bytes": len(body),
            "squid": self._squid.log()[lines:],
            "world": self._world.arrived()[before:],
        }


def reach(address: str) -> str:
    with socket.create_connection((address, 443), timeout=10):
        return "connected"


def scenes(directory: Path) -> dict[str, Any]:
    """Play every scene; return what client, Squid and the far side saw of each."""
    directory.chmod(0o755)
    with Internet(directory, WORLD) as world:
        Names()
        bundle = gateway_policy(world.ca, HOSTS)
        where = Place(
            resolvers=(ip_address(RESOLVER),),
            own=(ip_address(HERE),),
            logs=str(directory / "squid"),
            anchors=str(directory / "anchors"),
        )
        conf = gateway_conf(bundle, directory, world.ca, where)
        with Squid(directory, conf, where.port) as squid:
            client = Client(world, squid)
            reached = {address: reach(address) for address in (INSIDE, OTHER)}
            with socket.create_server((HERE, 443)):
                reached[HERE] = reach(HERE)
                client.ask("own address", "https://api.unpaywall.org/v2/x")
            _names_and_ways(client)
            _answers(client)
            _headers_and_keys(client)
            files = squid.files()
        return {"reach": reached, "files": files, "whole": world.seen(), **client.told}


def _names_and_ways(client: Client) -> None:
    listed = "https://api.crossref.org/works"
    client.ask("allowed", f"{listed}?query=ice&rows=1")
    client.ask("head", listed, method="HEAD")
    client.ask("other name", "https://evil.example/")
    client.ask("private", "https://api.datacite.org/dois")
    client.ask("mixed", "https://api.openalex.org/works")
    for name in INSIDE_V6:
        client.ask(name, f"https://{name}/")
    client.ask("before rebinding", "https://doi.org/10.1/x")
    client.ask("after rebinding", "https://doi.org/10.1/x")
    for method in ("POST", "PUT", "DELETE", "PURGE", "TRACE"):
        client.ask(method, listed, method=method, headers="Content-Length: 0\r\n")
    client.ask("tunnel", "api.crossref.org:443", method="CONNECT")
    client.ask("plain", "http://api.crossref.org/works")
    client.ask("port", "https://api.crossref.org:8443/works")
    client.ask("address", "https://104.18.0.1/works")
    client.ask("manager", "http://threegate-squid:3128/squid-internal-mgr/info")
    for name in ("one.publisher.org", "publisher.org", "a.b.publisher.org"):
        client.ask(name, f"https://{name}/")
    for url in CONFUSED:
        client.ask(url, url)
    for kind in CERTIFICATES:
        client.ask(kind, f"https://{kind}.broken.org/")


def _answers(client: Client) -> None:
    for path in ("script", "untyped", "moved", "missing", "large", "endless"):
        client.ask(path, f"https://api.crossref.org/{path}")


def _headers_and_keys(client: Client) -> None:
    more = f"Cookie: a=b\r\nX-Smuggled: text\r\nx-api-key: {KEY}\r\nReferer: https://x/\r\n"
    more += "User-Agent: threegate/1\r\nAccept: application/json\r\n"
    client.ask("headers", "https://api.crossref.org/works", headers=more)
    client.ask("key in a header", "https://api.semanticscholar.org/x", headers=more)
    client.ask("key in a query", f"https://eutils.ncbi.nlm.nih.gov/x?id=1&api_key={KEY}")
