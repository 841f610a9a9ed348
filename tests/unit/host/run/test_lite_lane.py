"""The lane's boxes: all of them start at once, and one that cannot start costs nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workspaces import make_workspace
from threegate.base.errors import GateUnavailable
from threegate.host.run import lifecycle
from threegate.host.run.rules import Rules
from threegate.host.workspace.workspace import Workspace


class FakeBoxes:
    """Starts a box when every box is asked for: one after the other none would start."""

    meeting: threading.Barrier
    opened: list[str]
    broken: frozenset[str]

    def __init__(self, _bundle: object) -> None:
        self.level: str | None = None

    def box(self, confidentiality: str) -> None:
        if self.level != confidentiality:
            self.meeting.wait(timeout=30)
            if confidentiality in self.broken:
                raise GateUnavailable("no box here")
            self.level = confidentiality
            self.opened.append(confidentiality)

    def close(self) -> None:
        self.level = None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeBoxes]:
    FakeBoxes.meeting, FakeBoxes.opened = threading.Barrier(2), []
    FakeBoxes.broken = frozenset({"confidential"})
    monkeypatch.setattr(lifecycle, "Boxes", FakeBoxes)
    return FakeBoxes


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    yield make_workspace(tmp_path)


def test_all_boxes_start_at_once(ws: Workspace, fake: type[FakeBoxes]) -> None:
    with lifecycle._Lane(ws, Rules(ws), 2) as lane:
        lane.prove("internal")
        lane.prove("internal")
    assert fake.opened == ["internal", "internal"]


def test_a_lane_without_a_box_says_so_before_anything_is_claimed(
    ws: Workspace, fake: type[FakeBoxes]
) -> None:
    with lifecycle._Lane(ws, Rules(ws), 2) as lane:
        for _ in range(2):  # it is not taken for proven
            with pytest.raises(GateUnavailable):
                lane.prove("confidential")
        lane.prove("internal")  # control: the boxes are free again
    assert "internal" in fake.opened
    assert "confidential" not in fake.opened
