"""Network file systems are refused; the mount that holds a path is found by mountinfo alone."""

from pathlib import Path

import pytest

from threegate.base.errors import WorkspaceUnusable
from threegate.host.workspace.workspace import (
    NETWORK_FILESYSTEMS,
    filesystem_of,
    refuse_network_filesystem,
)

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /data rw,relatime shared:2 master:1 - nfs4 server:/data rw,vers=4.2
31 30 8:2 / /data/ada/local rw - xfs /dev/sdb1 rw
32 22 0:30 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:31 / /over rw - ext4 /dev/sdc1 rw
34 33 0:32 / /over rw - fuse.sshfs host:/ rw
35 22 0:33 / /database rw - btrfs /dev/sdd1 rw
malformed line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/ws", "ext4"),
        ("/", "ext4"),
        ("/data/ada/ws", "nfs4"),
        ("/data", "nfs4"),
        ("/database/ws", "btrfs"),  # not below /data, though the name begins alike
        ("/data/ada/local/ws", "xfs"),  # the deeper mount counts
        ("/mnt/with space/ws", "cifs"),
        ("/over/ws", "fuse.sshfs"),  # the later mount hides the earlier
    ],
)
def test_the_mount_that_holds_a_path(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", sorted(NETWORK_FILESYSTEMS))
def test_network_file_systems_are_refused(kind: str, tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")
    refuse_network_filesystem(Path("/srv/ws"), mountinfo)  # control: a local disk
    mountinfo.write_text(f"22 1 0:9 / / rw - {kind} server:/x rw\n", encoding="utf-8")
    with pytest.raises(WorkspaceUnusable, match="network file system") as refused:
        refuse_network_filesystem(Path("/srv/ws"), mountinfo)
    assert refused.value.exit_code == 69


def test_without_a_list_of_mounts_nothing_is_assumed(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceUnusable, match="cannot read"):
        refuse_network_filesystem(Path("/srv/ws"), tmp_path / "absent")
    empty = tmp_path / "empty"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(WorkspaceUnusable, match="cannot tell"):
        refuse_network_filesystem(Path("/srv/ws"), empty)
