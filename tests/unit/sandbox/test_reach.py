"""The table that holds a uid to addresses, and who may not set one."""

import os
import subprocess
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from threegate.base.errors import GateUnavailable
from threegate.sandbox import reach

ADDRESSES = (ip_address("2606:4700::1"), ip_address("104.18.0.2"), ip_address("104.18.0.1"))


def test_the_table_names_addresses_and_refuses_the_rest() -> None:
    text = reach.rules(60618, ADDRESSES, names=False)
    assert "set reach_v4 { type ipv4_addr; elements = { 104.18.0.1, 104.18.0.2 }; }" in text
    assert "set reach_v6 { type ipv6_addr; elements = { 2606:4700::1 }; }" in text
    assert "dport 53" not in text
    assert text.index("delete table") < text.index("chain run"), "replaced as a whole"
    accepts = [line for line in text.splitlines() if line.endswith(" accept")]
    assert all("@reach_v" in line and "tcp dport 443" in line for line in accepts)
    assert "meta skuid 60618 goto run" in text


def test_before_the_addresses_are_known_names_may_be_asked_for_and_nothing_else() -> None:
    text = reach.rules(60618, (), names=True)
    assert "elements" not in text
    assert "th dport 53 accept" in text


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Play a machine that can, until a test takes something away."""
    facts: dict[str, Any] = {"uid": 0, "nft": "/usr/sbin/nft", "code": 0}
    monkeypatch.setattr(os, "geteuid", lambda: facts["uid"])
    monkeypatch.setattr(reach, "find_program", lambda _: facts["nft"])

    def run(*_: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess([], facts["code"], "", "")

    monkeypatch.setattr(reach, "_run", run)
    return facts


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"uid": 4242}, "only root may set nftables"),
        ({"nft": None}, "nftables is not installed (sudo apt install nftables)"),
        ({"code": 1}, "the kernel does not let nftables be set"),
    ],
)
def test_a_machine_that_cannot_hold_says_why(
    machine: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    assert reach.missing() is None, "control"
    machine |= change
    assert reach.missing() == why
    with pytest.raises(GateUnavailable) as refusal, reach.reaching("run-proxy"):
        pytest.fail("nothing may start")
    assert refusal.value.message == f"the kernel cannot hold a run to its addresses: {why}"
    assert refusal.value.code == reach.NO_FILTER


def test_one_run_at_a_time_has_the_uid(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reach, "LOCKS", tmp_path)
    monkeypatch.setattr(reach, "WAIT_SECONDS", 0.0)
    assert machine["code"] == 0
    with (
        reach.reaching("run-proxy"),
        pytest.raises(GateUnavailable, match="another run has had this network"),
        reach.reaching("run-proxy"),
    ):
        pytest.fail("two runs would share one list")
    with reach.reaching("run-proxy"):
        pass  # control: when it is over, the next one has it
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_another_network_does_not_wait(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reach, "LOCKS", tmp_path)
    monkeypatch.setattr(reach, "WAIT_SECONDS", 0.0)
    assert machine["code"] == 0
    here = os.stat("/proc/self/ns/net")
    with reach.reaching("run-proxy"):
        monkeypatch.setattr(os, "stat", lambda _: os.stat_result((0, here.st_ino + 1, *here[2:])))
        with reach.reaching("run-proxy"):
            assert len(list(tmp_path.iterdir())) == 2


def test_a_lock_that_the_run_before_has_removed_holds_nothing(tmp_path: Path) -> None:
    lock, open_file = tmp_path / "lock", os.open

    def removed(*words: Any) -> int:
        found = open_file(*words)
        lock.unlink()
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", removed)
        assert reach._locked(lock) is None
    assert reach._locked(lock) is not None, "control"
