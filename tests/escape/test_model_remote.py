"""A proxy has one purpose; an owned bridge-remote box reaches one host and nothing else.

Real proxies and boxes on the test internet, judged by what the far side wrote down.
"""

from typing import Any

import pytest

from tests.support.boxes import STARTERS, played_as
from tests.support.model_scenes import HOSTS
from tests.support.origins.remote import ELSEWHERE, HOST, PACKETS, PUBLISHER

Told = dict[str, Any]
SCENES = "tests.support.model_scenes:remote_scenes"
OK = "HTTP/1.1 200 Said"
# `repr` takes the other quotes when one of the random bytes behind it is a quote itself.
ANSWERED = tuple(f"HTTP/1.1 200 Connection established   b{one}\\x16\\x03" for one in "'\"")


@pytest.fixture(scope="module", params=STARTERS)
def told(request: pytest.FixtureRequest) -> Told:
    return played_as(request.param, SCENES)


@pytest.mark.parametrize(
    ("purpose", "its"), [("packets", PACKETS), ("downloads", PUBLISHER), ("model", HOST)]
)
# claim TG-C-200
def test_a_proxy_of_one_purpose_refuses_the_hosts_of_the_others(
    told: Told, purpose: str, its: str
) -> None:
    found = told[purpose]
    assert found.pop(its) == OK, "control: its own host it reaches"
    assert {*found} == {*HOSTS} - {its}
    assert set(found.values()) == {"not-allowed"}
    # Whether there is a NAT64 is asked for by a name that everybody knows.
    assert {*told[f"{purpose} asked"]} == {its, "ipv4only.arpa"}, "no other name is even asked for"
    assert told["reach"] == ["connected", "connected"], "control: without a proxy all are in reach"


# claim TG-C-203
def test_an_owned_bridge_reaches_nothing_but_the_one_host_through_the_proxy(told: Told) -> None:
    owned = told["owned"]
    assert owned["proxy allowed"].startswith(ANSWERED)
    closed = {"tcp": "EACCES", "udp": "EACCES", "tcp6": "EACCES", "another socket": "ENOENT"}
    closed |= {"abstract socket": "ECONNREFUSED", "write": "EROFS", "write tmp": "ENOENT"}
    closed |= {"home": "ENOENT", "exec": "EPERM", "fork": "EPERM"}
    assert {title: owned[title] for title in closed} == closed
    for title, reason in (
        ("unlisted", "not-allowed"),  # a host of packets
        ("inside", "not-allowed"),
        ("port", "port-not-443"),
        ("address", "not-allowed"),
        ("plain", "not-connect"),
    ):
        assert owned[f"proxy {title}"].split("Reason: ")[1].strip() == reason
    assert owned["proxy fronting"].endswith("b''"), "no other name inside its tunnel"
    assert owned["proxy not tls"].endswith("b''")
    hellos = [event["name"] for event in told["whole"] if event["event"] == "hello"]
    assert ELSEWHERE not in hellos
    assert hellos[-1] == HOST


# claim TG-C-204
def test_an_owned_bridge_sends_no_more_than_one_question_may(told: Told) -> None:
    *good, last = told["spent"]
    assert last == "tunnels-spent"
    assert good == [OK] * 13, "twelve requests, and one to see which models there are"
    assert told["flooded"] != "", "control: it went on until it was cut"
    assert (told["flood"]["verdict"], told["flood"]["reason"]) == ("cut", "up-bytes")
    bound = 4 * 2**20
    assert bound < told["flood"]["up"] < bound + bound // 4, "what the policy says, wrapped"
