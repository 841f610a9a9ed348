"""Quarantine for people: every item with its reason, found by digest or id."""

import pytest

from tests.support.samples import packet
from tests.support.workspaces import Clock, take_in
from threegate.artifacts.ids import digest_of, sha256_hex
from threegate.base.errors import HandoffTampered, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import find_quarantined, list_quarantined, read_quarantined
from threegate.host.workspace.removal import withdraw
from threegate.host.workspace.workspace import Workspace


def refuse(ws: Workspace, data: bytes) -> str:
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert answer.status == "quarantined"
    return sha256_hex(data)


def test_newest_first_with_code_and_reason(ws: Workspace, clock: Clock) -> None:
    first = refuse(ws, b"one")
    clock.now += 60
    second = refuse(ws, b"two")
    found = list_quarantined(ws.store)
    assert [item.sha256 for item in found] == [second, first]
    assert {item.code for item in found} == {"TG-ART-016"}
    assert (found[1].bytes, found[1].id, found[1].short) == (3, None, first[:12])
    assert read_quarantined(ws.store, found[1]).open_for_validation() == b"one"


def test_a_withdrawn_artifact_is_found_by_its_id(ws: Workspace) -> None:
    (artifact_id,) = take_in(ws, packet())
    index = Index(ws.store, ws.seals)
    withdraw(ws, index, artifact_id, "retracted")
    index.close()
    found = find_quarantined(ws.store, artifact_id[:20])
    assert (found.id, found.sha256) == (artifact_id, digest_of(artifact_id))
    assert (found.code, found.reason) == ("TG-HND-011", "retracted")


@pytest.mark.parametrize(
    "text", ["", "12", "0" * 11, "rp-12", "0" * 64, "../current.json.........."]
)
def test_what_is_not_there_or_too_short(ws: Workspace, text: str) -> None:
    refuse(ws, b"one")
    with pytest.raises(UsageError, match=r"less than 12 digits|nothing in quarantine"):
        find_quarantined(ws.store, text)


def test_a_reason_that_was_edited_is_tampering(ws: Workspace) -> None:
    digest = refuse(ws, b"one")
    path = ws.root / "handoff/quarantine" / f"{digest}.why.json"
    path.unlink()
    path.write_bytes(b"not json")
    path.chmod(0o444)
    with pytest.raises(HandoffTampered, match="is not readable"):
        list_quarantined(ws.store)
