"""Scenes of approved runs on the test internet: their gateway, and a proxy held by the kernel.

Run by `internet.run_inside`.  The guest's side is the test's own, so that it can say what no
client would; each scene keeps what it was told, and what arrived on the far side.
"""

import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support import origin
from tests.support.boxes import MODULE, start_with
from tests.support.fetch_scenes import direct, owned
from tests.support.internet import RESOLV_CONF, Internet
from tests.support.origin import INSIDE, ORIGIN, OTHER
from tests.support.origins.simple import (
    HOST,
    INNER,
    MOVING,
    NOT_ASKED,
    RUNS_WORLD,
    SECOND,
    UNLISTED,
)
from tests.support.policies import altered, policy
from tests.support.proxies import ProxyBox
from tests.support.wires import PUBLIC, PUBLIC_6, Wire
from tests.support.workspaces import clock, make_store
from threegate.artifacts.tool_request import GatewayTerms
from threegate.artifacts.tool_result import Carried, Violation
from threegate.base.errors import ThreeGateError
from threegate.base.schema import plain_record, shapes_of
from threegate.gates.fetch.proxy.dns import A, DnsQuery
from threegate.gates.run_gateway import messages as say
from threegate.host.run.heavy.gateway import Outward, Passed, opened_gateway
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.purposes import RUNS
from threegate.policy.ring.compiler import compile_ring
from threegate.sandbox import reach
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine, gate_uid
from threegate.sandbox.profiles import GATEWAY, RUN_PROXY
from threegate.sandbox.session import run_gate

# -- Policies that let runs have a gateway, and a guest's side of one without a guest.

GRANTED = ("*.run-data.org",)
NETWORK = GatewayTerms(tuple(sorted((HOST, INNER, SECOND))), 8_192, 65_536)
assert NOT_ASKED not in NETWORK.hosts
# As text, for a workspace's own file: the lane, and a profile beside those that are there.
LANE_OFF = """\
    network: off
    gateway:
      hosts: []
      methods: [GET, HEAD]
"""
LANE_ON = """\
    network: gateway
    gateway:
      hosts: ["*.run-data.org"]
      methods: [GET, HEAD, POST]
"""
PROFILES = ("    profiles: [python, tools]\n", "    profiles: [online, python, tools]\n")
ONLINE = """\
interpreter_ring:
  online:
    allowed_imports: [json, sys]
    denied_imports: [socket]
    executor_network: gateway
    allowed_binaries: []
    denied_patterns: []
"""
TEXTS = ((LANE_OFF, LANE_ON), PROFILES, ("interpreter_ring:\n", ONLINE))
# The same, with the kernel around its proxy.
HELD = tuple(
    (old, new.replace("network: gateway", "network: kernel-allowlist")) for old, new in TEXTS
)


def granted(network: str = "gateway", **changes: Any) -> Compiled:
    """Return the shipped policy with a gateway of this kind; `changes` are rules of it."""
    rules = {"hosts": list(GRANTED), "methods": ["GET", "HEAD", "POST"], "up_bytes": 16_384}

    def change(sections: dict[str, Any]) -> None:
        era = sections["tool-exec"]["lanes"]["era"]
        era |= {"enabled": "yes", "network": network}
        era["gateway"] |= {**rules, **changes}
        era["profiles"] = sorted((*era["profiles"], "online"))
        ring = sections["tool-exec"]["interpreter_ring"]
        ring["online"] = {**ring["python"], "executor_network": network}

    return altered(policy(), change)


class Guest:
    """What a guest would say on its port: frames, one ask at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def ask(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Ask, and return the answer, or why there is none."""
        said = {"headers": dict(headers or {}), "line": 7, "method": method, "url": url}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        self.write(say.frame(say.ASK, text.encode()) + say.frame(say.BODY, body))
        kind, head = self.hear()
        found: dict[str, Any] = json.loads(head)
        if kind == say.ANSWER:
            found["body"] = self.hear()[1].decode()
        return found

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def hear(self) -> tuple[int, bytes]:
        kind, length = say.HEADER.unpack(self.read(say.HEADER.size))
        return kind, self.read(length)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.read(self._fd, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


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


def gateway_scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, RUNS_WORLD, names=True) as world:
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


