"""`audit verify`: every way to change a workspace behind its back is found."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.policies import GATES
from tests.support.samples import fetch_request, packet, tool_request
from tests.support.sshlab import Forge
from tests.support.workspaces import (
    Clock,
    approve,
    keep_blob,
    key_of,
    make_workspace,
    soft_signer,
    take,
    take_in,
)
from threegate.audit.checkpoint import Checkpoint, emit_checkpoint
from threegate.base import canonical
from threegate.handoff.approvals import deny
from threegate.handoff.store import AUDIT
from threegate.host.policy.changes import apply_policy
from threegate.host.workspace.index import Index
from threegate.host.workspace.log_signatures import (
    CHECKPOINT_NAMESPACE,
    KeptCheckpoint,
    make_checkpoint,
    stored_checkpoints,
)
from threegate.host.workspace.removal import forget
from threegate.host.workspace.verification import Verification, verify_workspace
from threegate.host.workspace.workspace import Workspace
from threegate.policy.compiler import load_policy


@contextmanager
def quiet(_: str, __: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda _: None


def verify(root: Path, *given: KeptCheckpoint, clock: Clock | None = None) -> Verification:
    return verify_workspace(root, given=given, clock=clock or Clock(), progress=quiet)


def problems(report: Verification) -> list[str]:
    return [f"{finding.name}: {finding.problem}" for finding in report.findings]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    opened = make_workspace(tmp_path)
    take_in(opened, packet(), fetch_request())
    yield opened
    opened.close()


def edit(root: Path, old: str, new: str) -> None:
    """Edit the default policy of a workspace."""
    path = root / "policy" / "handoff.policy.md"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def apply(ws: Workspace) -> None:
    edit(ws.root, "held_expiry_seconds: 7d", "held_expiry_seconds: 6d")
    apply_policy(ws, load_policy(ws.root / "policy", gates=GATES), soft_signer(), op="policy.apply")


def test_an_untouched_workspace_verifies(ws: Workspace) -> None:
    make_checkpoint(ws, soft_signer())
    apply(ws)
    report = verify(ws.root)
    assert problems(report) == []
    assert (report.files, report.policies, report.checkpoints) == (9, 2, 1)
    assert report.log.events == ws.store.journal.log.size


def test_a_changed_artifact_is_found(ws: Workspace) -> None:
    (path,) = (ws.root / "handoff/packets/accepted").iterdir()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"Ice", b"Ire"))
    path.chmod(0o444)
    assert problems(verify(ws.root)) == [f"{path.name}: its content is not what the log recorded"]


def test_uses_put_back_and_a_reason_edited_are_found(ws: Workspace) -> None:
    keep_blob(ws, b"rows")
    first, second = take_in(ws, tool_request(), tool_request(nonce="f" * 32))
    made = approve(ws.store, first, max_uses=3)
    uses = ws.root / "handoff/approvals/accepted" / f"{made.approval_id}.uses.json"
    before = uses.read_bytes()
    take(ws.store, made)
    deny(ws.store, second, reason="no", now=ws.now())
    why = ws.root / "handoff/requests/denied" / f"{second}.why.json"
    assert problems(verify(ws.root)) == [], "control"
    for path, data in ((uses, before), (why, why.read_bytes().replace(b"no", b"ja"))):
        path.chmod(0o644)
        path.write_bytes(data)
        path.chmod(0o444)
    assert problems(verify(ws.root)) == [
        f"{why.name}: its content is not what the log recorded",
        f"{uses.name}: its content is not what the log recorded",
    ]


def test_a_removed_artifact_is_found(ws: Workspace) -> None:
    (path,) = (ws.root / "handoff/requests/held").iterdir()
    path.unlink()
    assert problems(verify(ws.root)) == [f"{path.name}: is missing"]


# claim TG-C-435
def test_an_edited_artifact_is_reported_as_edited_whatever_its_mode(ws: Workspace) -> None:
    (path,) = (ws.root / "handoff/packets/accepted").iterdir()
    path.chmod(0o644)
    only_mode = "has mode 0644 instead of 0444; its content is unchanged"
    assert problems(verify(ws.root)) == [f"{path.name}: {only_mode}"], "control: not edited"
    path.write_bytes(path.read_bytes() + b"\n")
    edited = "its content is not what the log recorded, and it has mode 0644 instead of 0444"
    assert problems(verify(ws.root)) == [f"{path.name}: {edited}"], "and no word of totals"


def test_a_stray_file_is_reported_and_no_tampering(ws: Workspace) -> None:
    (ws.root / "handoff/packets/accepted/notes.txt").write_text("mine", "utf-8")
    (ws.root / "audit/notes.txt").write_text("mine", "utf-8")
    report = verify(ws.root)
    assert problems(report) == []
    assert sorted(stray.directory for stray in report.strays) == [
        "audit",
        "handoff/packets/accepted",
    ]


def test_an_edited_log_line_is_found_where_it_stands(ws: Workspace) -> None:
    segment = ws.root / AUDIT / "segment-00000000.jsonl"
    lines = segment.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"op":"init"', b'"op":"exit"')
    segment.write_bytes(b"\n".join(lines))
    (found,) = problems(verify(ws.root))
    assert found.startswith("log: entry 3 (segment 0, line 4)")


def test_a_cut_log_is_found_by_a_checkpoint_only(ws: Workspace) -> None:
    kept = make_checkpoint(ws, soft_signer())
    segment = ws.root / AUDIT / "segment-00000000.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    for path in (ws.root / AUDIT / "checkpoints").iterdir():
        path.unlink()
    segment.write_bytes(b"".join(lines[:5]))  # back to just after init
    for directory in ("packets/accepted", "requests/held"):
        for path in (ws.root / "handoff" / directory).iterdir():
            path.unlink()
    assert problems(verify(ws.root)) == [], "control: without a checkpoint nobody can tell"
    (found,) = problems(verify(ws.root, kept))
    assert "shorter than the checkpoint" in found


def test_a_checkpoint_of_another_workspace_is_refused(ws: Workspace, tmp_path: Path) -> None:
    other = make_workspace(tmp_path, name="other")
    kept = make_checkpoint(other, soft_signer())
    other.close()
    (found,) = problems(verify(ws.root, kept))
    assert "belongs to another workspace" in found


def test_a_rewritten_history_is_found_by_a_kept_checkpoint(ws: Workspace) -> None:
    size = ws.store.journal.log.size
    text = emit_checkpoint(Checkpoint(ws.marker.id, size, b"\1" * 32))
    (found,) = problems(verify(ws.root, KeptCheckpoint("mine.txt", text, None)))
    assert "history was rewritten" in found


def test_a_checkpoint_signed_by_a_stranger_is_found(ws: Workspace) -> None:
    true = make_checkpoint(ws, soft_signer())
    forged = Forge(
        key_of("stranger"), message=true.text, namespace=CHECKPOINT_NAMESPACE.encode()
    ).armored()
    assert problems(verify(ws.root, true)) == [], "control"
    (found,) = problems(verify(ws.root, KeptCheckpoint("mine.txt", true.text, forged)))
    assert "is not an allowed signer" in found


def test_a_broken_checkpoint_file_is_found(ws: Workspace) -> None:
    kept = make_checkpoint(ws, soft_signer())
    path = ws.root / AUDIT / "checkpoints" / kept.name
    path.chmod(0o644)
    path.write_bytes(b"threegate/x\n1\n")
    path.chmod(0o444)
    found = problems(verify(ws.root))
    assert f"{kept.name}: checkpoint is not three lines of the known form" in found
    assert f"{kept.name}: its content is not what the log recorded" in found


def test_a_policy_that_nobody_signed_is_found(ws: Workspace) -> None:
    # The attacker puts another bundle in force and even tells the log, signed by a stranger.
    edit(ws.root, "held_expiry_seconds: 7d", "held_expiry_seconds: 6d")
    compiled = load_policy(ws.root / "policy", gates=GATES)
    bundle = compiled.bundle(generation=2, previous=ws.bundle.digest)
    forged = soft_signer("stranger").sign(bundle.bundle_bytes(), "threegate-policy")
    from threegate.host.workspace.applied import acts_to_apply

    with ws.store.locked() as journal:
        journal.run("policy.apply", acts_to_apply(bundle, forged, at=ws.clock()))
    (found,) = problems(verify(ws.root))
    assert "is not an allowed signer" in found


def test_a_policy_put_in_force_behind_the_log_is_found(ws: Workspace) -> None:
    apply(ws)
    current = ws.root / "bundles/current.json"
    pointer = canonical.decode(current.read_bytes())
    pointer["digest"] = ws.bundle.digest  # back to the generation before
    current.unlink()
    current.write_bytes(canonical.encode(pointer))
    current.chmod(0o444)
    assert problems(verify(ws.root)) == ["current.json: its content is not what the log recorded"]


def test_a_missing_policy_is_found(ws: Workspace) -> None:
    (ws.root / "bundles/current.json").unlink()
    found = problems(verify(ws.root))
    assert "current.json: is missing" in found
    assert "current.json: no policy is applied" in found


def test_a_tombstone_without_the_operators_word_is_found(ws: Workspace) -> None:
    (artifact_id,) = take_in(ws, packet("Something personal."))
    index = Index(ws.store, ws.seals)
    forget(ws, index, artifact_id, "personal data", soft_signer())
    index.close()
    assert problems(verify(ws.root)) == [], "control"
    path = ws.root / "handoff/tombstones" / f"{artifact_id}.sig"
    message = (path.with_suffix(".json")).read_bytes()
    path.unlink()
    path.write_bytes(soft_signer("stranger").sign(message, "threegate-tombstone"))
    path.chmod(0o444)
    found = problems(verify(ws.root))
    assert f"{path.name}: its content is not what the log recorded" in found
    assert any("is not an allowed signer" in problem for problem in found)


def test_a_missing_directory_is_a_finding_not_a_crash(ws: Workspace) -> None:
    (ws.root / "handoff/leases").rmdir()
    assert any(
        "directory handoff/leases is missing" in found for found in problems(verify(ws.root))
    )


def test_what_others_write_meanwhile_is_no_finding(ws: Workspace) -> None:
    @contextmanager
    def busy(what: str, _: int | None) -> Iterator[Callable[[int], None]]:
        if what == "verifying files":
            take_in(ws, packet("Admitted while the files are compared."))
        yield lambda _: None

    report = verify_workspace(ws.root, given=(), clock=Clock(), progress=busy)
    assert problems(report) == []
    assert report.files == 6, "control: the new packet was seen"


def test_stored_checkpoints_come_in_order_of_size(ws: Workspace) -> None:
    sizes = []
    for number in range(3):
        take_in(ws, packet(f"Packet {number}."))
        sizes.append(make_checkpoint(ws, soft_signer()).checkpoint.size)
    assert [kept.checkpoint.size for kept in stored_checkpoints(ws.root)] == sizes
    assert os.listdir(ws.root / AUDIT / "torn") == []
