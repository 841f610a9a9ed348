"""What the disk refuses while a batch is under way: as it was, or done, and never a wrong word."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.workspaces import audited, clock, files_of, make_store
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import StorageFailed
from threegate.handoff import states
from threegate.handoff.journal import Act, Put, Remove
from threegate.handoff.store import Store

OLD = b"an old blob"
NEW = (b"a new blob", b"another new blob")


def blob(data: bytes) -> Put:
    return Put(states.BLOBS, sha256_hex(data), data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_store(tmp_path / "store")
    store = Store.open(tmp_path / "store", clock=clock)
    with store.locked() as journal:
        journal.run("blob", [blob(OLD)])
    store.close()
    return tmp_path / "store"


def run_failing(root: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> bool:
    """Put two files and remove one, with one call failing; return whether it was refused."""
    store = Store.open(root, clock=clock)
    acts: list[Act] = [*map(blob, NEW), Remove(states.BLOBS, sha256_hex(OLD))]
    real: Callable[..., Any] = getattr(os, name)
    left = {"calls": number}

    def failing(*args: Any, **kwargs: Any) -> Any:
        left["calls"] -= 1
        if left["calls"] == -1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*args, **kwargs)

    refused = False
    with store.locked() as journal:
        monkeypatch.setattr(os, name, failing)
        try:
            journal.run("change", acts)
        except StorageFailed:
            refused = True
        monkeypatch.setattr(os, name, real)
    store.close()
    assert left["calls"] < 0, "control: the call was reached"
    return refused


@pytest.mark.parametrize(
    ("name", "number"),
    [("fsync", 0), ("fsync", 1), ("fsync", 2), ("fchmod", 0), ("rename", 0), ("write", 1)],
)
def test_error_before_the_first_rename_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    before = files_of(root)
    assert run_failing(root, monkeypatch, name, number)
    assert audited(root) == before


@pytest.mark.parametrize(("name", "number"), [("rename", 1), ("unlink", 0), ("fsync", 3)])
def test_error_after_the_first_rename_is_overcome(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    assert not run_failing(root, monkeypatch, name, number), "the change is in force"
    names = {line.split()[0].rpartition("/")[2] for line in audited(root)}
    assert names == {sha256_hex(data) for data in NEW}
