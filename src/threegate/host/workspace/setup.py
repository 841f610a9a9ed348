"""`threegate init`: a new workspace, with its first policy signed by its first signer.

The directory may hold other files, so a workspace is built in a private directory inside it and
then moved out, entry by entry, the marker last.  A record of what is to be moved is written
first: the next `init` takes back what a killed one moved, and nothing else.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from threegate.audit.entry import time_of
from threegate.base import canonical
from threegate.base.errors import StorageFailed, UsageError, WorkspaceUnusable
from threegate.base.text import visible
from threegate.handoff import states
from threegate.handoff.disk import storage_errors
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.sync import sync_filesystem
from threegate.host.gate_profiles import program_gates
from threegate.host.keys.operator import Operator
from threegate.host.keys.signatures import Signer
from threegate.host.workspace import applied, workspace
from threegate.host.workspace.workspace import Marker
from threegate.keys.signers import AllowedSigner, Signers, emit
from threegate.policy.compiler import compile_policy, default_files
from threegate.policy.sections import SIGNERS_FILE
from threegate.sandbox.runtime import abandoned, private_directory

_BUILDING: Final = ".threegate-init"
_RECORD: Final = "moving.json"
OURS: Final = (workspace.MARKER, workspace.POLICY, states.HANDOFF, states.BUNDLES, AUDIT)


def init_workspace(
    root: Path,
    *,
    operator: Operator,
    principal: str,
    signer: Signer,
    clock: Callable[[], int],
) -> Marker:
    """Make a workspace at `root`; the marker comes last, so a crash leaves none."""
    signers = Signers((AllowedSigner(principal, operator.public),))
    files = {**default_files(), SIGNERS_FILE: emit(signers)}
    bundle = compile_policy(files, gates=program_gates()).bundle()
    now = clock()
    armored = signer.sign(bundle.bundle_bytes(), applied.NAMESPACE)
    marker = workspace.make_marker(created=time_of(now))
    with private_directory(root, _BUILDING) as place:
        Store.create(place.path, workspace=marker.id, clock=clock)
        _write_policy(place.path / workspace.POLICY, files)
        store = Store.open(place.path, clock=clock)
        try:
            with store.locked() as journal:
                first_signer = {"fingerprint": operator.public.fingerprint, "principal": principal}
                journal.run("init", applied.acts_to_apply(bundle, armored, at=now), first_signer)
        finally:
            store.close()
        workspace.write_marker(place.path, marker)
        _move_out(place.path, root)
    return marker


def prepare_root(root: Path) -> None:
    """Make the directory, or refuse one in which something of ours lies already."""
    _settle_unfinished(root)
    if os.path.lexists(root / workspace.MARKER):
        raise UsageError(f"{visible(str(root))} is a workspace already")
    left = [name for name in OURS if os.path.lexists(root / name)]
    if left:
        hint = "init did not make them: move them away, or choose another directory"
        raise UsageError(f"{visible(str(root))} already holds {', '.join(left)}", hint=hint)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(
            f"cannot make {visible(str(root))}: {os.strerror(exc.errno or 0)}"
        ) from exc
    workspace.refuse_foreign(root)
    # They could exchange what is in it, so no later command would open it.
    if root.stat().st_mode & 0o022:
        hint = f"chmod go-w {visible(str(root))}, or name a directory that does not exist"
        raise WorkspaceUnusable(f"other accounts can write to {visible(str(root))}", hint=hint)


def _move_out(place: Path, root: Path) -> None:
    """Move a finished workspace to where it belongs, or nothing of it."""
    names = sorted(os.listdir(place), key=lambda name: name == workspace.MARKER)
    record = {name: _identity(place / name) for name in names}
    with storage_errors("make the workspace"):
        (place / _RECORD).write_bytes(canonical.encode(record))
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_filesystem(fd)
        finally:
            os.close(fd)
        try:
            for name in names:
                if os.path.lexists(root / name):
                    raise FileExistsError(errno.EEXIST, "made by somebody else meanwhile")
                os.rename(place / name, root / name)
        except BaseException:
            _move_back(place, root)
            raise


def _settle_unfinished(root: Path) -> None:
    """Undo what killed runs of `init` left here; what they did not make is not touched."""
    if not os.path.isdir(root):  # Path.is_dir raises for a name too long
        return
    with storage_errors(f"look at {visible(str(root))}"):
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in abandoned(fd, f"{_BUILDING}-"):
                if not os.path.lexists(root / workspace.MARKER):  # else it had come to its end
                    _move_back(root / name, root)
                shutil.rmtree(name, dir_fd=fd)
        finally:
            os.close(fd)


def _move_back(place: Path, root: Path) -> None:
    try:
        record = canonical.decode((place / _RECORD).read_bytes())
        if not isinstance(record, dict):
            return
    except (FileNotFoundError, ValueError):  # killed before anything was moved
        return
    for name, known in record.items():
        # A number of a file can come again; with the time of its last change it does not.
        if name in OURS and os.path.lexists(root / name) and _identity(root / name) == known:
            os.rename(root / name, place / name)


def _identity(path: Path) -> str:
    found = path.lstat()
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}"


def _write_policy(directory: Path, files: dict[str, bytes]) -> None:
    try:
        directory.mkdir(mode=0o700)
        for name, data in files.items():
            (directory / name).write_bytes(data)
    except OSError as exc:
        raise StorageFailed(f"cannot write the policy: {os.strerror(exc.errno or 0)}") from exc
