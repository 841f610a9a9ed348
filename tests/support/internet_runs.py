"""The gateway of a run on the test internet: its real box, the real proxy behind it.

Run by `internet.run_inside`.  The guest's side is the test's own, so that it can say what no
client would; each scene keeps what it was told, and what arrived on the far side.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.gateways import NETWORK, Guest, granted
from tests.support.internet import RESOLV_CONF, Internet
from tests.support.internet_retrieve import direct, owned
from tests.support.origin import INSIDE, ORIGIN, OTHER
from tests.support.origins.runs import HOST, INNER, NOT_ASKED, SECOND, UNLISTED, WORLD
from tests.support.policies import altered
from tests.support.proxybox import ProxyBox
from tests.support.stores import clock, make_store
from threegate.artifacts.tool_request import GatewayTerms
from threegate.artifacts.tool_result import Carried, Violation
from threegate.base.schema import plain_record, shapes_of
from threegate.host.run.heavy.gateway import Outward, Passed, opened_gateway
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import RUNS
from threegate.policy.ring.compiler import compile_ring
from threegate.sandbox.profiles import GATEWAY

KEY = "sk-live-9f8e7d6c5b4a39281706"
ROWS = f"https://{HOST}/rows"


class Scene:
    """One gateway, and what became of it."""

    def __init__(self, world: Internet, guest: Guest, passed: Passed) -> None:
        self._world, self._passed = world, passed
        self.guest = guest

    def met(self, act: Callable[[], Any]) -> dict[str, Any]:
        """Return what an act was told, and what arrived meanwhile."""
        before = len(self._world.arrived())
        told = act()
        events = self._world.arrived()[before:]
        names = sorted({event["name"] for event in events if event["event"] == "dns"})
        hellos = [event["name"] for event in events if event["event"] == "hello"]
        return {"told": told, "resolved": names, "hellos": hellos}


def rules(directory: Path, **changes: Any) -> Bundle:
    """Return a policy with a gateway and this world's authority alone."""
    ca = hashlib.sha256((directory / "ca.pem").read_bytes()).hexdigest()
    anchors = {"trust_anchors": [f"sha256:{ca}"]}
    return altered(granted(**changes), lambda sections: sections["fetch"].update(anchors)).bundle()


@contextmanager
def opened(
    directory: Path, world: Internet, asked: GatewayTerms = NETWORK, **changes: Any
) -> Iterator[tuple[Scene, dict[str, Any]]]:
    """Open a gateway; fill in, when it is closed, what a result would say of it."""
    root = directory / f"workspace-{len(list(directory.glob('workspace-*')))}"
    make_store(root)
    (root / "policy/anchors").mkdir(parents=True)
    (root / "policy/anchors/ca.pem").write_bytes((directory / "ca.pem").read_bytes())
    bundle = rules(directory, **changes)
    ring = compile_ring(bundle, "heavy-python", "online")
    outward = Outward(root, None, lambda: [KEY], clock)
    result: dict[str, Any] = {}
    with opened_gateway(bundle, asked, ring, outward) as (port, passed):
        yield Scene(world, Guest(port), passed), result
    rows, refusals = shapes_of(Carried), shapes_of(Violation)
    result["carried"] = [plain_record(rows, one) for one in passed.carried()]
    result["violations"] = [plain_record(refusals, one) for one in passed.violations()]
    log = b"".join(path.read_bytes() for path in sorted((root / "audit").rglob("*.jsonl")))
    result["log"] = log.decode()
    result["boxes"] = sorted(one.profile for one in passed.evidence)
    result["proofs"] = sorted(
        f"{one.profile}-{item}" for one in passed.evidence for item in one.proofs
    )


ASKS: dict[str, tuple[Any, ...]] = {
    "control": ("GET", ROWS),
    "second": ("GET", f"https://{SECOND}/rows"),
    "post": ("POST", ROWS, b"rows"),
    "moved": ("GET", f"https://{HOST}/moved"),
    "where it moved": ("GET", f"https://{UNLISTED}/rows"),
    "by name": ("GET", f"https://onswg4tfor.{UNLISTED}/"),
    "granted, not listed": ("GET", f"https://{NOT_ASKED}/rows"),
    "inside": ("GET", f"https://{INNER}/rows"),
    "address": ("GET", f"https://{ORIGIN}/rows"),
    "local": ("GET", "https://inference.local/rows"),
    "plain": ("GET", f"http://{HOST}/rows"),
    "method": ("DELETE", ROWS),
    "header": ("GET", ROWS, b"", {"Authorization": "Bearer x"}),
    "smuggled": ("GET", ROWS, b"", {"Accept": "a", "accept": "b"}),
    "body of a get": ("GET", ROWS, b"rows"),
    "key in body": ("POST", ROWS, b'{"token": "' + KEY.encode() + b'"}'),
    "key in url": ("GET", f"{ROWS}?token=%73{KEY[1:]}"),
    "key in header": ("GET", ROWS, b"", {"Accept": KEY}),
    "key as hex": ("POST", ROWS, KEY.encode().hex().encode()),
    "no key": ("POST", ROWS, b'{"token": "' + KEY[::-1].encode() + b'"}'),
}


def scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, WORLD, names=True) as world:
        found["reach"] = [direct(address) for address in (ORIGIN, OTHER, INSIDE)]
        with opened(directory, world) as (scene, found["result"]):
            for name, ask in ASKS.items():
                found[name] = scene.met(partial(scene.guest.ask, *ask))
        found |= _bounds(directory, world)
        found["owned guest"] = _owned_guest(directory, world)
        with ProxyBox(directory, RESOLV_CONF, purpose=RUNS, hosts=NETWORK.hosts) as box:
            box.apply(rules(directory))
            box.socket.chmod(0o666)
            names = {"host": HOST, "unlisted": NOT_ASKED, "inner": UNLISTED}
            found["owned"] = owned(directory, box, GATEWAY, **names)
        found["asks"] = len(ASKS)
    return {**found, "end": "done"}


def _bounds(directory: Path, world: Internet) -> dict[str, Any]:
    found: dict[str, Any] = {}
    large = f"https://{HOST}/large"
    with opened(directory, world) as (scene, found["up result"]):
        body = b"u" * 3_000
        found["up"] = [scene.guest.ask("POST", ROWS, body) for _ in range(4)]
        found["longer than all"] = scene.guest.ask("POST", ROWS, b"u" * 100_000)
        found["after it"] = scene.guest.ask("GET", ROWS)
    with opened(directory, world) as (scene, found["down result"]):
        found["down"] = scene.guest.ask("GET", large)
        found["endless"] = scene.guest.ask("GET", f"https://{HOST}/endless")
    more = replace(NETWORK, down_bytes=1_000_000)
    with opened(directory, world, more) as (scene, _):
        found["down control"] = len(scene.guest.ask("GET", large)["body"])
    with opened(directory, world, requests=2) as (scene, _):
        found["requests"] = [scene.guest.ask("GET", ROWS) for _ in range(4)]
    return found


def _owned_guest(directory: Path, world: Internet) -> dict[str, Any]:
    """Say what is no frame: the gateway ends, and whoever asks then gets nothing."""
    with opened(directory, world) as (scene, result):
        assert scene.guest.ask("GET", ROWS)["status"] == 200
        scene.guest.write(os.urandom(64))
        try:
            found = scene.guest.ask("GET", ROWS)
        except (EOFError, OSError) as exc:
            found = {"ended": type(exc).__name__}
    return {"after": found, "carried": result["carried"]}
