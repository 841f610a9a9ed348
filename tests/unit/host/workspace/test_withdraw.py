"""Withdrawing: the artifact, everything made from it, and nothing else."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.crash import TURNING, deaths
from tests.support.samples import packet, packet_of_size, tool_request
from tests.support.workspaces import (
    START,
    Clock,
    Family,
    analysis_of,
    approve,
    claim,
    findings,
    keep_blob,
    make_family,
    make_workspace,
    places,
    take_in,
)
from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of
from threegate.audit.entry import time_of
from threegate.base.errors import QuotaExceeded, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import deny
from threegate.handoff.records import Quota
from threegate.host.workspace.index import Index, remove_index
from threegate.host.workspace.places import find_quarantined, list_quarantined
from threegate.host.workspace.removal import IDS_PER_BATCH, MAX_REASON_CHARS, withdraw
from threegate.host.workspace.workspace import Workspace, open_workspace

REASON = "the journal retracted it"


def in_quarantine(ws: Workspace) -> set[str]:
    return set(os.listdir(ws.root / states.QUARANTINE))


def test_artifact_and_everything_made_from_it_go_root_first(ws: Workspace, index: Index) -> None:
    family = make_family(ws)
    (bystander,) = take_in(ws, packet("Another sentence."))
    assert None not in places(ws, family.ids()), "control: all are in a state"
    withdrawn = withdraw(ws, index, family.packet, REASON)
    assert withdrawn.ids[0] == family.packet
    assert sorted(withdrawn.ids) == sorted(family.ids())
    assert places(ws, family.ids()) == [None] * 7
    assert places(ws, [bystander]) == ["accepted"]
    expected = {f"{one}.md" for one in family.ids()} | {f"{family.approval}.sig"}
    expected |= {f"{one}.withdrawn.json" for one in family.ids()}
    assert in_quarantine(ws) == expected
    assert findings(ws.root) == []


def test_the_reason_lies_beside_it_and_not_in_the_log(ws: Workspace, index: Index) -> None:
    family = make_family(ws)
    withdraw(ws, index, family.packet, f"  {REASON}\n")
    why = ws.root / states.QUARANTINE / f"{family.packet}.withdrawn.json"
    assert json.loads(why.read_bytes()) == {
        "code": "TG-HND-011",
        "format": "why/1",
        "reason": REASON,
        "time": time_of(START),
    }
    log = b"".join(path.read_bytes() for path in (ws.root / "audit").glob("*.jsonl"))
    assert b'"op":"withdraw"' in log, "control: this is the log of it"
    assert REASON.encode() not in log


def test_reason_for_which_it_was_refused_before_stays(ws: Workspace, index: Index) -> None:
    source = packet("A sentence.")
    made = analysis_of(registry.id_of(source))
    data = registry.emit(made)
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert (answer.status, answer.code) == ("quarantined", "TG-HND-012")
    before = {name: (ws.root / states.QUARANTINE / name).read_bytes() for name in in_quarantine(ws)}
    take_in(ws, source, made)
    withdraw(ws, index, registry.id_of(made), REASON)
    for name, content in before.items():
        assert (ws.root / states.QUARANTINE / name).read_bytes() == content, "nothing is lost"
    assert len(before) == 2, "control: bytes and reason"
    found = {item.id: (item.code, item.sha256) for item in list_quarantined(ws.store)}
    digest = digest_of(registry.id_of(made))
    assert found == {None: ("TG-HND-012", digest), registry.id_of(made): ("TG-HND-011", digest)}
    assert find_quarantined(ws.store, registry.id_of(made)).reason == REASON
    assert findings(ws.root) == []


def test_denied_request_and_its_approval_go_with_all_that_lies_beside_them(
    ws: Workspace, index: Index
) -> None:
    request = held_request(ws)
    approval = approve(ws.store, request, max_uses=3).approval_id
    deny(ws.store, request, reason="no", now=ws.now())
    assert set(withdraw(ws, index, request, REASON).ids) == {request, approval}
    assert in_quarantine(ws) == {
        *(f"{approval}{suffix}" for suffix in (".md", ".sig", ".uses.json", ".withdrawn.json")),
        *(f"{request}{suffix}" for suffix in (".md", ".why.json", ".withdrawn.json")),
    }
    assert {item.id for item in list_quarantined(ws.store)} == {request, approval}
    assert findings(ws.root) == []


def test_only_what_was_made_from_it_goes(ws: Workspace, index: Index) -> None:
    family = make_family(ws)
    assert set(withdraw(ws, index, family.request, REASON).ids) == {
        family.request,
        family.approval,
        family.result,
    }
    assert places(ws, [family.packet, family.analysis]) == ["accepted", "accepted"]


def test_nothing_new_can_be_made_from_what_was_withdrawn(ws: Workspace, index: Index) -> None:
    family = make_family(ws)
    data = registry.emit(analysis_of(family.packet, nonce="f" * 32))
    withdraw(ws, index, family.packet, REASON)
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert (answer.status, answer.code) == ("quarantined", "TG-HND-012")
    again = (ws.root / states.QUARANTINE / f"{family.packet}.md").read_bytes()
    (answer,) = admit(ws.store, [Untrusted(again)], now=ws.now)
    assert (answer.status, answer.code) == ("refused", "TG-HND-011")


def test_what_arrives_during_a_withdrawal_goes_too(
    ws: Workspace, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = make_family(ws)
    late: list[str] = []
    catch_up = index.catch_up

    def and_another_command_admits() -> None:
        catch_up()
        if not late:
            late.extend(take_in(ws, analysis_of(family.analysis, nonce="e" * 32)))

    monkeypatch.setattr(index, "catch_up", and_another_command_admits)
    assert set(withdraw(ws, index, family.packet, REASON).ids) == {*family.ids(), *late}
    assert places(ws, late) == [None]


def test_more_than_one_batch(ws: Workspace, index: Index) -> None:
    (root,) = take_in(ws, packet("A sentence."))
    nonces = [f"{number:032x}" for number in range(IDS_PER_BATCH + 5)]
    made = take_in(ws, *(analysis_of(root, nonce=nonce) for nonce in nonces))
    withdrawn = withdraw(ws, index, root, REASON)
    assert withdrawn.ids[0] == root
    assert len(withdrawn.ids) == IDS_PER_BATCH + 6
    assert set(places(ws, made)) == {None}
    assert findings(ws.root) == []


def test_kill_at_any_turn_is_completed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.host.workspace.removal.IDS_PER_BATCH", 3)
    ws = make_workspace(tmp_path)
    family = make_family(ws)
    ws.close()
    kept = tmp_path / "kept"
    shutil.copytree(ws.root, kept, symlinks=True)
    count = 0

    def prepare() -> None:
        shutil.rmtree(ws.root)
        shutil.copytree(kept, ws.root, symlinks=True)

    def action() -> None:
        opened = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
        withdraw(opened, Index(opened.store, opened.seals), family.packet, REASON)

    for death in deaths(action, prepare, TURNING):
        count += 1
        opened = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
        # The root first: if anything at all is gone, nothing can be made from the root.
        left = places(opened, family.ids())
        assert None not in left or left[0] is None, death
        if count % 2:  # an index made anew knows the family too
            remove_index(ws.root)
        found = Index(opened.store, opened.seals)
        withdraw(opened, found, family.packet, REASON)
        assert places(opened, family.ids()) == [None] * 7, death
        found.close()
        opened.close()
        assert findings(ws.root) == [], death
    assert count > 20


def test_running_twice_withdraws_nothing_more(ws: Workspace, index: Index) -> None:
    family = make_family(ws)
    assert withdraw(ws, index, family.packet, REASON).ids
    before = in_quarantine(ws)
    assert withdraw(ws, index, family.packet, REASON).ids == ()
    assert in_quarantine(ws) == before


def held_request(ws: Workspace) -> str:
    keep_blob(ws, b"rows")
    (request,) = take_in(ws, tool_request())
    return request


def test_request_that_is_being_run_is_refused(ws: Workspace, index: Index) -> None:
    request = held_request(ws)
    claim(ws.store, request)
    with pytest.raises(UsageError, match="is being run") as caught:
        withdraw(ws, index, request, REASON)
    assert caught.value.hint
    assert places(ws, [request]) == ["claimed"]
    assert in_quarantine(ws) == set()


def test_request_whose_claimer_died_is_withdrawn(ws: Workspace, index: Index) -> None:
    request = held_request(ws)
    pid = os.fork()
    if pid == 0:
        claim(open_workspace(ws.root, clock=Clock(), seals=ws.seals).store, request)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with ws.store.locked():
        pass
    assert places(ws, [request]) == ["claimed"], "control: the dead process had claimed it"
    withdrawn = withdraw(ws, index, request, REASON).ids
    assert withdrawn[0] == request
    assert {one[:3] for one in withdrawn[1:]} == {"ap-"}, "its approval goes with it"
    assert os.listdir(ws.root / states.LEASES) == []
    assert os.listdir(ws.root / states.RESERVE) == []
    assert findings(ws.root) == []


def test_full_quarantine_refuses_and_changes_nothing(ws: Workspace, index: Index) -> None:
    (root,) = take_in(ws, packet_of_size(1))
    ws.store.journal.quotas = {states.QUARANTINE: Quota(files=1, bytes=10**6)}
    with pytest.raises(QuotaExceeded):
        withdraw(ws, index, root, REASON)
    assert places(ws, [root]) == ["accepted"]


@pytest.mark.parametrize(
    "reason", ["", "  \n", "x" * (MAX_REASON_CHARS + 1), "a\x1b[2J", "a\u202eb", "\udcff"]
)
def test_reason_must_be_text_that_can_be_shown(ws: Workspace, index: Index, reason: str) -> None:
    family: Family = make_family(ws)
    with pytest.raises(UsageError):
        withdraw(ws, index, family.packet, reason)
    assert in_quarantine(ws) == set()


@pytest.mark.parametrize("artifact_id", ["rp-" + "0" * 64, "rp-0123456789ab", "../x", "rp-"])
def test_what_is_not_here_is_not_withdrawn(ws: Workspace, index: Index, artifact_id: str) -> None:
    with pytest.raises(UsageError):
        withdraw(ws, index, artifact_id, REASON)
