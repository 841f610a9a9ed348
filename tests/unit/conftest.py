"""What most tests of the operator's side begin with: a workspace, its clock, its index."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workspaces import Clock, make_workspace
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Workspace:
    return make_workspace(tmp_path, clock=clock)


@pytest.fixture
def index(ws: Workspace) -> Iterator[Index]:
    found = Index(ws.store, ws.seals)
    yield found
    found.close()