# -- Runs whose hosts the kernel holds their proxy to, on the test internet; played by root.
# Each act is tried without the kernel's rules as well, so that a refusal is theirs.

KERNEL = "kernel-allowlist"
ASKED = replace(NETWORK, hosts=tuple(sorted((HOST, INNER, MOVING))))
LOCAL = (443, 53)
TOLD = f"onswg4tfor.{UNLISTED}"
QUESTION = DnsQuery(7, TOLD, A).to_bytes()

# What an owned proxy would do: it has the box, the uid and the network, and its own program.
OWNED = f"""
import errno, json, socket
NAME = bytes.fromhex("{QUESTION.hex()}")  # what one would tell the owner of a name
WHOLE = len(NAME).to_bytes(2, "big") + NAME
TRIES = {{
    "pinned": (socket.SOCK_STREAM, "{ORIGIN}", 443, b"x"),
    "another": (socket.SOCK_STREAM, "{OTHER}", 443, b"x"),
    "inside": (socket.SOCK_STREAM, "{INSIDE}", 443, b"x"),
    "name server": (socket.SOCK_DGRAM, "{origin.GATEWAY}", 53, NAME),
    "name server by TCP": (socket.SOCK_STREAM, "{origin.GATEWAY}", 53, WHOLE),
    "this machine": (socket.SOCK_STREAM, "127.0.0.1", 443, b"x"),
}}
def attempt(kind, address, port, data):
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.settimeout(20)
        try:
            sock.connect((address, port))
            sock.send(data)
            return "sent"
        except OSError as exc:
            return errno.errorcode.get(exc.errno, type(exc).__name__)
def main():
    read_message(0, 100)
    told = {{title: attempt(*words) for title, words in TRIES.items()}}
    write_message(3, json.dumps(told).encode())
"""


def owned_proxy(directory: Path) -> dict[str, str]:
    """Return what a program of the attacker's reaches from the proxy's own box."""
    start = start_with(directory, OWNED, RUN_PROXY)
    given = {**start.given, "resolver": "/etc/resolv.conf"}
    answer = run_gate(find_machine(), Start(start.profile, f"{MODULE}:main", given), b"go")
    with answer.message as message:
        data = message.read()
    assert answer.ended.why == "done", answer.ended.stderr.open_for_display()
    found: dict[str, str] = json.loads(data)
    return found


@contextmanager
def listening_here() -> Iterator[None]:
    """Let this machine answer where the proxy tries: a refusal must be the kernel's."""
    socks = []
    for port in LOCAL:
        sock = socket.create_server(("127.0.0.1", port))
        socks.append(sock)
    try:
        yield
    finally:
        for sock in socks:
            sock.close()


def tables() -> str:
    """Return the kernel's tables."""
    listed = ["nft", "list", "tables"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout


def held_scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, RUNS_WORLD, names=True) as world, listening_here():
        found["reach"] = [direct(address) for address in (ORIGIN, OTHER, INSIDE)]
        found["owned, not held"] = owned_proxy(directory)
        found["told, not held"] = _told(world)
        found["start"], found["held"] = _held(directory, world, found)
        found["tables after"] = tables()
        found["left by a killed one"] = _after_a_kill(directory, world)
        for name, meddled in MEDDLED.items():
            found[name] = _failed(directory, world, meddled)
        found["by the proxy alone"] = _asked(directory, world)
    return {**found, "end": "done"}


def _told(world: Internet) -> list[str]:
    """Return what the name server heard, once both questions have arrived."""
    end = time.monotonic() + 20
    while True:
        names = [event["name"] for event in world.arrived() if event["event"] == "dns"]
        if len(names) == 2 or time.monotonic() > end:
            return names
        time.sleep(0.05)


