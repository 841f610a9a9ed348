"""An exported approval: OpenSSH alone tells whether it was signed, and by whom."""

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.requests import approved, held
from tests.support.workspaces import make_workspace, public_of, ssh_signer
from threegate.base.errors import StorageFailed, UsageError
from threegate.host.review.approval import approve, export
from threegate.host.review.decisions import revoke
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path)) as found:
        yield found


def verified(directory: Path, command: str) -> int:
    """Run the one command, without a line of our code."""
    words, _, source = command.partition(" < ")
    with (directory / source).open("rb") as message:
        done = subprocess.run(
            shlex.split(words),
            stdin=message,
            cwd=directory,
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert done.returncode in (0, 255), done.stderr
    return done.returncode


# claim TG-C-102
def test_ssh_keygen_alone_verifies_an_exported_approval(tmp_path: Path, ws: Workspace) -> None:
    sheet = held(ws)
    given = approve(ws, sheet, ssh_signer(tmp_path, ws.root), public_of())
    done = export(ws, given.id, tmp_path / "out")
    assert done.names == ("approval.md", "approval.md.sig", "allowed_signers")
    assert verified(done.directory, done.command) == 0
    approval = done.directory / "approval.md"
    assert sheet.id.encode() in approval.read_bytes(), "it names the request"
    approval.write_bytes(approval.read_bytes().replace(b"max_uses: 1", b"max_uses: 9"))
    assert verified(done.directory, done.command) == 255, "one changed byte is noticed"


def test_only_approvals_and_only_into_new_files(tmp_path: Path, ws: Workspace) -> None:
    sheet = held(ws)
    given = approved(ws, sheet)
    with pytest.raises(UsageError, match="is not an approval"):
        export(ws, sheet.id, tmp_path / "out")
    with pytest.raises(UsageError, match="no artifact"):
        export(ws, "ap-" + "0" * 64, tmp_path / "out")
    export(ws, given.id, tmp_path / "out")
    with pytest.raises(UsageError, match="is already there"):
        export(ws, given.id, tmp_path / "out")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed):
        export(ws, given.id, tmp_path / "file" / "below")


def test_a_spent_or_revoked_approval_can_still_be_shown_to_others(
    tmp_path: Path, ws: Workspace
) -> None:
    given = approved(ws, held(ws))
    revoke(ws, given.id)
    done = export(ws, given.id, tmp_path / "out")
    assert verified(done.directory, done.command) == 0
