"""Claim: the same program and inputs give the same outcome bytes, wherever and whenever it runs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic_monty import Monty

from tests.support.boxes import STARTERS, said
from tests.support.lite import Lane, Program, job_for
from tests.support.lite_day import (
    DAYS,
    all_boxes_elsewhere,
    build,
    elsewhere,
    parts,
    plain,
    program,
    run_as_somebody,
    run_elsewhere,
    run_here,
)
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import TOOL_LITE
from threegate.sandbox.session import run_gate
from threegate.sandbox.worker import find_worker

TODAY = "from datetime import date\nstr(date.today())"
FEW = range(2000, 2020)
QUICK = range(60)
ALL = range(1000)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("other-day")
    for place in (directory, directory.parent):
        place.chmod(0o755)  # a gate that root starts has a uid of its own
    yield build(directory)


def days_ahead(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime.now(UTC)).days + 1


def test_it_is_another_day_in_stock_monty(library: Path) -> None:
    """Control: without our lane the same worker tells the other day."""
    wrapper = library.with_name("worker")
    line = f'LD_PRELOAD={library} exec {find_worker().binary} "$@"\n'
    wrapper.write_text(f"#!/bin/sh\n{line}", encoding="utf-8")
    wrapper.chmod(0o755)
    told = []
    for binary in (str(find_worker().binary), str(wrapper)):
        pool = Monty(binary_path=binary, min_processes=1, max_processes=1)
        with pool, pool.checkout() as session:
            told.append(days_ahead(session.feed_run(TODAY)))
    assert told[1] - told[0] == DAYS


def test_it_is_another_day_in_the_box(library: Path) -> None:
    """Control: in the same box a worker without our lane tells it, and its gate goes by it."""
    start = Start(TOOL_LITE, "threegate.sandbox.doctor_payloads:use_worker", find_worker().given())
    told = []
    for item in (start, elsewhere(start, library)):
        answer = run_gate(find_machine(), item, TODAY.encode(), deadline_seconds=60)
        told.append(days_ahead(said(answer).decode().strip('"')))
    assert told[1] - told[0] == DAYS
    with all_boxes_elsewhere(library), Lane() as lane:
        job = job_for(Program("6 * 7"), lane.rules)  # approved by the host's clock
        ran = lane.box.run(job, wall_ms=1000)
        assert (ran.outcome.exit, ran.outcome.code) == ("refused:approval", "TG-APR-007")
        replayed = plain(lane.box.run(replace(job, mode="replay"), wall_ms=1000).outcome)
        assert replayed["value"] == "42", "control: judged at its own time it runs"


def same(seeds: range, library: Path) -> Counter[str]:
    here, there = run_here(seeds), run_elsewhere(seeds, library)
    assert sorted(here) == sorted(there) == list(seeds)
    different = [seed for seed in seeds if here[seed] != there[seed]]
    assert different == [], [(here[seed], there[seed]) for seed in different[:2]]
    return Counter(outcome["exit"] for outcome in here.values())


# claim TG-C-99
def test_programs_end_alike_on_another_day(library: Path) -> None:
    ends = same(QUICK, library)
    assert ends["ok"] > 20, "control: most programs come to their end"
    assert len(ends) > 3, f"control: they end in many ways: {ends}"


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-99
def test_programs_end_alike_for_everybody(who: str) -> None:
    here = run_here(FEW)
    assert run_as_somebody(who, FEW) == here
    assert len({outcome["value"] for outcome in here.values()}) > 5, "control: they are different"


@pytest.mark.slow
# claim TG-C-99
def test_a_thousand_programs_end_alike_on_another_day(library: Path) -> None:
    ends = same(ALL, library)
    assert ends["ok"] > 400, "control"
    assert not {"limit:time", "limit:memory", "crashed"} & set(ends), "these need not be alike"


def test_the_programs_are_varied_and_always_the_same() -> None:
    made = [program(seed) for seed in ALL]
    assert len({item.code for item in made}) == len(made)
    assert made[7] == program(7)
    text = "\n".join(item.code for item in made)
    for part in (*parts("parts"), *parts("ends")):
        head = part.partition("{")[0].strip()
        assert head in text, "every part is in some program"
