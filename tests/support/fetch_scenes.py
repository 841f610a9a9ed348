"""Scenes of FETCH on the test internet: clients of the real proxy, and the real retrieve sandbox.

Run by `internet.run_inside`.
"""

import hashlib
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.boxes import MODULE, start_with
from tests.support.internet import RESOLV_CONF, Internet
from tests.support.origin import HERE, INSIDE, ORIGIN, OTHER
from tests.support.origins import hostile
from tests.support.origins.hostile import ANSWERS, HOST, INNER, SECOND, STREAMS, UNLISTED, WORDS
from tests.support.policies import altered, policy
from tests.support.proxies import ProxyBox, bundle, request, without
from threegate.base.greeting import GateReady
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve.messages import (
    GREETING,
    FetchQuestion,
    Got,
    NotGot,
    RetrieveOpening,
    parse_answer,
)
from threegate.policy.bundle import Bundle
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_RETRIEVE, Profile
from threegate.sandbox.session import Session, run_gate

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


def proxy_scenes(directory: Path) -> dict[str, Any]:
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


# -- What the real retrieve box meets on a hostile test internet; run by `internet.run_inside`.
# The box, the proxy in its box, and servers that do everything wrong. Each scene keeps what the
# box said, and what arrived on the far side.

PAYLOAD = "threegate.gates.fetch.retrieve.gate:serve"
STORE = "/etc/ssl/certs/ca-certificates.crt"
CANARY = "canary-Key+4711/xyz"
SECONDS = 60.0
LOCATIONS = {
    "unlisted": f"https://{UNLISTED}/record",
    "plain http": f"http://{HOST}/record",
    "another port": f"https://{HOST}:8443/record",
    "user information": f"https://{HOST}@{UNLISTED}/record",
    "backslash": f"https://{HOST}\\@{UNLISTED}/record",
    "two slashes": f"//{UNLISTED}/record",
    "a private address": f"https://{INSIDE}/record",
    "loopback": "https://127.0.0.1/record",
    "a number": "https://2130706433/record",
    "localhost": "https://localhost/record",
    "a file": "file:///etc/passwd",
    "a script": "javascript:alert(1)",
    "a line break": f"https://{HOST}/%0d%0aX-Injected:%20y",
    "a listed name that leads inside": f"https://{INNER}/record",
}


def rules(directory: Path, seconds: int = 20) -> Bundle:
    """Return a policy that lists the hostile names, and this world's authority."""
    ca = hashlib.sha256((directory / "ca.pem").read_bytes()).hexdigest()

    def change(sections: dict[str, Any]) -> None:
        fetch = sections["fetch"]
        rule = {**fetch["hosts"]["api.openalex.org"], "concurrency": 4, "response_bytes": 2**20}
        rule["content_types"] = ["application/json", "application/pdf", "text/html"]
        fetch["hosts"] = {"*.hostile.org": rule}
        fetch["trust_anchors"] = [f"sha256:{ca}", "system"]
        fetch["deadline_seconds"] = seconds

    return altered(policy(), change).bundle()


@contextmanager
def opened(directory: Path, box: ProxyBox, bundle: Bundle) -> Iterator[Session]:
    """Start retrieve under these rules, which the proxy has as well."""
    box.apply(bundle)
    box.socket.chmod(0o666)
    slots = {"proxy": str(box.socket), "certificates": STORE}
    with Session.open(find_machine(), Start(FETCH_RETRIEVE, PAYLOAD, slots)) as session:
        opening = RetrieveOpening(bundle.bundle_bytes(), ((directory / "ca.pem").read_bytes(),))
        reply = session.ask(opening.to_bytes(), deadline_seconds=SECONDS)
        assert isinstance(GREETING.parse(Untrusted(reply.message)), GateReady)
        yield session


class RetrieveClient:
    """Asks the box, and keeps what each question led to."""

    def __init__(self, world: Internet) -> None:
        self._world = world
        self.told: dict[str, Any] = {}

    def ask(self, session: Session, title: str, url: str, **more: Any) -> None:
        before = len(self._world.arrived())
        reply = session.ask(
            FetchQuestion(url, "*/*", 2**20, **more).to_bytes(), deadline_seconds=SECONDS
        )
        assert reply.why == "done", f"{title}: {reply}"
        answer = parse_answer(Untrusted(reply.message))
        self.told[title] = {
            "answer": plain(answer),
            "leaked": CANARY.encode() in reply.message or quote(CANARY).encode() in reply.message,
            "world": self._world.arrived()[before:],
        }


def plain(answer: Got | NotGot) -> dict[str, Any]:
    found = answer.plain()
    if isinstance(answer, Got):
        found["body"] = answer.body.decode("latin-1")
    return found


def ordinary(client: RetrieveClient, session: Session) -> None:
    base = f"https://{HOST}"
    for path in (*ANSWERS, *WORDS):
        client.ask(session, path, base + path)
    for path in ("/endless", "/endless-plain", "/circle/0", "/chain/0"):
        client.ask(session, path, base + path)
    for status in (301, 302, 303, 307, 308):
        url = f"{base}/redirect?status={status}&to={quote(f'https://{SECOND}:443/echo', safe='')}"
        client.ask(session, f"redirect {status}", url, etag='"x"', credential=CANARY)
    for title, location in LOCATIONS.items():
        url = f"{base}/redirect?to={quote(location, safe='')}"
        client.ask(session, f"redirect to {title}", url)
    for name in hostile.BAD_CERTIFICATES:
        client.ask(session, name, f"https://{name}/record")
    client.ask(session, "unlisted", f"https://{UNLISTED}/record")
    client.ask(session, "inside", f"https://{INNER}/record")
    client.ask(session, "repeated", f"{base}/echo", credential=CANARY)
    client.ask(session, "afterwards", f"{base}/record")


