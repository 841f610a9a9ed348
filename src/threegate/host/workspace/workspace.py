"""The open workspace: one directory with policy, handoff, log and index, of one local user.

A process that keeps a workspace open compares `mark_of` to see that another process changed it,
and calls `followed` to continue under the policy that is in force then.

SECURITY
    Opening refuses a workspace of another user (root is another user too), unless it is on a
    read-only file system, where it can be read and not changed.  It refuses formats newer than
    this program and a policy that is not the signed one.  It refuses network file systems: they
    may reorder writes, ignore `flock` or answer from a stale cache, and then no guarantee of the
    handoff holds.
"""

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from threegate.audit.entry import time_of, unix_of
from threegate.base import canonical
from threegate.base.errors import (
    AuditTampered,
    ClockRefused,
    HandoffTampered,
    StorageFailed,
    VersionUnsupported,
    WorkspaceReadOnly,
    WorkspaceUnusable,
)
from threegate.base.text import visible
from threegate.handoff.disk import read_file
from threegate.handoff.store import AUDIT, Store
from threegate.host.atomic_file import replace_durably
from threegate.host.settings import Settings, unix_now
from threegate.host.workspace import applied
from threegate.host.workspace.log_signatures import check_clock_entry
from threegate.keys.public import PublicKey
from threegate.policy.bundle import Bundle

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
    """Raise `WorkspaceUnusable` if `path` is on a network file system or on an unknown one."""
    try:
        text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as exc:
        raise WorkspaceUnusable("cannot read the list of mounted file systems") from exc
    kind = filesystem_of(path, text)
    if kind is None:
        raise WorkspaceUnusable(f"cannot tell which file system {path} is on")
    if kind in NETWORK_FILESYSTEMS:
        hint = "use a directory on a local disk"
        raise WorkspaceUnusable(f"{path} is on a network file system ({kind})", hint=hint)


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


MARKER: Final = "threegate.json"
FORMAT: Final = "ws"
VERSION: Final = 1
_MAX_MARKER_BYTES: Final = 4096
_FORMAT: Final = re.compile(r"ws/([1-9][0-9]{0,8})")
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Marker:
    """Content of the marker file."""

    id: str
    created: str
    version: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """An open workspace: its files, its applied policy, its clock."""

    root: Path
    marker: Marker
    store: Store
    bundle: Bundle
    clock: Callable[[], int]
    seals: Path | None = (
        None  # directory of the seals of derived files; without it no derived file is stored
    )

    @property
    def read_only(self) -> bool:
        """Tell whether the workspace is on a read-only file system."""
        return self.store.read_only

    def now(self) -> str:
        """Return the time, as artifacts spell it."""
        return time_of(self.clock())

    def refuse_wrong_clock(self) -> None:
        """Raise `ClockRefused` if the clock is behind the log, or far ahead of it.

        Policy says how far behind is tolerated.  Raises `AuditTampered` if the clock of the log
        was set without a valid signature.
        """
        entry = self.store.journal.clock
        if entry is not None:
            check_clock_entry(entry, workspace=self.marker.id, signers=self.bundle.signers)
        self.store.journal.log.refuse_clock_ahead()
        tolerance = self.bundle.integer("handoff", "clock_tolerance_seconds")
        behind = self.store.journal.log.clock_behind()
        if behind > tolerance:
            detail = f"the clock is {behind} seconds behind the last audit entry"
            raise ClockRefused(f"{detail}, {tolerance} are tolerated")

    def is_clock_wrong(self) -> bool:
        """Tell whether clock and log differ by more than is tolerated."""
        try:
            self.refuse_wrong_clock()
        except (ClockRefused, AuditTampered):  # set by a key that was revoked later, for example
            return True
        return False

    def may_sign(self, key: PublicKey) -> bool:
        """Tell whether a key belongs to a signer of this workspace and has not expired."""
        entry = self.bundle.signers.find(key)
        if entry is None or entry.revoked:
            return False
        return entry.valid_before is None or self.clock() <= entry.valid_before

    def close(self) -> None:
        """Close all descriptors."""
        self.store.close()


def find_root(settings: Settings, chosen: Path | None) -> Path:
    """Return the workspace named by `-w`, the environment, or a directory above this one."""
    named = chosen or settings.workspace
    if named is not None:
        root = settings.cwd / named
        if not os.path.exists(root / MARKER):  # Path.exists raises for a name too long
            if os.path.isdir(root) and not os.access(root, os.X_OK):
                refuse_foreign(root)
            hint = "`threegate init DIRECTORY` makes one"
            raise WorkspaceUnusable(f"{root} is not a workspace", hint=hint)
        return root.resolve()
    for directory in (settings.cwd, *settings.cwd.parents):
        if os.path.exists(directory / MARKER):
            return directory.resolve()
    hint = "`threegate init` makes one here; -w or THREEGATE_WORKSPACE names another"
    raise WorkspaceUnusable("no workspace here or above", hint=hint)


