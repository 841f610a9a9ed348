"""Backup and restore: the same workspace again, or nothing at all."""

import dataclasses
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.crash import TURNING, deaths
from tests.support.samples import packet, packet_of_size, tool_request
from tests.support.workspaces import (
    START,
    Clock,
    Family,
    approve,
    claim,
    files_below,
    findings,
    finish,
    keep_blob,
    make_family,
    make_workspace,
    places,
    public_of,
    soft_signer,
    take,
    take_in,
)
from threegate.artifacts.ids import sha256_hex
from threegate.audit.checkpoint import Checkpoint, emit_checkpoint
from threegate.audit.entry import time_of
from threegate.base.errors import (
    ArtifactRejected,
    AuditTampered,
    HandoffTampered,
    PolicyDenied,
    StorageFailed,
    ThreeGateError,
    UsageError,
    VersionUnsupported,
    WorkspaceBusy,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals, states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import deny
from threegate.handoff.claims import current_lease
from threegate.handoff.journal import Put
from threegate.host.policy import keyring
from threegate.host.workspace.archive import ArchiveWriter
from threegate.host.workspace.backup import ExtraFile, backup, emit_manifest, parse_manifest
from threegate.host.workspace.index import Index
from threegate.host.workspace.log_signatures import KeptCheckpoint, make_checkpoint
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.restore import restore
from threegate.host.workspace.workspace import Workspace, open_workspace

REASON = "because"
# What a workspace has of its own; a restored one has one line more in its log, too.
OWN = ("handoff/lock", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm")


def lived_in(ws: Workspace) -> Family:
    """Give a workspace one of everything: all states, quarantine, tombstone, checkpoint, keys."""
    family = make_family(ws)
    index = Index(ws.store, ws.seals)
    make_checkpoint(ws, soft_signer())
    list(admit(ws.store, [Untrusted(b"no artifact")], now=ws.now))
    other, gone = take_in(ws, packet("To be withdrawn."), packet("To be forgotten."))
    withdraw(ws, index, other, REASON)
    forget(ws, index, gone, REASON, soft_signer())
    index.close()
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    keep_blob(ws, b"rows")
    (running,) = take_in(ws, tool_request())
    claim(ws.store, running, max_uses=3)
    (refused,) = take_in(ws, tool_request(nonce="d" * 32))
    approve(ws.store, refused, max_uses=2)
    deny(ws.store, refused, reason="no", now=ws.now())
    return family


def content(root: Path) -> dict[str, bytes]:
    """Return all files but those a workspace has of its own; of the log, what both must have."""
    found = files_below(root).items()
    return {name: data for name, data in found if name not in OWN and "/reserve/" not in name}


def after_restoring(name: str) -> str:
    """Return where a file of the old workspace lies in the new one: no approval counts there."""
    name = name.replace("approvals/accepted/", "approvals/revoked/")
    return name.replace("requests/approved/", "requests/held/")


def assert_same(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    assert set(map(after_restoring, old)) == set(new)
    for name, data in old.items():
        if name.startswith("audit/segment"):
            added = new[name].removeprefix(data)
            first, _, rest = added.partition(b"\n")
            assert added == b"" or b'"kind":"restored"' in first
            assert rest.count(b'"op":"revoke-all"') == max(0, rest.count(b"\n") - 1)
        else:
            assert new[after_restoring(name)] == data, name


def test_restored_workspace_is_the_same(ws: Workspace, tmp_path: Path) -> None:
    lived_in(ws)
    before = content(ws.root)
    made = backup(ws, tmp_path / "x.tar")
    restored = restore(made.path, tmp_path / "again", clock=Clock())
    assert_same(before, content(tmp_path / "again"))
    assert (restored.workspace, restored.files) == (ws.marker.id, made.files)
    assert restored.checkpoint == made.checkpoint
    assert [entry.principal for entry in restored.signers] == ["operator", "ada"]
    assert findings(tmp_path / "again") == []


def test_restored_workspace_works(ws: Workspace, tmp_path: Path) -> None:
    family = lived_in(ws)
    backup(ws, tmp_path / "x.tar")
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    again = open_workspace(tmp_path / "again", clock=Clock())
    was = dict(zip(family.ids(), places(ws, family.ids()), strict=True))
    now = dict(zip(family.ids(), places(again, family.ids()), strict=True))
    assert now == {**was, family.approval: "revoked"}
    index = Index(again.store, again.seals)
    index.catch_up()
    assert index.search("sentence", ("rp",), limit=9, skip=0)
    (new,) = take_in(again, packet("A new sentence."))
    withdraw(again, index, new, REASON)
    index.close()
    again.close()
    assert findings(tmp_path / "again") == []
    backup(open_workspace(tmp_path / "again", clock=Clock()), tmp_path / "y.tar")


def test_modes_are_those_of_a_workspace(ws: Workspace, tmp_path: Path) -> None:
    lived_in(ws)
    backup(ws, tmp_path / "x.tar")
    assert (tmp_path / "x.tar").stat().st_mode & 0o777 == 0o600
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    for old in ws.root.rglob("*"):
        new = tmp_path / "again" / after_restoring(str(old.relative_to(ws.root)))
        if old.name not in OWN and "policy" not in old.parts and "reserve" not in old.parts:
            assert old.stat().st_mode == new.stat().st_mode or old.name == "lock", old


# claim TG-C-29
def test_use_spent_after_the_backup_does_not_come_back(ws: Workspace, tmp_path: Path) -> None:
    keep_blob(ws, b"rows")
    first, second = take_in(ws, tool_request(), tool_request(nonce="e" * 32))
    made = [approve(ws.store, first), approve(ws.store, second, max_uses=2)]
    backup(ws, tmp_path / "x.tar")
    take(ws.store, *made)  # control: where it was approved it can be used
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    again = open_workspace(tmp_path / "again", clock=Clock())
    assert places(again, [first, second]) == ["held", "held"]
    assert places(again, [one.approval_id for one in made]) == ["revoked", "revoked"]
    for one in made:
        with pytest.raises(PolicyDenied) as caught:
            approvals.approve(
                again.store,
                request_id=one.request_id,
                approval=ws.store.read_bytes(one.approval_id),
                signature=b"the same again",
            )
        assert caught.value.code == approvals.USES_SPENT
        take(again.store, approve(again.store, one.request_id, nonce="f" * 32))  # control
    again.close()
    assert findings(tmp_path / "again") == []


@pytest.mark.parametrize("extra", [0, 1, 300])
def test_log_of_several_segments(ws: Workspace, tmp_path: Path, extra: int) -> None:
    """Ends of the log right at, right behind and far behind the end of a segment."""
    size = ws.store.journal.log.size
    while size < 1023:
        count = min(100, 1022 - size)
        take_in(ws, *(packet_of_size(size * 1000 + n, 2000) for n in range(max(1, count))))
        size = ws.store.journal.log.size
    assert size == 1024, "the seal is the last line so far"
    if extra:
        take_in(ws, *(packet_of_size(number, 2000) for number in range(extra)))
    before = content(ws.root)
    made = backup(ws, tmp_path / "x.tar")
    assert made.checkpoint.size == ws.store.journal.log.size
    restore(made.path, tmp_path / "again", clock=Clock())
    after = content(tmp_path / "again")
    assert_same(before, {name: data for name, data in after.items() if name in before})
    assert findings(tmp_path / "again") == []
    open_workspace(tmp_path / "again", clock=Clock()).close()


def during_copying(action: Callable[[], None]) -> Any:
    """Return a progress that does something when the first file is copied."""

    @contextmanager
    def progress(what: str, _: int | None) -> Iterator[Callable[[int], None]]:
        def show(done: int) -> None:
            if what == "copying files" and done == 1:
                action()

        yield show

    return progress


def test_what_moves_during_a_backup_is_restored_where_it_was(ws: Workspace, tmp_path: Path) -> None:
    family = make_family(ws)
    keep_blob(ws, b"rows")
    (request,) = take_in(ws, tool_request())
    made = claim(ws.store, request, max_uses=2)
    before = content(ws.root)
    ids = [*family.ids(), request]
    was = dict(zip(ids, places(ws, ids), strict=True))

    def others_go_on() -> None:
        other = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
        index = Index(other.store, other.seals)
        finish(other.store, request, to="approved")  # its lease goes
        take(other.store, made)  # the last use: another count, in another place
        withdraw(other, index, family.packet, REASON)
        take_in(other, packet("New."))
        keyring.add(other, soft_signer(), principal="ada", key=public_of("ada"))
        index.close()
        other.close()

    backup(ws, tmp_path / "x.tar", progress=during_copying(others_go_on))
    with ws.store.locked():
        pass
    assert places(ws, ids) != list(was.values()), "control: they did"
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    again = open_workspace(tmp_path / "again", clock=Clock())
    assert dict(zip(ids, places(again, ids), strict=True)) == {**was, family.approval: "revoked"}
    again.close()
    after = content(tmp_path / "again")
    before.pop("policy/allowed_signers")
    after.pop("policy/allowed_signers")
    assert_same(before, after)


def test_what_is_forgotten_during_a_backup_stops_it(ws: Workspace, tmp_path: Path) -> None:
    family = make_family(ws, "xylophone")

    def others_forget() -> None:
        other = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
        index = Index(other.store, other.seals)
        forget(other, index, family.packet, REASON, soft_signer(), derived=True)
        index.close()
        other.close()

    with pytest.raises(WorkspaceBusy, match="forgotten or replaced during the backup") as caught:
        backup(ws, tmp_path / "x.tar", progress=during_copying(others_forget))
    assert caught.value.hint == "run it again"
    assert not [name for name in os.listdir(tmp_path) if "x.tar" in name]
    backup(ws, tmp_path / "x.tar")
    assert b"xylophone" not in (tmp_path / "x.tar").read_bytes()
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())


@pytest.mark.parametrize("damage", ["missing", "changed", "log"])
def test_damaged_workspace_is_not_backed_up(ws: Workspace, tmp_path: Path, damage: str) -> None:
    family = make_family(ws)
    path = ws.root / states.directory_of("rp", "accepted") / f"{family.packet}.md"
    if damage == "missing":
        path.unlink()
    elif damage == "changed":
        path.chmod(0o644)
        path.write_bytes(path.read_bytes() + b" ")
        path.chmod(0o444)
    else:
        segment = ws.root / "audit/segment-00000000.jsonl"
        segment.write_bytes(segment.read_bytes().replace(b'"op":"admit"', b'"op":"adopt"', 1))
    with pytest.raises((HandoffTampered, AuditTampered)) as caught:
        backup(ws, tmp_path / "x.tar")
    assert caught.value.exit_code == 76
    assert not [name for name in os.listdir(tmp_path) if "x.tar" in name]


def test_target_must_be_new_and_outside(ws: Workspace, tmp_path: Path) -> None:
    taken = tmp_path / "x.tar"
    taken.write_bytes(b"mine")
    with pytest.raises(UsageError, match="already there"):
        backup(ws, taken)
    assert taken.read_bytes() == b"mine"
    (tmp_path / "link").symlink_to(ws.root / "handoff")
    for inside in (ws.root / "x.tar", ws.root / "handoff/x.tar", tmp_path / "link/x.tar"):
        with pytest.raises(UsageError, match="cannot be stored inside"):
            backup(ws, inside)
    with pytest.raises(StorageFailed):
        backup(ws, tmp_path / "no" / "such" / "x.tar")


def test_root_must_be_new(ws: Workspace, tmp_path: Path) -> None:
    backup(ws, tmp_path / "x.tar")
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("empty", "dangling", "ws", "x.tar"):
        with pytest.raises(UsageError, match="already there"):
            restore(tmp_path / "x.tar", tmp_path / name, clock=Clock())
    assert os.listdir(tmp_path / "empty") == []
    with pytest.raises(StorageFailed):
        restore(tmp_path / "x.tar", tmp_path / "no" / "such", clock=Clock())


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "empty"])
def test_source_must_be_a_file(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "x.tar"
    if kind == "directory":
        source.mkdir()
    elif kind == "fifo":
        os.mkfifo(source)
    elif kind == "empty":
        source.touch()
    with pytest.raises((UsageError, ArtifactRejected)):
        restore(source, tmp_path / "again", clock=Clock())
    assert not (tmp_path / "again").exists()


# -- what came back from outside -----------------------------------------------------------


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return name and content of everything in a good backup, in order."""
    base = tmp_path_factory.mktemp("good")
    ws = make_workspace(base)
    lived_in(ws)
    backup(ws, base / "x.tar")
    ws.close()
    found: dict[str, bytes] = {}
    data = (base / "x.tar").read_bytes()
    while any(data[:512]):
        parts = (data[345:500].rstrip(b"\0"), data[:100].rstrip(b"\0"))
        name, size = b"/".join(filter(None, parts)).decode(), int(data[124:135], 8)
        found[name] = data[512 : 512 + size]
        data = data[512 + size + -size % 512 :]
    assert found.pop("sha256")
    return found


def packed(members: dict[str, bytes]) -> bytes:
    """Return a backup whose checksum is right whatever is in it: made by an enemy."""
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for name, data in members.items():
        writer.add(name, data)
    writer.end()
    return file.getvalue()


def refused(data: bytes, tmp_path: Path, **given: Any) -> ThreeGateError:
    """Return the error with which a backup is refused; nothing must be left of it."""
    source = tmp_path / "evil.tar"
    source.write_bytes(data)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(ThreeGateError) as caught:
        restore(source, tmp_path / "again", clock=Clock(), **given)
    assert sorted(os.listdir(tmp_path)) == before, "something was left behind"
    assert caught.value.exit_code in (65, 76, 78), caught.value
    return caught.value


def accepted(data: bytes, tmp_path: Path) -> None:
    source = tmp_path / "good.tar"
    source.write_bytes(data)
    restore(source, tmp_path / "good", clock=Clock())
    shutil.rmtree(tmp_path / "good")


# claim TG-C-25
def test_every_damage_is_noticed(members: dict[str, bytes], tmp_path: Path) -> None:
    data = packed(members)
    accepted(data, tmp_path)
    random = Random(20261115)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        refused(bytes(damaged), tmp_path)
    for _ in range(20):
        refused(data[: random.randrange(len(data))], tmp_path)


# claim TG-C-25
def test_content_changed_by_an_enemy_is_not_what_the_log_recorded(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    changed = [name for name in members if name.startswith(("handoff/", "bundles/"))]
    assert len(changed) > 15
    for name in changed:
        error = refused(packed({**members, name: members[name][:-1] + b"!"}), tmp_path)
        assert error.exit_code == 76, name
        assert "not what its log recorded" in error.message, name


def test_missing_added_renamed_or_swapped_members_are_refused(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    names = list(members)
    for name in names[:: max(1, len(names) // 8)]:
        without = {other: data for other, data in members.items() if other != name}
        assert refused(packed(without), tmp_path).code == "TG-BAK-001"
    last = names[-1]
    assert refused(packed({**members, "handoff/extra": b""}), tmp_path).code == "TG-BAK-001"
    renamed = {(name if name != last else "evil"): data for name, data in members.items()}
    assert refused(packed(renamed), tmp_path).code == "TG-BAK-001"
    swapped = dict([*list(members.items())[:-2], *reversed(list(members.items())[-2:])])
    assert refused(packed(swapped), tmp_path).code == "TG-BAK-001"


def test_log_changed_by_an_enemy_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    name = "audit/segment-00000000.jsonl"
    edited = members[name].replace(b'"op":"admit"', b'"op":"adopt"', 1)
    assert edited != members[name]
    assert isinstance(refused(packed({**members, name: edited}), tmp_path), AuditTampered)
    cut = members[name][: members[name].rstrip(b"\n").rindex(b"\n") + 1]
    assert isinstance(refused(packed({**members, name: cut}), tmp_path), AuditTampered)


def with_manifest(members: dict[str, bytes], **changes: Any) -> bytes:
    manifest = dataclasses.replace(parse_manifest(members["manifest.json"]), **changes)
    return packed({**members, "manifest.json": emit_manifest(manifest)})


def test_manifest_that_lies_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    manifest = parse_manifest(members["manifest.json"])
    accepted(with_manifest(members), tmp_path)
    other = dataclasses.replace(manifest.marker, id="0" * 32)
    changes: tuple[dict[str, Any], ...] = (
        {"events": manifest.events - 1},
        {"events": manifest.events + 1},
        {"events": manifest.events + 1024},
        {"root": bytes(32)},
        {"log_bytes": manifest.log_bytes - 1},
        {"log_bytes": manifest.log_bytes + 1},
        {"files": manifest.files + 1},
        {"file_bytes": manifest.file_bytes - 1},
        {"file_bytes": manifest.file_bytes + 1},
        {"marker": other},
        {"extras": {}},
    )
    for change in changes:
        refused(with_manifest(members, **change), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "policy/../../evil",
        "policy/evil.policy.md",
        "policy/.allowed_signers.new",
        "threegate.json",
        "handoff/lock",
        "audit/segment-00000001.jsonl",
        "audit/torn/000000000001-" + "0" * 64,
        "/etc/passwd",
    ],
)
def test_extra_file_of_another_name_is_refused(
    members: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    manifest = parse_manifest(members["manifest.json"])
    extras = {**manifest.extras, name: ExtraFile(4, sha256_hex(b"evil"))}
    text = emit_manifest(dataclasses.replace(manifest, extras=extras))
    assert refused(packed({**members, "manifest.json": text}), tmp_path).code == "TG-BAK-001"


def test_newer_backup_or_workspace_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    for old, new in ((b'"backup/1"', b'"backup/2"'), (b"ws/1", b"ws/2")):
        assert old in members["manifest.json"]
        text = members["manifest.json"].replace(old, new)
        error = refused(packed({**members, "manifest.json": text}), tmp_path)
        assert isinstance(error, VersionUnsupported)


def test_log_that_records_what_is_no_artifact_is_refused(ws: Workspace, tmp_path: Path) -> None:
    """An enemy's own workspace, consistent in itself, with a packet no parser ever saw."""
    evil = b'---\nformat: "rp/1"\n---\n<script>'
    with ws.store.locked() as journal:
        place = states.directory_of("rp", "accepted")
        journal.run("admit", [Put(place, f"rp-{sha256_hex(evil)}.md", evil)])
    backup(ws, tmp_path / "x.tar")
    error = refused((tmp_path / "x.tar").read_bytes(), tmp_path)
    assert isinstance(error, ArtifactRejected)
    assert error.code.startswith("TG-ART-")


# claim TG-C-25
def test_policy_nobody_signed_is_refused(ws: Workspace, tmp_path: Path) -> None:
    digest = ws.bundle.digest
    forged = soft_signer("stranger").sign(ws.bundle.bundle_bytes(), "threegate-policy")
    with ws.store.locked() as journal:
        journal.run("apply", [Put(states.BUNDLES, f"{digest}.sig", forged)])
    backup(ws, tmp_path / "x.tar")
    error = refused((tmp_path / "x.tar").read_bytes(), tmp_path)
    assert isinstance(error, HandoffTampered)
    assert "not an allowed signer" in error.message


def kept(checkpoint: Checkpoint) -> KeptCheckpoint:
    return KeptCheckpoint("mine.txt", emit_checkpoint(checkpoint), None)


def test_checkpoint_kept_elsewhere_tells_my_history_from_another(
    ws: Workspace, tmp_path: Path
) -> None:
    make_family(ws)
    mine = make_checkpoint(ws, soft_signer())
    take_in(ws, packet("Later."))
    backup(ws, tmp_path / "x.tar")
    take_in(ws, packet("Later still."))
    later = make_checkpoint(ws, soft_signer())
    data = (tmp_path / "x.tar").read_bytes()
    restored = restore(tmp_path / "x.tar", tmp_path / "good", checkpoints=[mine], clock=Clock())
    assert restored.checkpoint.size > mine.checkpoint.size
    wrong = mine.checkpoint
    for bad, why in (
        (kept(dataclasses.replace(wrong, root=bytes(32))), "history was rewritten"),
        (kept(dataclasses.replace(wrong, origin="0" * 32)), "another workspace"),
        (later, "shorter than the checkpoint"),
    ):
        error = refused(data, tmp_path, checkpoints=[bad])
        assert isinstance(error, AuditTampered)
        assert why in error.message


def test_full_disk_leaves_nothing(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in(ws)
    backup(ws, tmp_path / "x.tar")
    real, left = os.write, {"calls": 10}

    def full(fd: int, data: bytes) -> int:
        left["calls"] -= 1
        if left["calls"] < 0:
            raise OSError(errno.ENOSPC, "no room")
        return real(fd, data)

    with monkeypatch.context() as patch, pytest.raises(StorageFailed, match="ENOSPC"):
        patch.setattr(os, "write", full)
        restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    assert not (tmp_path / "again").exists()
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())  # control


def test_kill_during_a_backup_leaves_no_half_file(ws: Workspace, tmp_path: Path) -> None:
    make_family(ws)
    target, seen = tmp_path / "x.tar", set()

    def prepare() -> None:
        target.unlink(missing_ok=True)

    def action() -> None:
        backup(open_workspace(ws.root, clock=Clock(), seals=ws.seals), target)

    for death in deaths(action, prepare, TURNING):
        seen.add(target.exists())
        if target.exists():
            restore(target, tmp_path / "again", clock=Clock())
            shutil.rmtree(tmp_path / "again")
        else:
            backup(
                open_workspace(ws.root, clock=Clock(), seals=ws.seals), target
            )  # what it left does not hurt
            assert not (tmp_path / ".x.tar.new").exists(), death
    assert False in seen


# claim TG-C-416
def test_kill_during_a_restore_leaves_no_half_workspace(ws: Workspace, tmp_path: Path) -> None:
    make_family(ws)
    before = content(ws.root)
    backup(ws, tmp_path / "x.tar")
    root, seen = tmp_path / "again", set()

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)

    def action() -> None:
        restore(tmp_path / "x.tar", root, clock=Clock())

    there = sorted(path.name for path in tmp_path.iterdir())
    for death in deaths(action, prepare, TURNING):
        whole = root.exists()
        seen.add(whole)
        if not whole:
            action()  # what a killed one left is in nobody's way
        open_workspace(root, clock=Clock()).close()
        assert_same(before, content(root))
        assert findings(root) == [], death
        if not whole:
            assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*there, "again"]), (
                death
            )
    assert seen == {True, False}, "killed on both sides of the rename"


