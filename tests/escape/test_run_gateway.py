"""The gateway of a run: its real box and its real proxy, asked by a guest that says anything.

Judged by what the far side of a test internet wrote down, and by what a result would say.
"""

import json
from typing import Any

import pytest

from tests.support.boxes import STARTERS, played_as
from tests.support.origins.simple import HOST, INNER, LARGE, NOT_ASKED, SECOND, UNLISTED
from tests.support.run_scenes import KEY

Told = dict[str, Any]
SCENES = "tests.support.run_scenes:gateway_scenes"
PROBE = "ipv4only.arpa"  # how this network carries IPv4: a name that everybody knows


WHO = [STARTERS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in STARTERS[1:])]


@pytest.fixture(scope="module", params=WHO)
def told(request: pytest.FixtureRequest) -> Told:
    return played_as(request.param, SCENES)


def asked(told: Told, name: str) -> Told:
    """Return what an ask was told, for one that must not leave the gateway."""
    found = told[name]
    assert (found["resolved"], found["hellos"]) == ([], []), "nothing of it left"
    answer: Told = found["told"]
    return answer


# claim TG-C-267
def test_a_run_reaches_the_hosts_its_request_lists_and_no_other_is_even_resolved(
    told: Told,
) -> None:
    for name, host in (("control", HOST), ("second", SECOND)):
        assert told[name]["told"]["body"] == "GET /rows 0", "control: what is listed answers"
        assert told[name]["resolved"] == sorted((host, PROBE)), "control: our resolver is asked"
    assert told["reach"][:2] == ["connected"] * 2, "control: without the boxes all are in reach"
    for name in ("where it moved", "by name", "granted, not listed"):
        assert asked(told, name)["reason"] == "host-not-listed"
    for name in ("address", "local", "plain"):
        assert asked(told, name)["reason"] == "url-malformed"


# claim TG-C-268
def test_a_redirect_is_not_followed_and_a_name_that_leads_inside_is_refused(told: Told) -> None:
    moved = told["moved"]
    assert moved["told"]["status"] == 302
    assert moved["told"]["headers"]["location"] == f"https://{UNLISTED}/rows"
    assert moved["hellos"] == [HOST], "nobody went where it points"
    assert asked(told, "where it moved")["reason"] == "host-not-listed"
    inside = told["inside"]
    assert inside["resolved"] == sorted((INNER, PROBE)), "control: its name is listed"
    assert told["reach"][2] == "connected", "control: that address is in reach of the machine"
    assert inside["hellos"] == []
    assert inside["told"]["reason"] == "proxy-refused"
    assert inside["told"]["detail"].endswith("address-refused")


# claim TG-C-269
def test_a_credential_does_not_leave_and_is_recorded_nowhere(told: Told) -> None:
    for name in ("key in body", "key in url", "key in header", "key as hex"):
        assert asked(told, name)["reason"] == "credential-in-request"
    assert told["no key"]["told"]["status"] == 200, "control: the same letters, another order"
    result = told["result"]
    arguments = [one["argument"] for one in result["violations"]]
    assert f"POST {HOST}: credential-in-request" in arguments
    assert "gateway.asked" in result["log"], "control: the log has every ask"
    assert KEY not in json.dumps(told)


def test_methods_and_headers_that_policy_has_not_do_not_leave(told: Told) -> None:
    assert told["post"]["told"]["body"] == "POST /rows 4", "control"
    assert asked(told, "method")["reason"] == "method-not-allowed"
    assert asked(told, "body of a get")["reason"] == "method-not-allowed"
    for name in ("header", "smuggled"):
        assert asked(told, name)["reason"] == "header-not-allowed"
    assert "set-cookie" not in told["post"]["told"]["headers"]


# claim TG-C-300
def test_bytes_and_requests_are_counted_outside_the_guest(told: Told) -> None:
    first, second, *rest = told["up"]
    assert [first["status"], second["status"]] == [200, 200], "control: as long as bytes are left"
    assert [one["reason"] for one in (*rest, told["longer than all"])] == ["up-bytes"] * 3
    assert told["after it"]["status"] == 200, "a shorter one still fits, and frames stay whole"
    (row,) = told["up result"]["carried"]
    assert row["up_bytes"] <= 8_192
    for name in ("down", "endless"):
        assert told[name]["reason"] == "down-bytes"
    assert told["down control"] == LARGE, "control: with more bytes it comes"
    (row,) = told["down result"]["carried"]
    assert row["down_bytes"] < 2 * 65_536, "what was on its way when it was cut"
    assert [one.get("status", one.get("reason")) for one in told["requests"]] == [
        *(200, 200),
        *("requests-spent", "requests-spent"),
    ]


# claim TG-C-301
def test_what_passed_and_what_was_refused_is_told_by_the_gateway_not_by_the_guest(
    told: Told,
) -> None:
    result = told["result"]
    assert [row["host"] for row in result["carried"]] == [HOST, SECOND]
    assert [row["requests"] for row in result["carried"]] == [4, 1]
    assert {one["rule"] for one in result["violations"]} == {"executor_network"}
    assert all(one["place"].startswith("policy/tool-exec.policy.md:") for one in told_all(told))
    arguments = [one["argument"] for one in result["violations"]]
    assert f"GET {NOT_ASKED}: host-not-listed" in arguments
    assert f"DELETE {HOST}: method-not-allowed" in arguments
    assert result["boxes"] == ["proxy", "run-gateway"]
    entries = [json.loads(line) for line in result["log"].splitlines()]
    kinds = [entry["kind"] for entry in entries]
    assert kinds.count("gateway.asked") == told["asks"], "each ask is an entry of the log"
    assert kinds.count("proxy.decision") >= 2 * 5, "and each tunnel, by the proxy's own word"


def told_all(told: Told) -> list[Told]:
    found: list[Told] = told["result"]["violations"]
    assert found
    return found


# claim TG-C-302
def test_an_owned_guest_ends_its_gateway_and_an_owned_gateway_reaches_the_listed_hosts_alone(
    told: Told,
) -> None:
    assert "ended" in told["owned guest"]["after"], "what is no frame is the end of it"
    assert told["owned guest"]["carried"], "control: before that it was carried"
    owned = told["owned"]
    assert owned["proxy allowed"].startswith("HTTP/1.1 200 Connection established"), "control"
    closed = {"tcp": "EACCES", "udp": "EACCES", "tcp6": "EACCES", "another socket": "ENOENT"}
    closed |= {"abstract socket": "ECONNREFUSED", "write": "EROFS", "write tmp": "ENOENT"}
    closed |= {"home": "ENOENT", "exec": "EPERM", "fork": "EPERM"}
    assert {title: owned[title] for title in closed} == closed
    for title, reason in (
        ("unlisted", "not-allowed"),  # policy grants it to runs, and this one does not list it
        ("inside", "not-allowed"),
        ("port", "port-not-443"),
        ("address", "not-allowed"),
        ("plain", "not-connect"),
    ):
        assert owned[f"proxy {title}"].split("Reason: ")[1].strip() == reason
    assert owned["proxy fronting"].endswith("b''"), "no other name inside its tunnel"
