"""What is found on this machine: own addresses, anchors by digest, somebody else's socket."""

import hashlib
import os
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.support.policies import policy
from threegate.base.errors import GateUnavailable, PolicyDenied
from threegate.host.proxy.machine import anchors, other_proxy, own_addresses
from threegate.policy.bundle import Bundle

TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
     +-- 93.184.216.0/24 2 0 2
        |-- 93.184.216.0
           /24 link UNICAST
        |-- 93.184.216.34
           /32 host LOCAL
        |-- 93.184.216.255
           /32 link BROADCAST
"""
INET6 = """\
20010db8000000000000000000000001 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""
PEM = b"-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"


def listing(data: bytes) -> Bundle:
    digest = hashlib.sha256(data).hexdigest()
    new = f'trust_anchors: [system, "sha256:{digest}"]'
    return policy(fetch=("trust_anchors: [system]", new)).bundle()


def keep(root: Path, data: bytes, name: str = "test.pem") -> Path:
    path = root / "policy/anchors" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_every_local_address_is_found_and_no_neighbour(tmp_path: Path) -> None:
    net = tmp_path / "self/net"
    net.mkdir(parents=True)
    (net / "fib_trie").write_text(TRIE)
    (net / "if_inet6").write_text(INET6)
    wanted = ("93.184.216.34", "127.0.0.1", "::1", "2001:db8::1")
    assert set(own_addresses(tmp_path)) == {ip_address(text) for text in wanted}


def test_this_machine_has_at_least_its_loopback() -> None:
    assert ip_address("127.0.0.1") in own_addresses()


def test_an_anchor_is_found_by_its_digest(tmp_path: Path) -> None:
    keep(tmp_path, b"another", "another.pem")
    keep(tmp_path, PEM)
    assert anchors(tmp_path, listing(PEM)) == (PEM,)
    assert anchors(tmp_path, policy().bundle()) == (), "none is used that policy does not list"


@pytest.mark.parametrize("kind", ["changed", "missing", "link", "fifo"])
def test_an_anchor_that_is_not_the_listed_file_is_refused(tmp_path: Path, kind: str) -> None:
    place = keep(tmp_path, PEM)
    assert anchors(tmp_path, listing(PEM)) == (PEM,), "control"
    if kind == "changed":
        place.write_bytes(PEM + b"\n")
    else:
        place.unlink()
    if kind == "link":
        (tmp_path / "real").write_bytes(PEM)
        place.symlink_to(tmp_path / "real")
    elif kind == "fifo":
        os.mkfifo(place)
    with pytest.raises(PolicyDenied) as refused:
        anchors(tmp_path, listing(PEM))
    assert refused.value.code == "TG-FET-061"


def test_somebody_elses_proxy_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    rules = policy(fetch=("proxy: own", f"proxy: connect:{path}")).bundle()
    assert other_proxy(policy().bundle()) is None, "control: our own is started"
    with pytest.raises(GateUnavailable) as refused:
        other_proxy(rules)
    assert refused.value.code == "TG-FET-062"
    path.write_bytes(b"")
    with pytest.raises(GateUnavailable):
        other_proxy(rules)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        assert other_proxy(rules) == path
