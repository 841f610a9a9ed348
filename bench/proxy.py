"""Tunnels of our proxy, in its box, next to Squid's CONNECT: how fast they open and carry.

Both serve the same client, the same names and the same origin, in turns, on a test internet of
two namespaces.  Client and origin speak TLS in Python, so both carry less than they could.
"""

import json
import socket
import ssl
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.figures import Plain, Sizes, compare
from bench.measure import Watch, noise, say
from tests.support.internet import RESOLV_CONF, Internet, run_inside
from tests.support.origin import GATEWAY
from tests.support.origins.simple import NAME
from tests.support.policies import altered, policy
from tests.support.proxies import ProxyBox, request
from tests.support.squid import Squid
from threegate.host.deploy.squid import inside_addresses
from threegate.policy.bundle import Bundle

WORLD = "tests.support.origins.simple:bulk_world"
PORT = 3128
SECONDS = 30.0
PEER = "Squid CONNECT, same names and addresses"
SQUID = f"""\
http_port 127.0.0.1:{PORT}
visible_hostname bench
pid_filename none
pinger_enable off
cache deny all
netdb_filename none
shutdown_lifetime 1 second
dns_nameservers {GATEWAY}
acl tunnel method CONNECT
acl port_443 port 443
acl listed dstdomain -n %s
%s
http_access deny !tunnel
http_access deny !port_443
http_access deny !listed
http_access deny inside_v4
http_access deny inside_v6
http_access allow listed
http_access deny all
cache_log %s/cache.log
access_log stdio:%s/access.log
"""
Connect = Callable[[], socket.socket]


def run(sizes: Sizes, _: Path) -> Plain:
    """Measure in namespaces of its own, and return rows."""
    # Other accounts must get there: Squid has one of its own.
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as place:
        directory = Path(place)
        (directory / "sizes.json").write_text(json.dumps(_amounts(sizes)), "utf-8")
        return {"rows": run_inside("bench.proxy:inside", directory), "curves": []}


def _amounts(sizes: Sizes) -> dict[str, int]:
    """Return how many tunnels are opened, how many carry, and how many MiB each."""
    return {
        "tunnels": max(3, sizes.singles // 2),
        "bulks": max(3, sizes.singles // 20),
        "mebibytes": 48 if sizes.singles > 10 else 1,
    }


def many_tunnels() -> Bundle:
    """Return the shipped policy, with as many connections to the origin as there can be."""
    rules = altered(policy(), lambda s: s["fetch"]["hosts"][NAME].update(concurrency=16))
    return rules.bundle()


def inside(directory: Path) -> list[Plain]:
    """Measure; run by `run_inside`."""
    amounts = json.loads((directory / "sizes.json").read_text("utf-8"))
    directory.chmod(0o755)
    with ExitStack() as stack:
        world = stack.enter_context(Internet(directory, WORLD))
        box = stack.enter_context(ProxyBox(directory, RESOLV_CONF))
        box.apply(many_tunnels())
        logs = directory / "squid"
        conf = SQUID % (NAME, "".join(inside_addresses()), logs, logs)
        stack.enter_context(Squid(directory, conf, PORT))
        context = ssl.create_default_context(cafile=str(world.ca))
        both = (box.connect, _squid)
        say(f"proxy: {amounts['tunnels']} tunnels")
        opened = _opened(both, box, amounts["tunnels"])
        say(f"proxy: {amounts['bulks']} times {amounts['mebibytes']} MiB")
        carried = _carried(both, box, context, amounts)
        return [*opened, carried]


def _squid() -> socket.socket:
    return socket.create_connection(("127.0.0.1", PORT), SECONDS)


def _tunnel(connect: Connect) -> socket.socket:
    sock = connect()
    sock.sendall(request(NAME))
    answer = sock.recv(4096)
    assert b" 200 " in answer, answer
    return sock


def _opened(both: tuple[Connect, ...], box: ProxyBox, count: int) -> list[Plain]:
    """Return a row of the time from connecting until the tunnel is said to be open."""
    watches = tuple(Watch() for _ in both)
    for number in range(count + 1):  # the first of each warms it up
        for connect, watch in zip(both, watches, strict=True):
            with watch.lap():
                sock = _tunnel(connect)
            sock.close()
        box.hear(bool)
        if not number:
            watches = tuple(Watch() for _ in both)
    ours, theirs = (statistics.median(watch.seconds) * 1000 for watch in watches)
    return [
        compare(
            "open a tunnel: resolve (Squid: from its cache), judge, dial, answer",
            ours,
            peer=PEER,
            theirs=theirs,
            unit="ms",
            smaller_is_better=True,
            noise=(noise(watches[0].seconds), noise(watches[1].seconds)),
        )
    ]


def _carried(
    both: tuple[Connect, ...], box: ProxyBox, context: ssl.SSLContext, amounts: dict[str, int]
) -> Plain:
    """Return a row of the bytes a tunnel carries down in a second."""
    size = amounts["mebibytes"]
    watches = tuple(Watch() for _ in both)
    for _ in range(amounts["bulks"]):
        for connect, watch in zip(both, watches, strict=True):
            sock = _tunnel(connect)
            with context.wrap_socket(sock, server_hostname=NAME) as tls:
                tls.sendall(f"GET /{size} HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
                with watch.lap(size):
                    _drain(tls, size * 2**20)
        box.hear(lambda lines: any(line["verdict"] == "closed" for line in lines))
    ours, theirs = (watch.rate() for watch in watches)
    return compare(
        "carry an answer down one tunnel",
        ours,
        peer=PEER,
        theirs=theirs,
        unit="MiB/s",
        noise=(noise(watches[0].seconds), noise(watches[1].seconds)),
    )


def _drain(tls: ssl.SSLSocket, count: int) -> None:
    buffer = bytearray(256 * 1024)
    while count > 0:
        got = tls.recv_into(buffer)
        assert got, "the answer was cut"
        count -= got
