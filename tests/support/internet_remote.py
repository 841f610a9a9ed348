"""Proxies of every purpose on the test internet, and an owned bridge-remote box behind one.

Run by `internet.run_inside`.  Real proxies in their boxes; each scene keeps what the client was
told, and what arrived on the far side.
"""

import hashlib
import ssl
from pathlib import Path
from typing import Any

from tests.support.internet import RESOLV_CONF, Internet
from tests.support.internet_retrieve import direct, owned
from tests.support.origin import ORIGIN, OTHER
from tests.support.origins import remote
from tests.support.origins.remote import ELSEWHERE, HOST, PACKETS, PUBLISHER
from tests.support.policies import altered, remote_model
from tests.support.proxybox import ProxyBox
from tests.support.proxying import request
from threegate.policy import purposes
from threegate.policy.bundle import Bundle
from threegate.sandbox.profiles import BRIDGE_REMOTE

PURPOSES = {
    "packets": purposes.PACKETS,
    "downloads": purposes.downloads("models"),
    "model": purposes.MODEL,
}
HOSTS = (HOST, PACKETS, PUBLISHER, ELSEWHERE)
GET = "GET /v1/models HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"


def rules(directory: Path) -> Bundle:
    """Return the shipped policy with a remote model and this world's authority alone."""
    ca = hashlib.sha256((directory / "ca.pem").read_bytes()).hexdigest()
    anchors = {"trust_anchors": [f"sha256:{ca}"]}
    named = remote_model(HOST, remote_requests=12)
    return altered(named, lambda sections: sections["fetch"].update(anchors)).bundle()


def tried(directory: Path, box: ProxyBox, host: str) -> str:
    """Ask a proxy for a host, and the host for something; return what came of it."""
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    with box.connect() as sock:
        sock.sendall(request(host))
        answer = sock.recv(4096).decode()
        if " 200 " not in answer:
            return answer.partition("Reason: ")[2].strip()
        with context.wrap_socket(sock, server_hostname=host) as tls:
            tls.sendall(GET.format(host).encode())
            return tls.recv(4096).decode().split("\r\n")[0]


def spent(directory: Path, box: ProxyBox) -> list[str]:
    """Ask a model's proxy for its host again and again."""
    found = [tried(directory, box, HOST)]
    while " 200 " in found[-1] and len(found) < 100:
        found.append(tried(directory, box, HOST))
    return found


def flooded(box: ProxyBox) -> str:
    """Send more through a tunnel than one question may send."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with box.connect() as sock:
        sock.sendall(request(HOST))
        assert b" 200 " in sock.recv(4096)
        with context.wrap_socket(sock, server_hostname=HOST) as tls:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\n"
            tls.sendall(head.encode() + b"Content-Length: 99999999\r\n\r\n")
            try:
                while True:
                    tls.sendall(bytes(65536))
            except OSError as exc:
                return type(exc).__name__


def scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, remote.WORLD) as world:
        found["reach"] = [direct(address) for address in (ORIGIN, OTHER)]
        bundle = rules(directory)
        for name, purpose in PURPOSES.items():
            with ProxyBox(directory, RESOLV_CONF, purpose=purpose) as box:
                box.apply(bundle)
                before = len(world.arrived())
                found[name] = {host: tried(directory, box, host) for host in HOSTS}
                met = world.arrived()[before:]
                found[f"{name} asked"] = sorted({e["name"] for e in met if e["event"] == "dns"})
        with ProxyBox(directory, RESOLV_CONF, purpose=purposes.MODEL) as box:
            box.apply(bundle)
            found["spent"] = spent(directory, box)
        with ProxyBox(directory, RESOLV_CONF, purpose=purposes.MODEL) as box:
            box.apply(bundle)
            found["flooded"] = flooded(box)
            found["flood"] = box.hear(lambda lines: lines[-1:] != [] and "up" in lines[-1])[-1]
        with ProxyBox(directory, RESOLV_CONF, purpose=purposes.MODEL) as box:
            box.apply(bundle)
            box.socket.chmod(0o666)
            names = {"host": HOST, "unlisted": PACKETS, "inner": ELSEWHERE}
            found["owned"] = owned(directory, box, BRIDGE_REMOTE, **names)
        found["whole"] = world.seen()
    return {**found, "end": "done"}
