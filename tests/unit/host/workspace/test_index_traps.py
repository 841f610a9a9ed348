"""The index is a plain file in the workspace: a copy of foreign text lies nowhere else."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.samples import packet
from tests.support.workspaces import make_workspace, take_in
from threegate.base.errors import AuditTampered
from threegate.gates.model.embedder.messages import VECTOR_BYTES
from threegate.handoff.records import INTENT
from threegate.host.workspace.fetched import FILE as FETCHED
from threegate.host.workspace.fetched import FetchCache
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.vectors import FILE as VECTORS
from threegate.host.workspace.vectors import VectorStore
from threegate.host.workspace.workspace import Workspace

WORD = "albatross"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = make_workspace(tmp_path)
    take_in(workspace, packet(f"one {WORD} flew"))
    yield workspace
    workspace.close()


def link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_a_file(path: Path, outside: Path) -> None:
    outside.touch()
    path.symlink_to(outside)


def second_name(path: Path, outside: Path) -> None:
    outside.touch()
    path.hardlink_to(outside)


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


Trap = Callable[[Path, Path], None]
each_suffix = pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
each_trap = pytest.mark.parametrize("trap", [link_to_nothing, link_to_a_file, second_name, fifo])


@each_suffix
@each_trap
# claim TG-C-487
def test_trap_in_the_place_of_the_index_is_replaced(
    ws: Workspace, tmp_path: Path, trap: Trap, suffix: str
) -> None:
    path, outside = ws.root / FILE, tmp_path / "outside"
    trap(ws.root / f"{FILE}{suffix}", outside)
    index = Index(ws.store, ws.seals)
    index.catch_up()
    assert index.count_found(WORD, ("rp",)) == 1  # control: it works
    assert path.is_file()
    assert not path.is_symlink()
    assert path.stat().st_nlink == 1
    index.close()
    assert not outside.exists() or outside.read_bytes() == b""


@each_suffix
@each_trap
# claim TG-C-487
def test_trap_in_the_place_of_the_vectors_is_replaced(
    ws: Workspace, tmp_path: Path, trap: Trap, suffix: str
) -> None:
    path, outside, row = ws.root / VECTORS, tmp_path / "outside", bytes(VECTOR_BYTES)
    trap(ws.root / f"{VECTORS}{suffix}", outside)
    vectors = VectorStore(ws.root, "e" * 64, ws.seals)
    vectors.keep({"text": row}, {})
    assert vectors.known(["text"]) == {"text": row}  # control: it works
    assert not path.is_symlink()
    assert path.stat().st_nlink == 1
    vectors.close()
    assert not outside.exists() or outside.read_bytes() == b""


@each_suffix
@each_trap
# claim TG-C-487
def test_trap_in_the_place_of_the_fetched_file_is_replaced(
    ws: Workspace, tmp_path: Path, trap: Trap, suffix: str
) -> None:
    path, outside = ws.root / FETCHED, tmp_path / "outside"
    trap(ws.root / f"{FETCHED}{suffix}", outside)
    before = outside.stat().st_mode if outside.exists() else None
    cache = FetchCache(ws.store, ws.seals)
    cache.made("plan", "rp-0", "2026-11-15T12:00:00Z")
    cache.close()
    assert not path.is_symlink()
    assert path.stat().st_nlink == 1
    assert path.stat().st_size > 0, "control: it was written"
    assert (outside.stat().st_mode if outside.exists() else None) == before
    assert not outside.exists() or outside.read_bytes() == b""


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "made anew"])
def test_a_log_the_host_did_not_write_is_said_not_skipped(ws: Workspace, kept: bool) -> None:
    index = Index(ws.store, ws.seals)
    index.catch_up()
    assert index.count(("rp",), state=None) == 1, "control"
    with ws.store.locked() as journal:
        journal.log.append([(INTENT, {"act": "put", "name": "x"})])
    if not kept:
        index.reset()
    with pytest.raises(AuditTampered, match="is not one the host writes") as caught:
        index.catch_up()
    assert caught.value.code == "TG-AUD-002"
    index.close()
