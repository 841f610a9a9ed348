"""What clients of Squid try on the test internet; run by `internet.run_inside`."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

from tests.support.internet import Internet
from tests.support.origin import GATEWAY, HERE, INSIDE, OTHER
from tests.support.origins.gateway import CERTIFICATES, INSIDE_V6
from tests.support.squid import Squid, gateway_conf, gateway_policy
from threegate.host.deploy.place import Place

WORLD = "tests.support.origins.gateway:world"
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
