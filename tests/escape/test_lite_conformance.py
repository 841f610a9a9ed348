"""Claim: our lane changes nothing of what Monty computes, apart from what policy forbids.

The cases are Monty's own, of the pinned version; `docs/evidence/lite-conformance.md` counts them.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.support import lite_cases
from tests.support.lite import Lane
from threegate.gates.tool_exec.monty.lane import STILL

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence" / "lite-conformance.md"


@pytest.mark.slow
# claim TG-C-98
def test_cases_of_monty_end_as_in_stock_monty() -> None:
    with Lane() as lane:
        found = lite_cases.compare_all(lane, STILL)
    unexplained = [item for item in found if not item.why]
    assert unexplained == []
    counts = Counter(item.why for item in found)
    assert counts[lite_cases.SAME] > 500, "control: most cases are judged by what they computed"
    assert counts[lite_cases.FORBIDDEN["refused:import"]] > 0, "control: policy makes a difference"
    text = DOCUMENT.read_text("utf-8")
    assert [why for why, count in counts.items() if f"| {why} | {count} |" not in text] == []


def test_another_outcome_is_noticed() -> None:
    """Control of the comparison: each difference it must see is made, and seen."""
    with Lane() as lane:
        same = lane.run("print('a')\n1 / 3")
        end = lite_cases.stock("print('a')\n1 / 3")
        judged = lite_cases._judged
        assert judged(same, end) == lite_cases.SAME
        for code in ("print('b')\n1 / 3", "print('a')\n1 / 7", "print('a')\n1 / 0", "1 / 3"):
            assert judged(lane.run(code), end) is None, code
        failed = lite_cases.stock("{}['a']")
        assert judged(lane.run("{}['a']"), failed) == lite_cases.SAME
        assert judged(lane.run("{}['b']"), failed) is None
