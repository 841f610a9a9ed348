"""Runs whose hosts the kernel holds their proxy to, on the test internet; played by root.

Each act is tried without the kernel's rules as well, so that a refusal is theirs.
"""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.gateways import NETWORK
from tests.support.internet import Internet
from tests.support.internet_retrieve import direct
from tests.support.internet_runs import ROWS, Scene, opened
from tests.support.origin import GATEWAY, INSIDE, ORIGIN, OTHER
from tests.support.origins.runs import HOST, INNER, MOVING, UNLISTED, WORLD
from tests.support.payloads import MODULE, start_with
from tests.support.wires import PUBLIC, PUBLIC_6, Wire
from threegate.base.errors import ThreeGateError
from threegate.gates.fetch.proxy.dns import A, DnsQuery
from threegate.sandbox import reach
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine, gate_uid
from threegate.sandbox.profiles import RUN_PROXY
from threegate.sandbox.session import run_gate

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
    "name server": (socket.SOCK_DGRAM, "{GATEWAY}", 53, NAME),
    "name server by TCP": (socket.SOCK_STREAM, "{GATEWAY}", 53, WHOLE),
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


def owned(directory: Path) -> dict[str, str]:
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


def scenes(directory: Path) -> dict[str, Any]:
    """Play every scene."""
    directory.chmod(0o755)
    found: dict[str, Any] = {}
    with Internet(directory, WORLD, names=True) as world, listening_here():
        found["reach"] = [direct(address) for address in (ORIGIN, OTHER, INSIDE)]
        found["owned, not held"] = owned(directory)
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
        found["owned"] = scene.met(partial(owned, directory))
        found["tables"] = tables()
    return start, result


def _after_a_kill(directory: Path, world: Internet) -> dict[str, Any]:
    """Run while the table of one is still there that could not take it away."""
    stale = reach.rules(gate_uid(RUN_PROXY.name), [ip_address(OTHER)], names=False)
    subprocess.run(["nft", "-f", "-"], input=stale, text=True, check=True)
    before = owned(directory)
    one = replace(NETWORK, hosts=(HOST,))  # another one leads elsewhere by now
    with opened(directory, world, one, network=KERNEL) as (scene, result):
        told = scene.met(partial(scene.guest.ask, "GET", ROWS))
        after = owned(directory)
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
