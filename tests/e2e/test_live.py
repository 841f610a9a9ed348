"""`make live-test`, unchanged: without any network, and where stand-ins answer for the web."""

import os
import subprocess
import sys

import pytest

from scripts import live_test
from tests.support.cli import made
from tests.support.fetches import packet_ids, packets
from tests.support.internet import NAMESPACES, ROOT, python
from tests.support.internet_place import PlaceCli, place_at
from tests.support.origins import simple


def test_without_a_network_every_case_is_skipped_by_name() -> None:
    alone = subprocess.run(
        [*NAMESPACES, *python("scripts.live_test")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == 0, alone.stderr
    skipped = [line for line in alone.stdout.splitlines() if "SKIPPED" in line]
    assert len(skipped) == len(live_test.CASES) == 3
    for case, line in zip(live_test.CASES, skipped, strict=True):
        assert line.startswith(f"live-test: SKIPPED {case.reference}: no way to {case.host}: ")
    assert "nothing was fetched" in alone.stdout


@pytest.mark.slow
def test_where_the_hosts_answer_three_packets_are_made_and_checked() -> None:
    with place_at(simple.LIVE_WORLD, "system") as place:
        done = place.run(
            [sys.executable, "scripts/live_test.py"],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            cwd=ROOT,
        )
        asked = {event["host"] for event in place.seen() if event["event"] == "request"}
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines() == [f"live-test: ok {case.reference}" for case in live_test.CASES]
    assert {case.host for case in live_test.CASES} <= asked


# claim TG-C-139
def test_what_the_system_vouches_for_is_no_test_source() -> None:
    with place_at(simple.LIVE_WORLD, "system") as place:
        base = place.directory / "home"
        base.mkdir()
        cli = PlaceCli(base, made(base).workspace, place=place)
        place.own(base)
        done = cli("fetch", "--enrich", "none", f"doi:{simple.HELIX.doi}")
        (packet,) = packets(cli).values()
        (name,) = packet_ids(cli).values()
        assert packet.title.open_for_display() == simple.HELIX.title
        assert packet.trust_anchor == "system"
        assert "TEST SOURCE" not in done.out + cli("packet", "show", name).out
