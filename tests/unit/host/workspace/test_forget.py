"""Forgetting: no copy of the bytes stays anywhere in the workspace, and somebody signed for it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.crash import TURNING, deaths
from tests.support.samples import box, packet, tool_request
from tests.support.workspaces import (
    START,
    Clock,
    analysis_of,
    approve,
    claim,
    files_below,
    findings,
    keep_blob,
    make_family,
    make_workspace,
    places,
    public_of,
    soft_signer,
    ssh_signer,
    take_in,
)
from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of
from threegate.audit.entry import time_of
from threegate.base.errors import ClockRefused, SignatureRefused, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import deny
from threegate.host.keys.signatures import Signer
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import TOMBSTONE_NAMESPACE, forget, withdraw
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys import sshsig

CANARY = "xylophoneparrot"  # its own stem, so the index holds it as it is
REASON = "asked to by the zebrafinch owner"


def holding(root: Path, word: str = CANARY) -> list[str]:
    """Return every file of the workspace, databases and logs included, that holds a word."""
    return [name for name, data in files_below(root).items() if word.encode() in data]


def lonely(ws: Workspace) -> str:
    """Admit a packet with the canary in its text and in its raw bytes."""
    raw = f"raw bytes with {CANARY}".encode()
    made = packet(f"About {CANARY}.", raw_sha256=keep_blob(ws, raw), raw_bytes=len(raw))
    return take_in(ws, made)[0]


def test_no_copy_stays_anywhere(ws: Workspace, index: Index) -> None:
    found = lonely(ws)
    index.catch_up()
    assert index.search(CANARY, ("rp",), limit=9, skip=0), "control: the index knows it"
    before = holding(ws.root)
    kinds = {name.split("/")[0] if "/" not in name else name.rpartition("/")[0] for name in before}
    assert {"handoff/packets/accepted", "handoff/blobs"} <= kinds, "control: it was there"
    assert any(name.startswith("index.sqlite") for name in before), "control: and in the index"
    forgotten = forget(ws, index, found, REASON, soft_signer())
    assert forgotten.ids == (found,)
    assert forgotten.may_quote == ()
    assert holding(ws.root) == []
    index.catch_up()
    assert index.search(CANARY, ("rp",), limit=9, skip=0) == []
    assert holding(ws.root) == []
    assert findings(ws.root) == []


def test_tombstone_is_signed_and_holds_the_reason_alone(ws: Workspace, index: Index) -> None:
    found = lonely(ws)
    forget(ws, index, found, REASON, soft_signer())
    stone = (ws.root / states.TOMBSTONES / f"{found}.json").read_bytes()
    assert json.loads(stone) == {
        "format": "tombstone/1",
        "id": found,
        "reason": REASON,
        "time": time_of(START),
    }
    signature = (ws.root / states.TOMBSTONES / f"{found}.sig").read_bytes()
    signed = sshsig.verify(
        stone,
        Untrusted(signature),
        namespace=TOMBSTONE_NAMESPACE,
        signers=ws.bundle.signers,
        at=START,
    )
    assert signed.fingerprint == public_of().fingerprint
    assert holding(ws.root, "zebrafinch") == [f"{states.TOMBSTONES}/{found}.json"]
    log = b"".join(path.read_bytes() for path in (ws.root / "audit").glob("*.jsonl"))
    assert b'"op":"forget"' in log, "control: this is the log of it"


def test_ssh_keygen_signs_the_tombstone(ws: Workspace, index: Index, tmp_path: Path) -> None:
    found = lonely(ws)
    assert forget(ws, index, found, REASON, ssh_signer(tmp_path, ws.root)).ids == (found,)
    assert holding(ws.root) == []


# claim TG-C-24
def test_what_was_forgotten_is_not_admitted_again(ws: Workspace, index: Index) -> None:
    found = lonely(ws)
    data = ws.store.read_bytes(found)
    forget(ws, index, found, REASON, soft_signer())
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert (answer.status, answer.code) == ("refused", "TG-HND-010")
    assert holding(ws.root) == []


class Liar:
    """Signs as somebody who may not."""

    def sign(self, message: bytes, namespace: str) -> bytes:
        return soft_signer("stranger").sign(message, namespace)


class Other:
    """The operator, but for something else."""

    def sign(self, message: bytes, namespace: str) -> bytes:
        return soft_signer().sign(message, namespace.replace("tombstone", "approval"))


class Echo:
    """The operator, but of other bytes."""

    def sign(self, message: bytes, namespace: str) -> bytes:
        return soft_signer().sign(message + b"!", namespace)


@pytest.mark.parametrize(
    ("signer", "code"), [(Liar(), "TG-KEY-003"), (Other(), "TG-KEY-004"), (Echo(), "TG-KEY-002")]
)
# claim TG-C-24
def test_nothing_is_removed_without_a_signature_that_counts(
    ws: Workspace, index: Index, signer: Signer, code: str
) -> None:
    found = lonely(ws)
    index.catch_up()
    before = holding(ws.root)
    with pytest.raises(SignatureRefused) as caught:
        forget(ws, index, found, REASON, signer)
    assert caught.value.code == code
    assert holding(ws.root) == before
    assert os.listdir(ws.root / states.TOMBSTONES) == []
    forget(ws, index, found, REASON, soft_signer())  # control: it was the signature


def test_signature_missing_for_the_second_of_a_family_removes_none(
    ws: Workspace, index: Index
) -> None:
    family = make_family(ws, CANARY)

    class Tired:
        left = 3

        def sign(self, message: bytes, namespace: str) -> bytes:
            self.left -= 1
            return (soft_signer() if self.left else soft_signer("stranger")).sign(
                message, namespace
            )

    with pytest.raises(SignatureRefused):
        forget(ws, index, family.packet, REASON, Tired(), derived=True)
    assert None not in places(ws, family.ids())


def test_warns_of_what_may_quote_it(ws: Workspace, index: Index) -> None:
    family = make_family(ws, CANARY)
    forgotten = forget(ws, index, family.packet, REASON, soft_signer())
    assert set(forgotten.may_quote) == set(family.ids()) - {family.packet}
    assert places(ws, [family.packet, family.analysis]) == [None, "accepted"]
    assert holding(ws.root), "control: the warning is true"


def test_derived_are_forgotten_too_when_asked(ws: Workspace, index: Index) -> None:
    family = make_family(ws, CANARY)
    (bystander,) = take_in(ws, packet("Another sentence."))
    index.catch_up()
    assert len(holding(ws.root)) > 5, "control: it stands in all of them"
    forgotten = forget(ws, index, family.packet, REASON, soft_signer(), derived=True)
    assert set(forgotten.ids) == set(family.ids())
    assert forgotten.ids[-1] == family.packet, "the root last, so that a crash loses no trace"
    assert forgotten.may_quote == ()
    assert holding(ws.root) == []
    assert os.listdir(ws.root / "handoff/approvals/accepted") == []
    assert places(ws, [bystander]) == ["accepted"]
    assert findings(ws.root) == []


@pytest.mark.parametrize("withdrawn", [False, True])
def test_denied_request_is_forgotten_with_its_reason_and_its_approval(
    ws: Workspace, index: Index, withdrawn: bool
) -> None:
    keep_blob(ws, b"rows")
    (request,) = take_in(ws, tool_request(purpose=box(CANARY)))
    approval = approve(ws.store, request, max_uses=2).approval_id
    deny(ws.store, request, reason=f"because of {CANARY}", now=ws.now())
    if withdrawn:
        withdraw(ws, index, request, REASON)
    assert len(holding(ws.root)) >= 2, "control: request and reason hold it"
    forgotten = forget(ws, index, request, REASON, soft_signer(), derived=True)
    assert set(forgotten.ids) == {request, approval}
    assert holding(ws.root) == []
    for directory in (states.QUARANTINE, "handoff/requests/denied", "handoff/approvals/revoked"):
        assert os.listdir(ws.root / directory) == []
    assert findings(ws.root) == []


def test_withdrawn_artifact_is_forgotten_with_its_reason(ws: Workspace, index: Index) -> None:
    family = make_family(ws, CANARY)
    withdraw(ws, index, family.packet, f"because of {CANARY}")
    assert holding(ws.root), "control: quarantine holds it"
    forget(ws, index, family.packet, REASON, soft_signer(), derived=True)
    assert holding(ws.root) == []
    assert os.listdir(ws.root / states.QUARANTINE) == []
    assert findings(ws.root) == []


def test_copy_that_was_once_rejected_is_forgotten_too(ws: Workspace, index: Index) -> None:
    parent = packet("A sentence.")
    child = analysis_of(registry.id_of(parent), answer=box(f"On {CANARY}."))
    data = registry.emit(child)
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert answer.status == "quarantined", "control: its source was missing"
    take_in(ws, parent)
    (found,) = take_in(ws, child)
    assert len(holding(ws.root)) == 2, "control: two copies"
    forget(ws, index, found, REASON, soft_signer())
    assert holding(ws.root) == []


def test_rejected_bytes_are_forgotten_by_their_digest(ws: Workspace, index: Index) -> None:
    data = f"no artifact, but {CANARY}".encode()
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert answer.status == "quarantined"
    assert holding(ws.root), "control: quarantine holds it"
    forget(ws, index, f"blob-{answer.sha256}", REASON, soft_signer())
    assert holding(ws.root) == []
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert (answer.status, answer.code) == ("refused", "TG-HND-010")
    assert holding(ws.root) == []


def test_raw_bytes_that_another_artifact_names_stay(ws: Workspace, index: Index) -> None:
    digest = keep_blob(ws, b"shared")
    shared = {"raw_sha256": digest, "raw_bytes": 6}
    first, second = take_in(ws, packet("One.", **shared), packet("Two.", **shared))
    forget(ws, index, first, REASON, soft_signer())
    assert ws.store.has_blob(digest)
    forget(ws, index, second, REASON, soft_signer())
    assert not ws.store.has_blob(digest)
    assert findings(ws.root) == []


def test_raw_bytes_that_a_withdrawn_artifact_names_stay(ws: Workspace, index: Index) -> None:
    digest = keep_blob(ws, b"shared")
    shared = {"raw_sha256": digest, "raw_bytes": 6}
    first, second = take_in(ws, packet("One.", **shared), packet("Two.", **shared))
    withdraw(ws, index, second, REASON)
    forget(ws, index, first, REASON, soft_signer())
    assert ws.store.has_blob(digest)


def test_raw_bytes_named_by_what_was_admitted_meanwhile_stay(ws: Workspace, index: Index) -> None:
    digest = keep_blob(ws, b"shared")
    shared = {"raw_sha256": digest, "raw_bytes": 6}
    (first,) = take_in(ws, packet("One.", **shared))

    class Slow:
        """While the human looks for the token, another command admits."""

        def sign(self, message: bytes, namespace: str) -> bytes:
            other = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
            take_in(other, packet("Two.", **shared))
            other.close()
            return soft_signer().sign(message, namespace)

    forget(ws, index, first, REASON, Slow())
    assert ws.store.has_blob(digest)


def test_inputs_of_a_request_go_with_it(ws: Workspace, index: Index) -> None:
    data = f"a,b\n{CANARY},2\n".encode()
    digest = keep_blob(ws, data)
    made = tool_request()
    asked = made.inputs[0].__class__("rows", f"blob-{digest}", len(data), None)
    (request,) = take_in(ws, tool_request(inputs=(asked,)))
    assert holding(ws.root) == [f"handoff/blobs/{digest}"], "control: only there"
    forget(ws, index, request, REASON, soft_signer())
    assert holding(ws.root) == []


def test_raw_bytes_alone_can_be_forgotten(ws: Workspace, index: Index) -> None:
    digest = keep_blob(ws, f"raw {CANARY}".encode())
    (found,) = take_in(ws, packet("One.", raw_sha256=digest, raw_bytes=4))
    forgotten = forget(ws, index, f"blob-{digest}", REASON, soft_signer())
    assert forgotten.ids == (f"blob-{digest}",)
    assert forgotten.may_quote == (found,)
    assert holding(ws.root) == []
    assert places(ws, [found]) == ["accepted"]


def test_digest_of_an_artifact_is_not_forgotten_as_raw_bytes(ws: Workspace, index: Index) -> None:
    found = lonely(ws)
    with pytest.raises(UsageError, match="are rp-") as caught:
        forget(ws, index, f"blob-{digest_of(found)}", REASON, soft_signer())
    assert found in caught.value.hint
    assert places(ws, [found]) == ["accepted"]


def test_kill_at_any_turn_leaves_all_or_nothing(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    found = lonely(ws)
    index = Index(ws.store, ws.seals)
    index.catch_up()
    index.close()
    ws.close()
    kept = tmp_path / "kept"
    shutil.copytree(ws.root, kept)
    whole = sorted(name for name in holding(kept) if "sqlite" not in name)
    assert len(whole) == 2
    seen = set()

    def prepare() -> None:
        shutil.rmtree(ws.root)
        shutil.copytree(kept, ws.root)

    def action() -> None:
        opened = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
        forget(opened, Index(opened.store, opened.seals), found, REASON, soft_signer())

    for death in deaths(action, prepare, TURNING):
        opened = open_workspace(
            ws.root, clock=Clock(), seals=ws.seals
        )  # settles what the crash left
        left = sorted(name for name in holding(ws.root) if "sqlite" not in name)
        assert left in ([], whole), death
        seen.add(bool(left))
        if not left:  # the index may still hold it, until anybody uses it
            index = Index(opened.store, opened.seals)
            index.catch_up()
            index.close()
            assert holding(ws.root) == [], death
        assert findings(ws.root) == [], death
        index = Index(opened.store, opened.seals)
        forget(opened, index, found, REASON, soft_signer())
        index.close()
        opened.close()
        assert holding(ws.root) == [], death
    assert seen == {True, False}, "killed on both sides of the point of no return"


def test_running_again_removes_an_index_a_crash_left(ws: Workspace, index: Index) -> None:
    found = lonely(ws)
    index.catch_up()
    stale = {name: (ws.root / name).read_bytes() for name in holding(ws.root) if "sqlite" in name}
    forget(ws, index, found, REASON, soft_signer())
    index.close()
    for name, data in stale.items():
        (ws.root / name).write_bytes(data)
    assert holding(ws.root), "control: the old index is back"
    again = Index(ws.store, ws.seals)
    assert forget(ws, again, found, REASON, soft_signer()).ids == ()
    again.close()
    assert holding(ws.root) == []


def test_clock_far_behind_dates_no_tombstone(tmp_path: Path) -> None:
    clock = Clock()
    ws = make_workspace(tmp_path, clock=clock)
    found, index = lonely(ws), Index(ws.store, ws.seals)
    clock.now = START - 3600
    with pytest.raises(ClockRefused):
        forget(ws, index, found, REASON, soft_signer())
    assert places(ws, [found]) == ["accepted"]
    clock.now = START
    assert forget(ws, index, found, REASON, soft_signer()).ids == (found,)
    index.close()


def test_request_that_is_being_run_is_not_forgotten(ws: Workspace, index: Index) -> None:
    keep_blob(ws, b"rows")
    (request,) = take_in(ws, tool_request())
    claim(ws.store, request)
    with pytest.raises(UsageError, match="is being run"):
        forget(ws, index, request, REASON, soft_signer())
    assert places(ws, [request]) == ["claimed"]


@pytest.mark.parametrize(
    "artifact_id", ["rp-" + "0" * 64, "blob-" + "0" * 64, "rp-0123456789ab", "../x", ""]
)
def test_what_is_not_here_is_not_forgotten(ws: Workspace, index: Index, artifact_id: str) -> None:
    with pytest.raises(UsageError):
        forget(ws, index, artifact_id, REASON, soft_signer())
    assert os.listdir(ws.root / states.TOMBSTONES) == []
