"""`init` can be repeated after any end, and touches nothing that it did not make."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash import deaths
from tests.support.workspaces import Clock, key_file, public_of, soft_signer
from threegate.base.errors import GateUnavailable, StorageFailed, UsageError
from threegate.host.keys.operator import DEFAULT_PRINCIPAL, Operator
from threegate.host.workspace.setup import init_workspace, prepare_root
from threegate.host.workspace.workspace import MARKER, open_workspace

CALLS = ("rename", "replace")  # where the workspace appears, and what is in it


def init(base: Path, root: Path) -> None:
    prepare_root(root)
    operator = Operator(key_file(base), public_of())
    init_workspace(
        root, operator=operator, principal=DEFAULT_PRINCIPAL, signer=soft_signer(), clock=Clock()
    )


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


MADE = ["audit", "bundles", "handoff", "notes.txt", "policy", MARKER]


# claim TG-C-416
def test_kill_during_init_is_in_nobodys_way(tmp_path: Path) -> None:
    root, seen = tmp_path / "ws", set[tuple[str, ...]]()

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        (root / "notes.txt").write_bytes(b"mine")

    for death in deaths(lambda: init(tmp_path, root), prepare, CALLS):
        left = tuple(name for name in names(root) if not name.startswith(".threegate-init-"))
        seen.add(left)
        if MARKER not in left:
            init(tmp_path, root)
        else:
            with pytest.raises(UsageError, match="is a workspace already"):
                init(tmp_path, root)
        assert names(root) == sorted(MADE), death
        assert (root / "notes.txt").read_bytes() == b"mine"
        open_workspace(root, clock=Clock()).close()
    assert ("notes.txt",) in seen, "control: killed before anything was moved"
    assert any(1 < len(left) < len(MADE) for left in seen), "control: and between two moves"
    assert tuple(sorted(MADE)) in seen, "control: and after the last one"


# claim TG-C-416
def test_what_somebody_made_after_a_kill_is_not_touched(tmp_path: Path) -> None:
    """A killed init had moved `policy`; then somebody removed it and made another one."""
    root = tmp_path / "ws"

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)

    for _ in deaths(lambda: init(tmp_path, root), prepare, CALLS):
        if not (root / "policy").exists() or (root / MARKER).exists():
            continue
        shutil.rmtree(root / "policy")
        (root / "policy").mkdir()
        (root / "policy" / "mine.md").write_bytes(b"mine")
        with pytest.raises(UsageError, match="already holds policy") as caught:
            init(tmp_path, root)
        assert "init did not make them" in caught.value.hint
        assert (root / "policy" / "mine.md").read_bytes() == b"mine"
        shutil.rmtree(root / "policy")
        init(tmp_path, root)  # control: without it, the rest is taken back and init works
        return
    raise AssertionError("no kill came between two moves")


# claim TG-C-416
def test_a_failed_init_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, true_rename = tmp_path / "ws", os.rename
    for failing in ("audit", "handoff", MARKER):

        def full(source: Any, target: Any, failing: str = failing, **fds: int) -> None:
            if target == root / failing:
                raise OSError(errno.ENOSPC, "no room")
            true_rename(source, target, **fds)

        with monkeypatch.context() as patch, pytest.raises(StorageFailed, match="ENOSPC"):
            patch.setattr(os, "rename", full)
            init(tmp_path, root)
        assert names(root) == []
    init(tmp_path, root)  # control


def test_a_signer_that_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    class Refusing:
        def sign(self, _: bytes, __: str) -> bytes:
            raise GateUnavailable("no touch")

    root, operator = tmp_path / "ws", Operator(key_file(tmp_path), public_of())
    prepare_root(root)
    with pytest.raises(GateUnavailable):
        init_workspace(
            root, operator=operator, principal="operator", signer=Refusing(), clock=Clock()
        )
    assert names(root) == []
    init(tmp_path, root)  # control