def direct(address: str) -> str:
    """Connect without the proxy: what is not asked for is within reach."""
    with socket.create_connection((address, 443), timeout=10):
        return "connected"


OWNED = """
import errno, json, os, socket, ssl, sys

def attempt(act):
    try:
        return str(act())
    except OSError as exc:
        return errno.errorcode.get(exc.errno, type(exc).__name__)

def through(request, hello=None):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect("/run/proxy.sock")
        sock.sendall(request)
        first = sock.recv(4096).decode().split("\\r\\n")
        if hello is not None:
            sock.sendall(hello)
            first += [repr(sock.recv(4096))]
        return " ".join(first)

def connect(name, port=443):
    return f"CONNECT {name}:{port} HTTP/1.1\\r\\nHost: {name}:{port}\\r\\n\\r\\n".encode()

def hello_for(name):
    given, taken = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.wrap_bio(taken, given, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return given.read()

def bound(kind, where):
    with socket.socket(*kind) as sock:
        sock.settimeout(5)
        sock.connect(where)

def main():
    tcp, udp = (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)
    tried = {
        "tcp": lambda: bound(tcp, ("%(origin)s", 443)),
        "udp": lambda: bound(udp, ("%(origin)s", 53)),
        "tcp6": lambda: bound((socket.AF_INET6, socket.SOCK_STREAM), ("::1", 443)),
        "another socket": lambda: bound((socket.AF_UNIX, socket.SOCK_STREAM), "%(other)s"),
        "abstract socket": lambda: bound((socket.AF_UNIX, socket.SOCK_STREAM), "\\0%(abstract)s"),
        "write": lambda: open("/gate/x", "w"),
        "write tmp": lambda: open("/tmp/x", "w"),
        "home": lambda: os.listdir("%(directory)s"),
        "exec": lambda: os.execv(sys.executable, ["python"]),
        "fork": lambda: os.fork(),
        "proxy unlisted": lambda: through(connect("%(unlisted)s")),
        "proxy port": lambda: through(connect("%(host)s", 22)),
        "proxy address": lambda: through(connect("%(inside)s")),
        "proxy plain": lambda: through(b"GET http://%(host)s/ HTTP/1.1\\r\\n\\r\\n"),
        "proxy inside": lambda: through(connect("%(inner)s")),
        "proxy fronting": lambda: through(connect("%(host)s"), hello_for("%(unlisted)s")),
        "proxy not tls": lambda: through(connect("%(host)s"), b"GET / HTTP/1.1\\r\\n\\r\\n"),
        "proxy allowed": lambda: through(connect("%(host)s"), hello_for("%(host)s"))[:60],
    }
    read_message(0, 100)
    told = {title: attempt(act) for title, act in tried.items()}
    write_message(3, json.dumps(told).encode())
"""


def owned(
    directory: Path, box: ProxyBox, profile: Profile = FETCH_RETRIEVE, **others: str
) -> dict[str, str]:
    """Run a program of the attacker's in the box instead of its own."""
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(directory / "other.sock"))
    other.listen(1)
    (directory / "other.sock").chmod(0o777)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0threegate-{directory.name}")
    abstract.listen(1)
    names = {"origin": ORIGIN, "other": directory / "other.sock", "directory": directory}
    names |= {"abstract": f"threegate-{directory.name}", "unlisted": UNLISTED, "host": HOST}
    names |= {"inside": INSIDE, "inner": INNER, **others}
    start = start_with(directory, OWNED % names, profile)
    given = {**start.given, "proxy": str(box.socket), "certificates": STORE}

    with other, abstract:
        answer = run_gate(find_machine(), Start(start.profile, f"{MODULE}:main", given), b"go")
        with answer.message as message:
            told = message.read()
    assert answer.ended.why == "done", answer.ended.stderr.open_for_display()
    found: dict[str, str] = json.loads(told)
    return found


def retrieve_scenes(directory: Path) -> dict[str, Any]:
    """Play every scene; return what the box, the proxy and the far side saw."""
    directory.chmod(0o755)
    with Internet(directory, hostile.WORLD) as world, ProxyBox(directory, RESOLV_CONF) as box:
        reach = {address: direct(address) for address in (ORIGIN, OTHER, INSIDE)}
        client = RetrieveClient(world)
        with opened(directory, box, rules(directory)) as session:
            ordinary(client, session)
            lines = box.hear(all_ended(denied=2))  # with the box still there: it lets go by itself
            peak = session.close().peak_memory_bytes
        with opened(directory, box, rules(directory, seconds=2)) as session:
            for path in (*(path for path in STREAMS if "slow" in path), "/silent", "/slowly/0"):
                client.ask(session, path, f"https://{HOST}{path}")
            client.ask(session, "in time", f"https://{HOST}/record")
        box.apply(rules(directory))
        client.told["owned"] = owned(directory, box)
        lines += box.hear(all_ended(denied=7))
        ended = box.close()
        told = {"end": ended.why, "reach": reach, "proxy": lines, "peak": peak}
        told["whole"] = world.seen()
        return told | client.told


def all_ended(*, denied: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Return whether every tunnel has ended, and so many were refused."""

    def told(lines: list[dict[str, Any]]) -> bool:
        verdicts = [line["verdict"] for line in lines]
        ended = verdicts.count("closed") + verdicts.count("cut")
        return verdicts.count("allow") == ended > 0 and verdicts.count("deny") >= denied

    return told
