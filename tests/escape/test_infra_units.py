"""The generated units under a real systemd: they start, and an owned gate finds no network."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet import played
from threegate.sandbox.profiles import PROFILES

# A privileged container with systemd in it is more than an ordinary run of the tests should start.
pytestmark = pytest.mark.slow

Told = dict[str, Any]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.unit_scenes:scenes") as found:
        yield found


def test_every_service_starts_and_stays(told: Told) -> None:
    assert set(told["states"].values()) == {"active"}
    assert set(told["restarts"].values()) == {"0"}
    assert told["socket"] == "660 threegate-proxy threegate"


def test_both_sockets_answer_by_the_policy(told: Told) -> None:
    assert told["asked"] == {
        "proxy": "HTTP/1.1 200 Connection established",
        "proxy, other name": "HTTP/1.1 403 Forbidden",
        "gateway": "HTTP/1.1 403 Forbidden",
    }


@pytest.mark.parametrize("gate", ["fetch", "tool"])
def test_an_owned_gate_has_no_network_in_its_unit(told: Told, gate: str) -> None:
    dialled = told["asked"]["proxy"]
    assert dialled == "HTTP/1.1 200 Connection established", "control: there is a network"
    found = told[gate]["tried"]
    assert found["direct"] == found["datagram"] == "EAFNOSUPPORT"
    assert found["resolving"] == "gaierror -3"
    assert told[gate]["interfaces"] == ["lo"]
    assert set(told[gate]["capabilities"]) == {"0"}
    assert found["root file"] == found["library"] == "EROFS"
    assert found["workspace"] == "written", "control: what it may write, it writes"
    expected = "HTTP/1.1 200 Connection established" if gate == "fetch" else "EACCES"
    assert found["socket"] == expected, "the way out is FETCH's alone"


@pytest.mark.parametrize("gate", ["fetch", "tool"])
def test_boxes_start_inside_a_unit(told: Told, gate: str) -> None:
    states = {check["name"]: check["state"] for check in told[gate]["doctor"]["checks"]}
    for name, profile in PROFILES.items():
        if not profile.host_network:  # there is no network to have
            assert states[f"gate {name}"] == "in-force", name
