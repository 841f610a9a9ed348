"""status: what waits, what is left over, how far the clock is off."""

import os
import subprocess
import sys

import pytest

from tests.support.samples import fetch_request, packet
from tests.support.workspaces import Clock, approve, claim, soft_signer, take_in
from threegate.cli.status import size
from threegate.host.status import overview
from threegate.host.workspace.index import Index
from threegate.host.workspace.log_signatures import make_checkpoint
from threegate.host.workspace.workspace import Workspace


def test_a_new_workspace(ws: Workspace, index: Index) -> None:
    found = overview(ws, index)
    assert found["id"] == ws.marker.id
    assert found["policy"]["generation"] == 1
    assert found["policy"]["files"] == "as applied"
    assert (found["checkpoint"], found["clock_behind_seconds"], found["strays"]) == (None, 0, [])
    assert found["waiting"] == {"held": 0, "draft": 0}


def test_counts_come_with_their_quotas(ws: Workspace, index: Index) -> None:
    take_in(ws, packet("One."), packet("Two."))
    (row,) = [row for row in overview(ws, index)["usage"] if row["files"]]
    assert (row["directory"], row["files"]) == ("handoff/packets/accepted", 2)
    assert row["bytes"] == sum(
        path.stat().st_size for path in (ws.root / "handoff/packets/accepted").iterdir()
    )
    assert row["max_files"] == 1_000_000


def test_a_clock_that_went_back_is_told_in_seconds(
    ws: Workspace, index: Index, clock: Clock
) -> None:
    clock.now -= 500
    assert overview(ws, index)["clock_behind_seconds"] == 500


def test_a_claim_of_a_process_that_died_is_told_apart(ws: Workspace, index: Index) -> None:
    first, second = take_in(ws, fetch_request(), fetch_request(nonce="f" * 32))
    claim(ws.store, first)
    made = approve(ws.store, second)
    program = (
        "import sys; from pathlib import Path; from threegate.handoff.store import Store\n"
        "from threegate.handoff.claims import RunClaim, claim_group\n"
        f"store = Store.open(Path(sys.argv[1]), clock=lambda: {ws.clock()})\n"
        "assert not claim_group(store, [RunClaim(*sys.argv[2:], 1)], reserve_bytes=4096)\n"
    )
    command = [sys.executable, "-c", program, str(ws.root), made.request_id, made.approval_id]
    subprocess.run(command, check=True)
    assert overview(ws, index)["claims"] == {"alive": [first], "dead": [second]}


def test_files_that_are_not_ours_are_listed(ws: Workspace, index: Index) -> None:
    (ws.root / "handoff/blobs/notes.txt").touch()
    (ws.root / "bundles/old").mkdir()
    assert overview(ws, index)["strays"] == ["bundles/old", "handoff/blobs/notes.txt"]


def test_the_largest_checkpoint_counts(ws: Workspace, index: Index) -> None:
    make_checkpoint(ws, soft_signer())
    second = make_checkpoint(ws, soft_signer())
    assert overview(ws, index)["checkpoint"] == second.checkpoint.size


def test_looking_changes_nothing(ws: Workspace, index: Index) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(ws.root.rglob("*"))}
    overview(ws, index)
    after = {path: path.stat().st_mtime_ns for path in sorted(ws.root.rglob("*"))}
    assert after == before
    assert os.fspath(ws.root) in map(os.fspath, [path.parent for path in before])


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**34, "16 GiB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert size(count) == text
