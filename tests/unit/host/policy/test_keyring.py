"""Keys: added, rotated and revoked by somebody who may, and never the last one."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.crash import TURNING, deaths
from tests.support.workspaces import (
    START,
    Clock,
    findings,
    key_file,
    key_of,
    make_workspace,
    public_of,
    settings_for,
    soft_signer,
    ssh_signer,
)
from threegate.base.errors import (
    PolicyDenied,
    SignatureRefused,
    StorageFailed,
    ThreeGateError,
    UsageError,
    WorkspaceBusy,
)
from threegate.base.untrusted import Untrusted
from threegate.host.keys.operator import Operator
from threegate.host.policy import keyring
from threegate.host.policy.changes import apply_policy, change_signers, edited
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys import sshsig
from threegate.keys.signers import emit
from threegate.policy.bundle import Bundle, diff
from threegate.policy.nodes import Change

DAY = 86_400


def pending_changes(ws: Workspace) -> list[Change]:
    return diff(ws.bundle, edited(ws))


def reopened(ws: Workspace) -> Workspace:
    ws.close()
    return open_workspace(ws.root, clock=ws.clock, seals=ws.seals)


def states(ws: Workspace) -> dict[str, str]:
    return {line.fingerprint: line.state for line in keyring.list_keys(ws)}


def fingerprint(name: str = "operator") -> str:
    return public_of(name).fingerprint


def accepts(bundle: Bundle, name: str, at: int) -> str:
    """Return "yes" or the code with which an approval of that key at that time is refused."""
    armored = soft_signer(name).sign(b"approve", "threegate-approval")
    try:
        sshsig.verify(
            b"approve",
            Untrusted(armored),
            namespace="threegate-approval",
            signers=bundle.signers,
            at=at,
            past=True,
        )
    except SignatureRefused as exc:
        return exc.code
    return "yes"


def test_first_signer_is_the_operator(ws: Workspace) -> None:
    (line,) = keyring.list_keys(ws)
    assert (line.principal, line.fingerprint, line.state) == ("operator", fingerprint(), "current")
    assert (line.key_type, line.namespaces) == ("ssh-ed25519", ("threegate-*",))


def test_added_key_signs_from_then_on(ws: Workspace) -> None:
    assert accepts(ws.bundle, "ada", START) == "TG-KEY-003", "control: a stranger before"
    bundle = keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    assert accepts(bundle, "ada", START) == "yes"
    ws = reopened(ws)
    assert states(ws) == {fingerprint(): "current", fingerprint("ada"): "current"}
    assert (ws.root / "policy/allowed_signers").read_bytes() == emit(ws.bundle.signers)
    assert pending_changes(ws) == []
    keyring.add(ws, soft_signer("ada"), principal="bob", key=public_of("bob"))
    assert findings(ws.root) == []


def test_window_and_namespaces_of_an_added_key(ws: Workspace) -> None:
    bundle = keyring.add(
        ws,
        soft_signer(),
        principal="ada",
        key=public_of("ada"),
        valid_after=START + DAY,
        valid_before=START + 2 * DAY,
        namespaces=("threegate-approval",),
    )
    found = [accepts(bundle, "ada", START + days * DAY) for days in range(4)]
    assert found == ["TG-KEY-005", "yes", "yes", "TG-KEY-005"]
    ws = reopened(ws)
    assert states(ws)[fingerprint("ada")] == "not yet"
    with pytest.raises(SignatureRefused) as caught:  # may approve, not change who may
        keyring.add(ws, soft_signer("ada"), principal="eve", key=public_of("eve"))
    assert caught.value.code == "TG-KEY-004"


@pytest.mark.parametrize(("signer", "code"), [("eve", "TG-KEY-003"), ("revoked", "TG-KEY-006")])
def test_change_by_somebody_who_may_not_is_refused(
    ws: Workspace, clock: Clock, signer: str, code: str
) -> None:
    keyring.add(ws, soft_signer(), principal="revoked", key=public_of("revoked"))
    ws = reopened(ws)
    clock.now += 10
    keyring.revoke(ws, soft_signer(), fingerprint=fingerprint("revoked"), since=clock.now)
    ws = reopened(ws)
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    ws = reopened(ws)
    before = emit(ws.bundle.signers)
    with pytest.raises(SignatureRefused) as caught:
        keyring.add(ws, soft_signer(signer), principal="eve", key=public_of("eve"))
    assert caught.value.code == code
    with pytest.raises(SignatureRefused) as caught:
        keyring.revoke(ws, soft_signer(signer), fingerprint=fingerprint(), since=clock.now)
    assert caught.value.code == code
    assert emit(applied.read_current(ws.store).signers) == before
    assert not (ws.root / "policy/.allowed_signers.new").exists()
    keyring.add(ws, soft_signer(), principal="eve", key=public_of("eve"))  # control


def test_known_key_is_not_added_again(ws: Workspace, clock: Clock) -> None:
    with pytest.raises(UsageError, match=r"listed already \(current"):
        keyring.add(ws, soft_signer(), principal="again", key=public_of())
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    ws = reopened(ws)
    keyring.revoke(ws, soft_signer(), fingerprint=fingerprint("ada"), since=clock.now)
    ws = reopened(ws)
    with pytest.raises(UsageError, match=r"listed already \(revoked"):
        keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))


def test_revoked_since_judges_signatures_at_their_time(ws: Workspace, clock: Clock) -> None:
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    ws = reopened(ws)
    clock.now += 10 * DAY
    leaked = START + 5 * DAY
    bundle = keyring.revoke(ws, soft_signer(), fingerprint=fingerprint("ada"), since=leaked)
    assert accepts(bundle, "ada", leaked - 1) == "yes", "what it signed before it leaked counts"
    assert accepts(bundle, "ada", leaked) == "TG-KEY-006"
    assert accepts(bundle, "ada", clock.now) == "TG-KEY-006"
    ws = reopened(ws)
    assert states(ws)[fingerprint("ada")] == "revoked"
    with pytest.raises(UsageError, match="already"):
        keyring.revoke(ws, soft_signer(), fingerprint=fingerprint("ada"), since=leaked + DAY)
    keyring.revoke(ws, soft_signer(), fingerprint=fingerprint("ada"), since=leaked - DAY)
    assert findings(ws.root) == []


@pytest.mark.parametrize("later", [0, DAY])
def test_last_signer_cannot_be_revoked(ws: Workspace, clock: Clock, later: int) -> None:
    since = clock.now + later
    with pytest.raises(SignatureRefused, match="nobody could sign the next change") as caught:
        keyring.revoke(ws, soft_signer(), fingerprint=fingerprint(), since=since)
    assert caught.value.hint
    assert applied.read_current(ws.store) == ws.bundle
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    ws = reopened(ws)
    keyring.revoke(ws, soft_signer(), fingerprint=fingerprint(), since=since)  # control


def test_key_that_may_only_approve_does_not_count_as_the_next(ws: Workspace) -> None:
    keyring.add(
        ws,
        soft_signer(),
        principal="ada",
        key=public_of("ada"),
        namespaces=("threegate-approval",),
    )
    ws = reopened(ws)
    with pytest.raises(SignatureRefused, match="nobody could sign"):
        keyring.revoke(ws, soft_signer(), fingerprint=fingerprint(), since=START)


def rotated(ws: Workspace, base: Path, name: str = "new") -> Bundle:
    operator = Operator(key_file(base, name), public_of(name))
    return keyring.rotate(
        ws,
        settings_for(base),
        soft_signer(),
        old=fingerprint(),
        new=operator,
        new_signer=soft_signer(name),
    )


def test_rotation_closes_the_old_window_and_opens_the_new(
    ws: Workspace, clock: Clock, tmp_path: Path
) -> None:
    clock.now += DAY
    bundle = rotated(ws, tmp_path)
    assert accepts(bundle, "operator", START) == "yes", "old approvals are judged at their time"
    assert accepts(bundle, "operator", clock.now + 1) == "TG-KEY-005"
    assert accepts(bundle, "new", START) == "TG-KEY-005", "no new key dates itself back"
    assert accepts(bundle, "new", clock.now) == "yes"
    assert [entry.principal for entry in bundle.signers.entries] == ["operator", "operator"]
    ws = reopened(ws)
    clock.now += 1
    assert states(ws) == {fingerprint(): "expired", fingerprint("new"): "current"}
    with pytest.raises(SignatureRefused) as caught:
        keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    assert caught.value.code == "TG-KEY-005"
    keyring.add(ws, soft_signer("new"), principal="ada", key=public_of("ada"))
    assert findings(ws.root) == []


def test_rotation_is_one_change_and_is_remembered(ws: Workspace, tmp_path: Path) -> None:
    bundle = rotated(ws, tmp_path)
    assert (bundle.generation, bundle.previous) == (2, ws.bundle.digest)
    remembered = json.loads((settings_for(tmp_path).config_home / "operator.json").read_bytes())
    assert remembered["key"] == str(key_file(tmp_path, "new"))
    ops = [entry.data["op"] for entry in ws.store.journal.log.entries() if entry.kind == "intent"]
    assert ops == ["init"] * 3 + ["key-rotate"] * 3


def test_rotation_with_ssh_keygen(ws: Workspace, clock: Clock, tmp_path: Path) -> None:
    clock.now += 1
    operator = Operator(key_file(tmp_path, "new"), public_of("new"))
    keyring.rotate(
        ws,
        settings_for(tmp_path),
        ssh_signer(tmp_path, ws.root),
        old=fingerprint(),
        new=operator,
        new_signer=ssh_signer(tmp_path, ws.root, "new"),
    )
    clock.now += 1
    ws = reopened(ws)
    keyring.add(ws, ssh_signer(tmp_path, ws.root, "new"), principal="ada", key=public_of("ada"))


def test_key_nobody_holds_does_not_take_over(ws: Workspace, tmp_path: Path) -> None:
    operator = Operator(key_file(tmp_path, "new"), public_of("new"))
    with pytest.raises(SignatureRefused, match="new key cannot sign") as caught:
        keyring.rotate(
            ws,
            settings_for(tmp_path),
            soft_signer(),
            old=fingerprint(),
            new=operator,
            new_signer=soft_signer("somebody else"),
        )
    assert caught.value.code == "TG-KEY-003"
    assert applied.read_current(ws.store) == ws.bundle


def test_rotation_needs_a_current_old_key_and_an_unknown_new_one(
    ws: Workspace, tmp_path: Path, clock: Clock
) -> None:
    with pytest.raises(UsageError, match="listed already"):
        rotated(ws, tmp_path, "operator")
    clock.now += 1
    rotated(ws, tmp_path)
    ws = reopened(ws)
    clock.now += 1
    with pytest.raises(SignatureRefused) as caught:
        rotated(ws, tmp_path, "newer")
    assert caught.value.code == "TG-KEY-005"


def test_edited_files_stop_a_change_of_keys(ws: Workspace) -> None:
    path = ws.root / "policy/handoff.policy.md"
    text = path.read_text()
    path.write_text(text + "\nMore prose.\n")
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))  # control: prose is free
    ws = reopened(ws)
    assert "max_uses: 100" in text
    path.write_text(text.replace("max_uses: 100", "max_uses: 101"))
    with pytest.raises(UsageError, match="policy was edited"):
        keyring.add(ws, soft_signer(), principal="bob", key=public_of("bob"))
    path.write_text(text)
    signers = ws.root / "policy/allowed_signers"
    signers.write_bytes(emit(ws.bundle.signers) + key_of("eve").signer_line("eve"))
    with pytest.raises(UsageError, match="allowed_signers was edited"):
        keyring.add(ws, soft_signer(), principal="bob", key=public_of("bob"))
    apply_policy(ws, edited(ws), soft_signer(), op="apply")
    ws = reopened(ws)
    assert fingerprint("eve") in states(ws)


def test_notes_beside_the_policy_do_not_stop_it(ws: Workspace) -> None:
    (ws.root / "policy/README.md").write_text("notes of the operator's")
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))


def test_another_command_changed_the_policy_meanwhile(ws: Workspace, clock: Clock) -> None:
    class Slow:
        def sign(self, message: bytes, namespace: str) -> bytes:
            other = open_workspace(ws.root, clock=clock, seals=ws.seals)
            apply_policy(other, edited(other), soft_signer(), op="apply")
            other.close()
            return soft_signer().sign(message, namespace)

    with pytest.raises(UsageError, match="meanwhile"):
        keyring.add(ws, Slow(), principal="ada", key=public_of("ada"))
    ws = reopened(ws)
    assert fingerprint("ada") not in states(ws)
    assert pending_changes(ws) == []


def test_two_changes_at_once_wait_for_each_other(
    ws: Workspace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = "threegate.host.workspace.applied.only_one.__wrapped__.__defaults__"
    monkeypatch.setattr(wait, (0.05,))
    refused: list[ThreeGateError] = []

    class Slow:
        def sign(self, message: bytes, namespace: str) -> bytes:
            other = open_workspace(ws.root, clock=clock, seals=ws.seals)
            try:
                keyring.add(other, soft_signer(), principal="bob", key=public_of("bob"))
            except WorkspaceBusy as exc:
                refused.append(exc)
            assert pending_changes(other) == [], "reading does not disturb it either"
            other.close()
            return soft_signer().sign(message, namespace)

    keyring.add(ws, Slow(), principal="ada", key=public_of("ada"))
    assert len(refused) == 1
    ws = reopened(ws)
    assert set(states(ws)) == {fingerprint(), fingerprint("ada")}


def test_kill_at_any_turn_leaves_file_and_policy_agreeing(tmp_path: Path) -> None:
    clock = Clock()
    ws = make_workspace(tmp_path, clock=clock)
    keyring.add(ws, soft_signer(), principal="ada", key=public_of("ada"))
    ws.close()
    kept = tmp_path / "kept"
    shutil.copytree(ws.root, kept)
    seen = set()

    def prepare() -> None:
        shutil.rmtree(ws.root)
        shutil.copytree(kept, ws.root)

    def action() -> None:
        opened = open_workspace(ws.root, clock=clock, seals=ws.seals)
        keyring.revoke(opened, soft_signer(), fingerprint=fingerprint("ada"), since=START)

    for death in deaths(action, prepare, TURNING):
        opened = open_workspace(ws.root, clock=clock, seals=ws.seals)
        # An edit nobody made, shown as one to apply, would undo the revocation.
        assert pending_changes(opened) == [], death
        assert not (ws.root / "policy/.allowed_signers.new").exists(), death
        revoked = [entry.revoked for entry in opened.bundle.signers.entries]
        assert revoked in ([False, False], [False, True]), death
        seen.add(revoked[1])
        opened.close()
        assert findings(ws.root) == [], death
    assert seen == {True, False}, "killed on both sides of the point of no return"


@pytest.mark.parametrize("spelled", ["line", "file", "relative"])
def test_public_key_is_a_line_or_a_file(tmp_path: Path, spelled: str) -> None:
    path = key_file(tmp_path, "ada").with_suffix(".pub")
    text = {"line": key_of("ada").public_line + " ada@host", "file": str(path)}.get(
        spelled, "keys/ada.pub"
    )
    assert keyring.read_public(text, cwd=tmp_path) == public_of("ada")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no/such/file",
        "keys/ada",  # the private half
        "ssh-ed25519 AAAA",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQC7",
        "bad\0name",
        "ssh-ed25519 \udcff",
    ],
)
def test_what_is_no_public_key_is_refused(tmp_path: Path, text: str) -> None:
    key_file(tmp_path, "ada")
    with pytest.raises((UsageError, PolicyDenied)):
        keyring.read_public(text, cwd=tmp_path)


def test_key_is_found_by_the_start_of_its_fingerprint(ws: Workspace) -> None:
    short = fingerprint()[: len("SHA256:") + 12]
    assert keyring.find_key(ws.bundle.signers, short).principal == "operator"
    assert keyring.find_key(ws.bundle.signers, short.removeprefix("SHA256:")).key == public_of()
    for text in ("", "SHA256:", "SHA256:AAAA", fingerprint("ada")):
        with pytest.raises(UsageError):
            keyring.find_key(ws.bundle.signers, text)


def test_change_signers_alone_still_refuses_an_empty_list(ws: Workspace) -> None:
    with pytest.raises(PolicyDenied):
        change_signers(ws, ws.bundle.signers.__class__(()), soft_signer(), op="x")
    assert not (ws.root / "policy/.allowed_signers.new").exists()


def test_huge_file_in_the_place_of_a_pending_change_is_not_read(ws: Workspace) -> None:
    pending = ws.root / "policy/.allowed_signers.new"
    with pending.open("wb") as file:
        file.truncate(2**40)  # sparse: to read it all is the attack
    assert pending_changes(ws) == []
    assert not pending.exists()


def test_link_in_the_place_of_a_pending_change_is_refused(ws: Workspace, tmp_path: Path) -> None:
    pending, elsewhere = ws.root / "policy/.allowed_signers.new", tmp_path / "elsewhere"
    elsewhere.write_bytes(emit(ws.bundle.signers))
    pending.symlink_to(elsewhere)
    with pytest.raises(StorageFailed):
        pending_changes(ws)
    pending.unlink()
    pending.write_bytes(elsewhere.read_bytes())  # control: a plain one is put in its place
    assert pending_changes(ws) == []
    assert not pending.exists()
    assert not (ws.root / "policy/allowed_signers").is_symlink()
