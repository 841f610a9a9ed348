"""Which file system a path lies on.

A network file system may reorder writes, ignore `flock` or answer from a stale cache:
nothing the handoff promises would hold there, so it is refused.
"""

from pathlib import Path
from typing import Final

from threegate.base.errors import WorkspaceUnusable

NETWORK_FILESYSTEMS: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.gvfsd-fuse",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    }
)
_MOUNTINFO: Final = Path("/proc/self/mountinfo")


def refuse_network_filesystem(path: Path, mountinfo: Path = _MOUNTINFO) -> None:
    """Raise `WorkspaceUnusable` if `path` lies on a network file system, or nobody knows."""
    try:
        text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as exc:
        raise WorkspaceUnusable("cannot read the list of mounted file systems") from exc
    kind = filesystem_of(path, text)
    if kind is None:
        raise WorkspaceUnusable(f"cannot tell which file system {path} lies on")
    if kind in NETWORK_FILESYSTEMS:
        hint = "use a directory on a local disk"
        raise WorkspaceUnusable(f"{path} lies on a network file system ({kind})", hint=hint)


def filesystem_of(path: Path, mountinfo: str) -> str | None:
    """Return the type of the mount that holds `path`, by the text of mountinfo."""
    found: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount_point = Path(_unescape(fields[4]))
        depth = len(mount_point.parts)
        # A later mount on the same point hides the earlier one.
        if (path == mount_point or mount_point in path.parents) and (
            found is None or depth >= found[0]
        ):
            found = (depth, after.split(" ")[0])
    return found[1] if found else None


def _unescape(text: str) -> str:
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, character)
    return text