# claim TG-C-416
def test_a_restore_removes_only_what_a_dead_restore_of_ours_left(
    ws: Workspace, tmp_path: Path
) -> None:
    backup(ws, tmp_path / "x.tar")
    mine, tail = current_lease(), "0" * 16
    names = {
        "dead": f".threegate-restore-{mine.pid}-{mine.started + 1}-{mine.boot}-{tail}",
        "alive": f".threegate-restore-{mine.pid}-{mine.started}-{mine.boot}-{tail}",
        "init": f".threegate-init-{mine.pid}-{mine.started + 1}-{mine.boot}-{tail}",
        "named alike": ".threegate-restore-of-mine",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").write_bytes(b"kept")
    (tmp_path / "again").mkdir()
    with pytest.raises(UsageError, match="is already there"):
        restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    (tmp_path / "again").rmdir()
    restore(tmp_path / "x.tar", tmp_path / "again", clock=Clock())
    assert not (tmp_path / names.pop("dead")).exists(), "control: this one was ours, and is dead"
    assert all((tmp_path / name / "kept").exists() for name in names.values())


def test_the_moment_is_told(ws: Workspace, tmp_path: Path) -> None:
    shown: list[tuple[str, int | None, int]] = []

    @contextmanager
    def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        yield lambda done: shown.append((what, total, done))

    make_family(ws)
    made = backup(ws, tmp_path / "x.tar", progress=progress)
    assert ("copying files", made.files, made.files) in shown
    restored = restore(made.path, tmp_path / "again", clock=Clock(), progress=progress)
    assert ("restoring files", made.files, made.files) in shown
    assert restored.made == time_of(START)
