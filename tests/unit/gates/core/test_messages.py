"""Messages between the host and CORE: what is said is what is read, and nothing else is."""

from dataclasses import replace

import pytest

from tests.support.messages import SAID, TASK
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import (
    Cited,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "extractive"},
        {"shown": (0,)},
        {"left_out": -1},
        {"problems": ("two\nlines",)},
        {"notes": (Untrusted(""),)},
        {"claims": SAID.claims * 501},
        {"drafts": SAID.drafts * 33},
    ],
)
def test_nothing_beyond_the_bounds_is_said(changes: dict[str, object]) -> None:
    assert SAID.to_bytes(), "control: without the change it can be said"
    with pytest.raises(ProtocolBroken):
        replace(SAID, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"question": ""},
        {"marker": "short"},
        {"may_draft": ("approval",)},
        {"brief": ("a\nb",)},
        {"sources": TASK.sources * 1001},
    ],
)
def test_nothing_beyond_the_bounds_is_asked(changes: dict[str, object]) -> None:
    assert TASK.to_bytes(), "control: without the change it can be asked"
    with pytest.raises(ProtocolBroken):
        replace(TASK, **changes)  # type: ignore[arg-type]


def test_a_cite_is_counted_from_one() -> None:
    assert Cited(1, 1, 1).sentence == 1
    with pytest.raises(ProtocolBroken):
        Cited(1, 0, 1)