def open_workspace(
    root: Path,
    *,
    seals: Path | None = None,
    clock: Callable[[], int] = unix_now,
    reading: bool = False,
) -> Workspace:
    """Open a workspace with the policy that was signed for it.

    Raises `WorkspaceReadOnly` for one on a read-only file system, unless the caller only reads.
    """
    marker = read_marker(root)
    if not reading and _is_read_only(root):
        raise WorkspaceReadOnly(f"{visible(str(root))} is on a read-only file system")
    if marker.version < VERSION:
        hint = "`threegate upgrade` brings it up to date"
        raise VersionUnsupported(f"workspace version {marker.version} is old", hint=hint)
    store = Store.open(root, clock=clock)
    try:
        if store.journal.log.workspace != marker.id:
            raise HandoffTampered(f"{MARKER} and the audit log are of different workspaces")
        with store.locked():
            # Taking the lock has settled what a crash left.
            bundle = applied.read_current(store)
        store.journal.quotas = applied.quotas_of(bundle)
    except BaseException:
        store.close()
        raise
    # On a read-only disk derived files are temporary.
    kept = None if store.read_only else seals
    return Workspace(root, marker, store, bundle, clock, kept)


def unfinished(store: Store) -> list[str]:
    """Return what a crash left that cannot be settled because the workspace is read-only."""
    left = []
    if store.journal.log.is_torn:
        left.append("the log ends in a line that a crash cut off; the line is left unchanged")
    if store.journal.unfinished:
        op = store.journal.unfinished[0].op
        left.append(f"the last change ({op}) was interrupted; its files are left unchanged")
    return left


def refuse_foreign(root: Path) -> None:
    """Raise `WorkspaceUnusable` unless the directory is this user's, on a local disk."""
    try:
        owner = root.stat().st_uid
    except OSError as exc:
        raise WorkspaceUnusable(f"cannot look at {root}") from exc
    if owner != os.geteuid() and not _is_read_only(root):
        hint = "run it as the owner of the workspace; this applies to root too"
        raise WorkspaceUnusable(f"{root} belongs to uid {owner}, not to you", hint=hint)
    refuse_network_filesystem(root)


def _is_read_only(root: Path) -> bool:
    return bool(os.statvfs(root).f_flag & os.ST_RDONLY)


def make_marker(*, created: str) -> Marker:
    """Return a new identity."""
    return Marker(secrets.token_hex(16), created, VERSION)


def emit_marker(marker: Marker) -> bytes:
    """Return the content of the marker file."""
    value = {"created": marker.created, "format": f"{FORMAT}/{marker.version}", "id": marker.id}
    return canonical.encode(value) + b"\n"


def parse_marker(data: bytes, *, newest: int = VERSION) -> Marker:
    """Return the identity in a marker file; raise ValueError, or `VersionUnsupported`."""
    value: Any = canonical.decode(data.removesuffix(b"\n"))
    match = _FORMAT.fullmatch(str(value.get("format"))) if isinstance(value, dict) else None
    if match is None:
        raise ValueError("not a marker")
    if int(match[1]) > newest:
        raise VersionUnsupported(f"workspace format {match[0]} is newer than this program")
    marker = Marker(str(value.get("id")), str(value.get("created")), int(match[1]))
    unix_of(marker.created)
    if not _ID.fullmatch(marker.id) or emit_marker(marker) != data:
        raise ValueError("not a marker")
    return marker


def write_marker(root: Path, marker: Marker) -> None:
    """Write the marker: the last step of `init`, `restore` and an upgrade, atomically."""
    try:
        replace_durably(root / MARKER, emit_marker(marker))
    except OSError as exc:
        raise StorageFailed(f"cannot write {MARKER}: {os.strerror(exc.errno or 0)}") from exc


def read_marker(root: Path, *, newest: int = VERSION) -> Marker:
    """Return the identity of a workspace this program understands."""
    refuse_foreign(root)
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            data = read_file(fd, MARKER, max_bytes=_MAX_MARKER_BYTES, mode=None)
        finally:
            os.close(fd)
    except OSError as exc:
        raise WorkspaceUnusable(f"{visible(str(root))} is not a workspace") from exc
    try:
        return parse_marker(data, newest=newest)
    except ValueError as exc:
        raise WorkspaceUnusable(f"{visible(str(root / MARKER))} is not readable") from exc


Mark = tuple[str, int]


def mark_of(root: Path) -> Mark:
    """Return name and size of the log's last segment: every change makes it grow."""
    found = max((root / AUDIT).glob("segment-*.jsonl"), default=None)
    try:
        return ("", 0) if found is None else (found.name, found.stat().st_size)
    except OSError:  # sealed in between
        return ("", -1)


def followed(ws: Workspace) -> Workspace:
    """Return the workspace with the policy in force, which another process may have changed."""
    with ws.store.locked():
        bundle = applied.read_current(ws.store)
    if bundle.digest == ws.bundle.digest:
        return ws
    ws.store.journal.quotas = applied.quotas_of(bundle)
    return replace(ws, bundle=bundle)
