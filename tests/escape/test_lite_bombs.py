"""Claim: whatever a program does with time and memory, it ends as an outcome, and the lane lives.

`docs/evidence/lite-bombs.md` holds the figures of a whole run; `scripts/lite_evidence.py` makes it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_monty import Monty, MontyError

from tests.support.lite import LIMITS, MIB, Lane, Program, Watch
from tests.support.lite_bombs import every, measure
from threegate.sandbox.worker import find_worker

FAMILIES = list(dict.fromkeys(bomb.family for bomb in every()))
EACH = 2  # programs of a family in the quick run
SHORT_MS = 300


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    with Lane() as opened:
        yield opened


def lives(lane: Lane) -> None:
    assert lane.run("6 * 7").value == "42", "control: an ordinary program runs afterwards"


@pytest.mark.parametrize("family", FAMILIES)
# claim TG-C-95
def test_bombs_end_as_outcomes(lane: Lane, family: str) -> None:
    bombs = [bomb for bomb in every() if bomb.family == family]
    chosen = [
        replace(bomb, limits=replace(bomb.limits, wall_ms=SHORT_MS))
        for bomb in bombs[:: max(1, len(bombs) // EACH)][:EACH]
    ]
    wrong = [row.wrong for row in measure(lane, chosen) if row.wrong]
    assert wrong == []
    lives(lane)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
# claim TG-C-95
def test_every_bomb_ends_as_an_outcome(lane: Lane, family: str) -> None:
    bombs = [bomb for bomb in every() if bomb.family == family]
    wrong = [row.wrong for row in measure(lane, bombs) if row.wrong]
    assert wrong == []
    lives(lane)


LARGE = "text = 'q' * 400_000_000\nlen(text)"
LONG = "n = 0\nfor n in range(6_000_000):\n    pass\nn"


# claim TG-C-95
def test_the_limits_are_what_stops_a_bomb(lane: Lane) -> None:
    """Control: without them the same programs take what they want, and come to their end."""
    with Monty(binary_path=str(find_worker().binary), min_processes=1, max_processes=1) as pool:
        with pool.checkout() as session:
            pid = session.worker_pid
            assert pid is not None
            with Watch(pid) as watch:
                assert session.feed_run(LARGE) == 400_000_000
            assert watch.worker_bytes > 300 * MIB
        with pool.checkout() as session:
            assert session.feed_run(LONG) == 5_999_999
        brief = pool.checkout(limits={"max_feed_duration_secs": 0.05})
        with brief as session, pytest.raises(MontyError, match="time limit"):
            session.feed_run(LONG)
    large = lane.run(LARGE)
    assert (large.exit, large.value) == ("limit:memory", "")
    assert large.worker_bytes < 100 * MIB
    hurried = Program(LONG, limits=replace(LIMITS, wall_ms=50))
    assert lane.run(hurried).exit == "limit:time"
    lives(lane)


def test_table_in_the_documents_has_every_family() -> None:
    text = (Path(__file__).parents[2] / "docs" / "evidence" / "lite-bombs.md").read_text("utf-8")
    missing = [family for family in FAMILIES if f"| {family} |" not in text]
    assert missing == []
    assert f"| **all** | {len(every())} |" in text
