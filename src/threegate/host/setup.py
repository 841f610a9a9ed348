"""`threegate init`: a new workspace, with its first policy signed by its first signer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from threegate.audit.entry import time_of
from threegate.errors import StorageFailed, UsageError
from threegate.handoff import states
from threegate.handoff.store import AUDIT, Store
from threegate.host import applied, workspace
from threegate.host.gates import program_gates
from threegate.host.operator import Operator
from threegate.host.signing import Signer
from threegate.host.workspace import Marker
from threegate.keys.signers import AllowedSigner, Signers, emit
from threegate.policy.compiler import compile_policy, default_files
from threegate.policy.sections import SIGNERS_FILE
from threegate.text import visible

_OURS: Final = (workspace.MARKER, workspace.POLICY, states.HANDOFF, states.BUNDLES, AUDIT)


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
    Store.create(root, workspace=marker.id, clock=clock)
    _write_policy(root / workspace.POLICY, files)
    store = Store.open(root, clock=clock)
    try:
        with store.locked() as journal:
            first_signer = {"fingerprint": operator.public.fingerprint, "principal": principal}
            journal.run("init", applied.acts_to_apply(bundle, armored, at=now), first_signer)
    finally:
        store.close()
    workspace.write_marker(root, marker)
    return marker


def prepare_root(root: Path) -> None:
    """Make the directory, or refuse one in which something of ours lies already."""
    if os.path.lexists(root / workspace.MARKER):
        raise UsageError(f"{visible(str(root))} is a workspace already")
    left = [name for name in _OURS if os.path.lexists(root / name)]
    if left:
        hint = "an earlier init may not have finished: remove them, or choose another directory"
        raise UsageError(f"{visible(str(root))} already holds {', '.join(left)}", hint=hint)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(
            f"cannot make {visible(str(root))}: {os.strerror(exc.errno or 0)}"
        ) from exc
    workspace.refuse_foreign(root)


def _write_policy(directory: Path, files: dict[str, bytes]) -> None:
    try:
        directory.mkdir(mode=0o700)
        for name, data in files.items():
            (directory / name).write_bytes(data)
    except OSError as exc:
        raise StorageFailed(f"cannot write the policy: {os.strerror(exc.errno or 0)}") from exc