def _held(directory: Path, world: Internet, found: dict[str, Any]) -> tuple[Any, Any]:
    before = len(world.arrived())
    with opened(directory, world, ASKED, network=KERNEL) as (scene, result):
        events = world.arrived()[before:]
        start = sorted(event["name"] for event in events if event["event"] == "dns")
        for title, url in (
            ("listed", ROWS),
            ("moving", f"https://{MOVING}/rows"),
            ("moving again", f"https://{MOVING}/rows"),
            ("inner", f"https://{INNER}/rows"),
        ):
            found[title] = scene.met(partial(scene.guest.ask, "GET", url))
        found["owned"] = scene.met(partial(owned_proxy, directory))
        found["tables"] = tables()
    return start, result


def _after_a_kill(directory: Path, world: Internet) -> dict[str, Any]:
    """Run while the table of one is still there that could not take it away."""
    stale = reach.rules(gate_uid(RUN_PROXY.name), [ip_address(OTHER)], names=False)
    subprocess.run(["nft", "-f", "-"], input=stale, text=True, check=True)
    before = owned_proxy(directory)
    one = replace(NETWORK, hosts=(HOST,))  # another one leads elsewhere by now
    with opened(directory, world, one, network=KERNEL) as (scene, result):
        told = scene.met(partial(scene.guest.ask, "GET", ROWS))
        after = owned_proxy(directory)
    return {**told, "boxes": result["boxes"], "before": before, "after": after}


def _asked(directory: Path, world: Internet, **changes: Any) -> dict[str, Any]:
    with opened(directory, world, ASKED, **changes) as (scene, result):
        told = scene.met(partial(scene.guest.ask, "GET", ROWS))
    return {**told, "boxes": result["boxes"]}


def _flush(scene: Scene) -> None:
    assert scene.guest.ask("GET", ROWS)["status"] == 200, "control: until then it is carried"
    subprocess.run(["nft", "delete", "table", "inet", reach.TABLE], check=True)


def _let_names_through(self: reach.Reach, addresses: Any) -> None:
    self.addresses = tuple(addresses)
    self.open_to_names()


MEDDLED: dict[str, dict[str, Any]] = {
    "rules that are not loaded": {"hold": lambda _self, _addresses: None},
    "rules that let names through": {"hold": _let_names_through},
    "addresses that are not there": {"_reads_back": lambda _self: set()},
    "rules that went away": {},
}


def _failed(directory: Path, world: Internet, meddled: dict[str, Any]) -> dict[str, Any]:
    """Return how a run is refused whose rules do not hold, and what left this machine."""
    before = len(world.arrived())
    try:
        with (
            mock.patch.multiple(reach.Reach, **meddled) if meddled else nullcontext(),
            opened(directory, world, ASKED, network=KERNEL) as (scene, _),
        ):
            _flush(scene)
    except ThreeGateError as exc:
        met = world.arrived()[before:]
        hellos = [event["name"] for event in met if event["event"] == "hello"]
        return {"code": exc.code, "said": exc.message, "hellos": hellos, "tables": tables()}
    return {"said": "nothing was refused"}


def sweeps(directory: Path) -> dict[str, Any]:
    """Return what the uid reaches under each of its two tables, and whom they leave alone."""
    directory.chmod(0o755)
    uid = gate_uid(RUN_PROXY.name)
    uids = {"run-proxy": uid, "proxy": gate_uid("proxy")}
    told: dict[str, Any] = {}
    with Wire(directory) as wire:
        told["none"] = wire.sweep({"run-proxy": uid})
        wire.arrived()
        both = [ip_address(PUBLIC), ip_address(PUBLIC_6)]
        for name, addresses, names in (
            ("names", [], True),
            ("addresses", both, False),
            ("one family", both[:1], False),
        ):
            text = reach.rules(uid, addresses, names=names)
            subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
            told[name] = wire.sweep(uids)
            told[f"{name}, far"] = wire.arrived()
    return told
