"""Which policy is in force is what the log says, not what lies in `bundles/`.

The attacker can write the workspace and may hold a key that was revoked, but can neither
sign with one that counts nor rewrite the log: against that there are checkpoints.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.samples import packet
from tests.support.workspaces import (
    Clock,
    make_workspace,
    public_of,
    soft_signer,
    take_in,
)
from threegate.base import canonical
from threegate.base.errors import HandoffTampered
from threegate.host.policy import keyring
from threegate.host.policy.changes import apply_policy, edited
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys.signers import AllowedSigner, Signers, emit
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.compiler import compile_policy, default_files
from threegate.policy.nodes import plain
from threegate.policy.sections import GATES, SIGNERS_FILE

DAY = 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Iterator[Workspace]:
    """Return a workspace whose first key was followed by another and then revoked."""
    workspace = make_workspace(tmp_path, clock=clock)
    clock.now += DAY
    keyring.add(workspace, soft_signer(), principal="second", key=public_of("second"))
    workspace = reopened(workspace)
    clock.now += DAY
    first = public_of().fingerprint
    keyring.revoke(workspace, soft_signer("second"), fingerprint=first, since=clock.now)
    clock.now += DAY
    workspace = reopened(workspace)
    yield workspace
    workspace.close()


def reopened(ws: Workspace) -> Workspace:
    ws.close()
    return open_workspace(ws.root, clock=ws.clock)


def plant(ws: Workspace, name: str, data: bytes) -> None:
    """Put a file into `bundles/` exactly as the host would have left it."""
    path = ws.root / "bundles" / name
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)


def point_to(ws: Workspace, digest: str, at: int) -> None:
    pointer = {"applied": at, "digest": digest, "format": "current/1"}
    plant(ws, "current.json", canonical.encode(pointer))


def plant_bundle(ws: Workspace, bundle: Bundle, key: str, at: int) -> None:
    armored = soft_signer(key).sign(bundle.bundle_bytes(), applied.NAMESPACE)
    plant(ws, f"{bundle.digest}.json", bundle.bundle_bytes())
    plant(ws, f"{bundle.digest}.sig", armored)
    point_to(ws, bundle.digest, at)


def with_signer(ws: Workspace, name: str) -> Compiled:
    """Return the policy in force with nobody but the attacker as its signer."""
    signers = Signers((AllowedSigner("operator", public_of(name)),))
    gates = plain(ws.bundle.sections[GATES])
    return compile_policy({**default_files(), SIGNERS_FILE: emit(signers)}, gates=gates)


def refused(ws: Workspace) -> None:
    with pytest.raises(HandoffTampered) as caught:
        reopened(ws)
    assert caught.value.code == "TG-HND-009"


def test_control_the_policy_in_force_is_found_again(ws: Workspace) -> None:
    ws = reopened(ws)
    assert ws.bundle.generation == 3
    apply_policy(ws, edited(ws), soft_signer("second"), op="policy-apply")
    ws = reopened(ws)
    assert ws.bundle.generation == 4


def test_control_the_policy_is_found_behind_more_entries_than_a_segment(ws: Workspace) -> None:
    for number in range(3):
        take_in(ws, *(packet(f"text {number} {n}") for n in range(128)))
    for _ in range(1100):
        with ws.store.locked() as journal:
            journal.log.append([("note", {})], durable=False)
    ws = reopened(ws)
    assert ws.bundle.generation == 3


# claim TG-C-32
def test_pointer_to_an_older_generation_is_refused(ws: Workspace, clock: Clock) -> None:
    assert ws.bundle.previous is not None
    point_to(ws, ws.bundle.previous, clock.now - 2 * DAY)
    refused(ws)


def test_old_pointer_file_put_back_is_refused(tmp_path: Path, clock: Clock) -> None:
    ws = make_workspace(tmp_path, clock=clock)
    old = (ws.root / "bundles/current.json").read_bytes()
    keyring.add(ws, soft_signer(), principal="second", key=public_of("second"))
    plant(ws, "current.json", old)
    refused(ws)


def test_pointer_to_an_older_generation_is_refused_after_a_whole_segment(
    ws: Workspace, clock: Clock
) -> None:
    for _ in range(1100):
        with ws.store.locked() as journal:
            journal.log.append([("note", {})], durable=False)
    assert ws.bundle.previous is not None
    point_to(ws, ws.bundle.previous, clock.now - 2 * DAY)
    refused(ws)


# claim TG-C-32
def test_bundle_signed_by_a_revoked_key_and_dated_back_is_refused(
    ws: Workspace, clock: Clock
) -> None:
    forged = with_signer(ws, "attacker").bundle(generation=4, previous=ws.bundle.digest)
    plant_bundle(ws, forged, "operator", clock.now - 2 * DAY)
    refused(ws)


# claim TG-C-32
def test_fork_from_an_earlier_generation_is_refused(ws: Workspace, clock: Clock) -> None:
    assert ws.bundle.previous is not None
    forged = with_signer(ws, "attacker").bundle(generation=3, previous=ws.bundle.previous)
    plant_bundle(ws, forged, "operator", clock.now - 2 * DAY)
    refused(ws)


# claim TG-C-32
def test_new_first_bundle_signed_by_itself_is_refused(ws: Workspace, clock: Clock) -> None:
    plant_bundle(ws, with_signer(ws, "attacker").bundle(), "attacker", clock.now)
    refused(ws)


def test_another_date_for_the_policy_in_force_is_refused(ws: Workspace, clock: Clock) -> None:
    point_to(ws, ws.bundle.digest, clock.now - 2 * DAY)
    refused(ws)


def test_pointer_swapped_while_the_workspace_is_open_is_refused(
    ws: Workspace, clock: Clock
) -> None:
    forged = with_signer(ws, "attacker").bundle(generation=4, previous=ws.bundle.digest)
    plant_bundle(ws, forged, "operator", clock.now - 2 * DAY)
    with pytest.raises(HandoffTampered) as caught:
        applied.read_current(ws.store)
    assert caught.value.code == "TG-HND-009"
    assert os.listdir(ws.root / "handoff/incoming") == []
