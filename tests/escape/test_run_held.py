"""`executor_network: kernel-allowlist`: a run whose proxy the kernel holds to its addresses.

The real boxes, the real packet filter and an attacker's own program in the proxy's box, judged
by what the far side of a test internet wrote down.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet import played
from tests.support.origins.simple import HOST, INNER, MOVING
from tests.support.run_scenes import TOLD
from tests.support.wires import ATTEMPTS

Told = dict[str, Any]
PROBE = "ipv4only.arpa"
EVERYTHING = {title for title, *_ in ATTEMPTS}
NAMES = {"name server", "name server by TCP", "other name server"}
PINNED = {"443", "443 by MPTCP", "443 by fast open"}
REFUSED = {"EHOSTUNREACH", "EACCES", "EPERM"}
NOT_HELD = "the kernel cannot hold a run to its addresses: "


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.run_scenes:held_scenes") as found:
        yield found


@pytest.fixture(scope="module")
def swept() -> Iterator[Told]:
    with played("tests.support.run_scenes:sweeps") as found:
        yield found


# claim TG-C-330
def test_an_owned_proxy_reaches_the_addresses_its_run_began_with_and_nothing_else(
    told: Told,
) -> None:
    control = told["owned, not held"]
    assert set(control.values()) == {"sent"}, "control: without the kernel's rules all is in reach"
    assert told["told, not held"] == [TOLD, TOLD], "control: a name tells its owner something"
    owned = told["owned"]
    assert owned["told"] == {
        "pinned": "sent",
        "another": "EHOSTUNREACH",
        "inside": "EHOSTUNREACH",
        "name server": "EPERM",
        "name server by TCP": "EHOSTUNREACH",
        "this machine": "EHOSTUNREACH",
    }
    assert owned["resolved"] == [], "nothing leaves by a name"


# claim TG-C-331
def test_names_are_asked_for_once_before_the_run_and_never_again(told: Told) -> None:
    assert set(told["start"]) == {HOST, INNER, MOVING, PROBE}
    for title in ("listed", "moving", "moving again"):
        assert told[title]["told"]["body"] == "GET /rows 0", "what is listed answers"
        assert told[title]["resolved"] == []
    plain = told["by the proxy alone"]
    assert plain["resolved"] == sorted((HOST, PROBE)), "control: a gateway asks each time"
    inner = told["inner"]
    assert (inner["told"]["reason"], inner["hellos"]) == ("proxy-refused", [])


# claim TG-C-332
def test_what_the_kernel_held_is_in_the_log_and_in_the_result(told: Told) -> None:
    held = told["held"]
    assert held["boxes"] == ["run-gateway", "run-proxy"]
    assert "run-proxy-addresses" in held["proofs"]
    entries = [json.loads(line) for line in held["log"].splitlines()]
    before, after = (entry["data"] for entry in entries if entry["kind"] == "gateway.held")
    assert before == {"addresses": ["104.18.0.1"]}
    assert after["refused"] >= 3 + 5, "what the proxy tried, and what its attacker did"
    assert after["passed"] > 0
    kinds = [entry["kind"] for entry in entries]
    assert kinds.index("gateway.held") < kinds.index("gateway.asked"), "known before it speaks"
    assert "threegate_runs" in told["tables"]
    assert told["tables after"] == "", "and gone with the run"


@pytest.mark.parametrize("name", ["rules that are not loaded", "rules that let names through"])
# claim TG-C-332
def test_a_run_is_not_called_held_by_rules_that_do_not_hold(told: Told, name: str) -> None:
    assert told["left by a killed one"]["hellos"] == [HOST], "control: with rules it is carried"
    found = told[name]
    assert found["said"] == "the proxy ended: it stopped too early"
    assert found["hellos"] == [], "nothing was carried"


# claim TG-C-332
def test_rules_that_are_not_read_back_or_go_away_end_the_run_with_an_error(told: Told) -> None:
    missing = told["addresses that are not there"]
    assert missing["said"] == f"{NOT_HELD}the kernel does not have the addresses it was given"
    assert missing["hellos"] == []
    gone = told["rules that went away"]
    assert gone["said"] == f"{NOT_HELD}table threegate_runs is not there any more"
    assert gone["hellos"] == [HOST], "control: it was carried while they held"


# claim TG-C-330
def test_a_table_that_a_killed_run_left_refuses_and_is_replaced_by_the_next(told: Told) -> None:
    found = told["left by a killed one"]
    before, after = found["before"], found["after"]
    assert (before["another"], before["pinned"]) == ("sent", "EHOSTUNREACH"), "what it left"
    assert found["told"]["status"] == 200
    assert (after["another"], after["pinned"]) == ("EHOSTUNREACH", "sent"), "the next one's own"


def reached(swept: Told, table: str, name: str) -> set[str]:
    found: dict[str, str] = swept[table][name]
    assert set(found) == EVERYTHING
    assert {why for why in found.values() if why != "open"} <= REFUSED, found
    return {title for title, why in found.items() if why == "open"}


# claim TG-C-330
def test_each_table_lets_its_uid_reach_what_it_says_and_nobody_else_notices(swept: Told) -> None:
    assert reached(swept, "none", "run-proxy") == EVERYTHING, "control: without rules all is open"
    assert reached(swept, "names", "run-proxy") == NAMES
    assert reached(swept, "addresses", "run-proxy") == PINNED | {"443 by IPv6"}
    assert reached(swept, "one family", "run-proxy") == PINNED
    for table in ("names", "addresses", "one family"):
        assert reached(swept, table, "proxy") == EVERYTHING, "FETCH's own proxy is left alone"
