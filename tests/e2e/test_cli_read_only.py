"""A workspace on a disk that cannot be written, and one that was copied."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, Done, made, write
from tests.support.samples import packet
from tests.support.workspaces import files_below
from threegate.artifacts import registry
from threegate.audit.segment import segment_name
from threegate.cli.audit import MEND_MODES

STRANGER = 54_321
# A mount namespace of its own: the bind mount is gone with the process.
READ_ONLY = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
)
READERS = (
    *(("audit", "verify"), ("audit", "show"), ("status",), ("policy", "show"), ("key", "list")),
    # With an index, which is a temporary one there.
    *(("packet", "list"), ("packet", "search", "ice"), ("analysis", "list"), ("review", "list")),
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = made(tmp_path)
    write(tmp_path / "packet.md", registry.emit(packet()))
    write(tmp_path / "other.md", registry.emit(packet("Other.")))
    cli("admit", "packet.md")
    return cli


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def read_only(cli: Cli, *argv: str | Path, code: int | None = 0) -> Done:
    """Run a command for which the workspace is on a read-only file system."""
    ended = subprocess.run(
        [*READ_ONLY, str(workspace(cli)), *PYTHON, *map(str, argv)],
        capture_output=True,
        cwd=cli.base,
        env=cli.env(),
        timeout=cli.seconds,
        check=False,
    )
    done = Done(ended.returncode, ended.stdout, ended.stderr)
    assert code is None or done.code == code, f"{done.code} {done.out} {done.err}"
    return done


def given_away(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


@pytest.mark.parametrize("whose", ["ours", "somebody else's"])
# claim TG-C-433
def test_a_read_only_workspace_is_read_and_never_written(cli: Cli, whose: str) -> None:
    (packet_id,) = [path.stem for path in workspace(cli).glob("handoff/packets/accepted/*")]
    answer = cli("ask", "--extractive", "How tough is ice?", "--json").json["id"]
    if whose != "ours":
        given_away(workspace(cli))
        assert "TG-WS-001" in cli("audit", "verify", code=69).err, (
            "control: where it can be written"
        )
    before = files_below(workspace(cli))
    assert "verified" in read_only(cli, "audit", "verify").out
    for argv in (*READERS, ("packet", "show", packet_id), ("analysis", "show", answer)):
        read_only(cli, *argv)
    assert "How tough is ice?" in read_only(cli, "report", answer).out
    refused = read_only(cli, "admit", "other.md", code=74)
    assert "is on a read-only file system" in refused.err
    assert "[TG-DSK-003]" in refused.err
    assert files_below(workspace(cli)) == before


# claim TG-C-433
def test_an_edit_in_a_read_only_workspace_is_found(cli: Cli) -> None:
    (path,) = workspace(cli).glob("handoff/packets/accepted/*")
    read_only(cli, "audit", "verify")  # control
    path.chmod(0o644)
    only_mode = read_only(cli, "audit", "verify")
    assert "1 file has another mode" in only_mode.out, "which protects nothing there"
    path.write_bytes(path.read_bytes() + b"\n")
    found = read_only(cli, "audit", "verify", code=76)
    assert "its content is not what the log recorded" in found.out


# claim TG-C-433
def test_what_a_crash_left_is_reported_and_not_repaired(cli: Cli) -> None:
    segment = workspace(cli) / "audit" / segment_name(0)
    whole = segment.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert b'"kind":"outcome"' in lines[-1]
    segment.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # no outcome, and a torn line
    before = files_below(workspace(cli))
    found = read_only(cli, "audit", "verify", "--json", code=None).json
    assert len(found["unfinished"]) == 2, found
    assert "cut off" in found["unfinished"][0]
    assert "the last change" in found["unfinished"][1]
    assert "interrupted" in read_only(cli, "status").err
    assert files_below(workspace(cli)) == before
    cli("status")  # control: where it can be written it is settled
    assert cli("audit", "verify", "--json").json["ok"]


# claim TG-C-434
def test_a_copy_that_keeps_modes_works_in_everything(cli: Cli, tmp_path: Path) -> None:
    subprocess.run(["cp", "-a", workspace(cli), tmp_path / "copy"], check=True)
    copy = Cli(cli.base, tmp_path / "copy")
    copy("admit", "other.md")
    assert copy("packet", "list", "--json").json["total"] == 2
    assert copy("audit", "verify", "--json").json["ok"]


# claim TG-C-434
def test_a_copy_with_other_modes_says_so_and_is_mended_by_one_command(
    cli: Cli, tmp_path: Path
) -> None:
    shutil.copytree(workspace(cli), tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    copy = Cli(cli.base, tmp_path / "copy")
    refused = copy("packet", "list", code=76)
    assert "[TG-HND-005]" in refused.err
    assert "audit verify" in refused.err
    report = copy("audit", "verify", code=76)
    assert "its content is unchanged" in report.out
    assert "not what the log recorded" not in report.out
    assert MEND_MODES in report.err
    subprocess.run(["sh", "-c", MEND_MODES], cwd=tmp_path / "copy", check=True)
    assert copy("audit", "verify", "--json").json["ok"]
    copy("admit", "other.md")
