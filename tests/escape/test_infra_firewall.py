"""The generated firewall, loaded for real: every uid against every kind of destination.

Judged by what each of them got and by what the far side wrote down about whom.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet import played
from tests.support.level_scenes import UIDS
from tests.support.wires import ATTEMPTS
from threegate.sandbox.profiles import PROFILES

Told = dict[str, Any]
VARIANTS = ("laptop", "strict")
EVERYTHING = {title for title, *_ in ATTEMPTS}
# Rejected by ICMP, by ICMPv6, or before a datagram was made.
REFUSED = {"EHOSTUNREACH", "EACCES", "EPERM"}
OUTSIDE = {"443", "443 by MPTCP", "443 by fast open", "443 by IPv6"}
NAMES = {"name server", "name server by TCP"}
LOCAL = {
    *("model server", "this machine", "this machine by IPv6"),
    *("own address", "own address by IPv6"),
}
# Whoever is not here reaches nothing at all, this machine included.
REACHED = {
    "proxy": OUTSIDE | NAMES,
    "run-proxy": OUTSIDE | NAMES,  # and less while it runs: `test_run_held`
    "squid": OUTSIDE | NAMES,
    "gateway": {"squid"},
    "bridge": {"model server"},
}
OTHERS = {"laptop": EVERYTHING - {"squid"}, "strict": LOCAL}


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.level_scenes:firewall_scenes") as found:
        yield found


def reached(told: Told, variant: str, name: str) -> set[str]:
    """Return what was reached; whatever was not must have been refused, not lost."""
    found: dict[str, str] = told[variant]["reached"][name]
    assert set(found) == EVERYTHING
    assert {why for why in found.values() if why != "open"} <= REFUSED, found
    return {title for title, why in found.items() if why == "open"}


def arrivals(told: Told, variant: str, name: str) -> set[str]:
    """Return what the far side took from somebody."""
    lines = (line.split(" ", 1) for line in told[variant]["far"])
    return {where for uid, where in lines if uid == str(UIDS[name])}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", UIDS)
# claim TG-C-134
def test_everybody_reaches_what_the_rules_say(told: Told, name: str, variant: str) -> None:
    control = reached(told, "none", "fetch-retrieve")
    assert control == EVERYTHING, "control: without rules everything is open"
    expected = REACHED.get(name, set())
    if name in {"somebody", "root"}:
        expected = OTHERS[variant]
    assert reached(told, variant, name) == expected


@pytest.mark.parametrize("variant", VARIANTS)
# claim TG-C-134
def test_the_far_side_hears_of_nobody_who_may_not_speak(told: Told, variant: str) -> None:
    assert len(arrivals(told, "none", "fetch-retrieve")) == 14, "control: all of it arrives"
    speaking = {
        "proxy",
        "run-proxy",
        "squid",
        *(("somebody", "root") if variant == "laptop" else ()),
    }
    for name in UIDS:
        assert bool(arrivals(told, variant, name)) == (name in speaking), name
    dialled = {"tcp 104.18.0.1 443", "tcp 2606:4700::1 443"}
    resolved = {"udp 45.1.1.1 53", "tcp 45.1.1.1 53"}
    for name in ("proxy", "run-proxy", "squid"):
        assert arrivals(told, variant, name) == dialled | resolved


@pytest.mark.parametrize("variant", VARIANTS)
def test_refusals_are_counted(told: Told, variant: str) -> None:
    counters = told[variant]["counters"]
    for name in ("proxy", "squid", "gateway", "bridge", "silent"):
        assert counters[f"{name}_refused"] > 0, name
    assert counters["proxy_dialled"] > 0
    assert ("others_refused" in counters) == (variant == "strict")


def test_every_gate_is_in_the_table(told: Told) -> None:
    assert set(PROFILES) <= set(told["strict"]["reached"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_doctor_finds_out_by_trying(told: Told, variant: str) -> None:
    assert told["none"]["silent"] == []
    assert set(told[variant]["silent"]) == set(UIDS) - {"somebody", "root"}
