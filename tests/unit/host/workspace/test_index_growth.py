"""The index of a workspace that grows: pages of a long listing, work that is kept on the way."""

from pathlib import Path

import pytest

from tests.support.samples import fetch_request, packet_of_size, tool_request
from tests.support.workspaces import keep_blob, make_workspace, take_in
from threegate.artifacts.registry import Artifact
from threegate.host.workspace import index as index_module
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

REQUESTS = ("fr", "tr")


def mixed(ws: Workspace) -> list[str]:
    """Take in artifacts of three kinds, in turns; return their ids, newest first."""
    keep_blob(ws, b"rows")
    made: list[Artifact] = []
    for number in range(6):
        made.append(packet_of_size(number, 2500))
        made.append(fetch_request(nonce=f"{number:032x}"))
        made.append(tool_request(nonce=f"{number:032x}"))
    return take_in(ws, *made)[::-1]


@pytest.mark.parametrize("kinds", [("rp",), REQUESTS, ("an",), ("rp", "fr", "tr", "an")])
def test_pages_of_several_kinds_show_each_artifact_once_newest_first(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    ws = make_workspace(tmp_path)
    wanted = [item for item in mixed(ws) if item.partition("-")[0] in kinds]
    index = Index(ws.store, ws.seals)
    index.catch_up()
    pages = [index.page(kinds, state=None, limit=5, skip=skip) for skip in range(0, 20, 5)]
    assert [row.id for page in pages for row in page] == wanted
    assert index.count(kinds, state=None) == len(wanted)


def test_a_page_of_one_state_leaves_out_the_others(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    requests = [item for item in mixed(ws) if not item.startswith("rp-")]
    for item in requests[2:4]:
        ws.store.move(item, source="held", to="denied", op="deny")
    index = Index(ws.store, ws.seals)
    index.catch_up()
    denied = index.page(REQUESTS, state="denied", limit=50, skip=0)
    assert [row.id for row in denied] == requests[2:4]
    held = index.page(REQUESTS, state="held", limit=50, skip=0)
    assert [row.id for row in held] == [*requests[:2], *requests[4:]]


def test_a_long_catch_up_keeps_its_work_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "COMMIT_EVERY", 10)
    ws = make_workspace(tmp_path)
    for number in range(20):  # two entries each: no batch ends at a multiple of ten
        take_in(ws, packet_of_size(number, 2500))
    counts: list[int] = []

    def interrupted(seq: int, _last: int) -> None:
        counts.append(seq)
        if len(counts) == 3:
            raise KeyboardInterrupt

    index = Index(ws.store, ws.seals)
    with pytest.raises(KeyboardInterrupt):
        index.catch_up(interrupted)
    index.close()
    kept = Index(ws.store, ws.seals)
    assert 8 <= kept.count(("rp",), state=None) <= 15, "what was taken in is still there"
    kept.catch_up()
    assert kept.count(("rp",), state=None) == 20
