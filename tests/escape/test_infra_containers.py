"""Containers started by the generated script on a test internet: what an owned one reaches.

Judged by what arrived on the far side and by the proxy's decisions as well.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.containers import DOI
from tests.support.internet import played
from tests.support.origin import ORIGIN
from threegate.sandbox.profiles import PROFILES

Told = dict[str, Any]
SERVICES = ("core", "tool", "fetch")
# What works for the same account outside, and why it does not inside.
OPEN_OUTSIDE = {
    "direct": "ENETUNREACH",
    "datagram": "ENETUNREACH",
    "name server": "ENETUNREACH",
    "resolving": "gaierror -3",
    "host's loopback": "ECONNREFUSED",  # there is a loopback, of its own
    "vsock": "EAFNOSUPPORT",
    "keyring": "EPERM",
    "ptrace": "EPERM",
}
# What no account without privileges may do anywhere; here it is not even a matter of rights.
CLOSED = {
    "packet": "EAFNOSUPPORT",
    "raw": "EPERM",
    "root file": "EROFS",
    "program": "EROFS",
    "library": "EROFS",
    "sysctl": "EACCES",
    "core pattern": "EACCES",
}


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.containers:scenes") as found:
        yield found


@pytest.mark.parametrize("service", SERVICES)
# claim TG-C-135
def test_an_owned_container_reaches_no_network_and_changes_nothing(
    told: Told, service: str
) -> None:
    control, found = told["control"]["tried"], told[service]["tried"]
    for title, why in OPEN_OUTSIDE.items():
        assert not control[title].startswith("E"), f"control: {title} works outside"
        assert found[title] == why, title
    assert {title: found[title] for title in CLOSED} == CLOSED
    assert found["workspace"] == "written", "control: what it may write, it writes"
    assert told[service]["interfaces"] == ["lo"]
    assert set(told[service]["capabilities"]) == {"0"}
    assert told[service]["no new privileges"] == "1"
    assert told[service]["filter"] == "2"


# claim TG-C-135
def test_only_fetch_has_the_proxys_socket_and_only_for_listed_names(told: Told) -> None:
    assert told["fetch"]["tried"]["socket"] == "HTTP/1.1 200 Connection established", "control"
    assert told["fetch"]["tried"]["socket, other name"] == "HTTP/1.1 403 Forbidden"
    for service in ("core", "tool"):
        assert told[service]["tried"]["socket"] == "ENOENT"
    rules, dialled, refused = told["proxy"]
    assert rules["event"] == "in-force"
    assert (dialled["host"], dialled["address"]) == ("api.crossref.org", ORIGIN)
    assert (refused["host"], refused["reason"]) == ("evil.example", "not-allowed")
    # Three owned containers, and one connection: the one the proxy made.
    assert [event["origin"] for event in told["world"] if event["event"] == "connect"] == [ORIGIN]
    names = {event["name"] for event in told["world"] if event["event"] == "dns"}
    assert "evil.example" not in names


def test_boxes_start_inside_a_container(told: Told) -> None:
    states = {check["name"]: check["state"] for check in told["doctor"]["checks"]}
    levels = {check["name"]: check["level"] for check in told["doctor"]["checks"]}
    # A user-space kernel needs what a container withholds, and no default policy names one.
    optional = {name for name in PROFILES if name.startswith("runsc-")}
    assert {levels[f"gate {name}"] for name in optional} == {"information"}
    for name in set(PROFILES) - optional:
        assert states[f"gate {name}"] == "in-force", name
    assert states["monty worker"] == states["sandboxes as signed"] == "in-force"


def test_fetch_makes_a_packet_without_a_network(told: Told) -> None:
    (item,) = json.loads(told["fetched"])["items"]
    assert (item["reference"], item["status"]) == (DOI, "made"), told["fetched, said"]
    opened = told["proxy afterwards"][-2]
    assert (opened["host"], opened["verdict"]) == ("api.crossref.org", "allow")
    assert "no socket of a proxy" in told["elsewhere"], "the container of CORE cannot"
