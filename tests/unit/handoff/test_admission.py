"""Admission: accepted, already there, quarantined with the reason, or refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.workspaces import NOW, clock, findings, make_store
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import Input
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import Admission, admit
from threegate.handoff.journal import Put
from threegate.handoff.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    yield opened
    opened.close()


def bring(store: Store, *items: Artifact | bytes) -> list[Admission]:
    data = [item if isinstance(item, bytes) else registry.emit(item) for item in items]
    return list(admit(store, map(Untrusted, data), now=lambda: NOW))


def test_accepted_artifact_is_read_back_equal_and_read_only(store: Store) -> None:
    packet = samples.packet()
    (answer,) = bring(store, packet)
    assert answer.status == "accepted"
    assert answer.id == registry.id_of(packet)
    assert store.read(answer.id) == packet
    path = store.root / "handoff/packets/accepted" / f"{answer.id}.md"
    assert path.stat().st_mode & 0o777 == 0o444


def test_same_bytes_twice_are_one_artifact(store: Store) -> None:
    first, again = bring(store, samples.packet(), samples.packet())
    assert (first.status, again.status) == ("accepted", "already")
    assert bring(store, samples.packet())[0].status == "already"
    assert len(list(store.ids("rp"))) == 1


def test_operator_request_is_held_and_core_draft_stays_draft(store: Store) -> None:
    mine = samples.tool_request(inputs=())
    drafted = samples.tool_request(inputs=(), origin="core", integrity="external")
    bring(store, mine, drafted)
    assert store.locate(registry.id_of(mine)) == "handoff/requests/held"
    assert store.locate(registry.id_of(drafted)) == "handoff/requests/draft"


def test_rejected_bytes_are_kept_with_code_and_reason(store: Store) -> None:
    junk = registry.emit(samples.packet()).replace(b"crossref", b"crossreF", 1)
    (answer,) = bring(store, junk)
    assert (answer.status, answer.code) == ("quarantined", "TG-ART-012")
    assert store.read_file(states.QUARANTINE, f"{answer.sha256}.bytes") == junk
    why = json.loads((store.root / states.QUARANTINE / f"{answer.sha256}.why.json").read_bytes())
    assert why == {"code": "TG-ART-012", "format": "why/1", "reason": answer.reason, "time": NOW}
    assert list(store.ids("rp")) == []
    assert findings(store.root) == []


def test_same_rejected_bytes_twice_are_kept_once(store: Store) -> None:
    bring(store, b"junk", b"junk")
    bring(store, b"junk")
    assert len(list(store.names(states.QUARANTINE))) == 2  # the bytes and the reason


# claim TG-C-43
def test_log_never_holds_content(store: Store) -> None:
    canary = "CANARY-7f3a"
    bring(store, samples.packet(canary), canary.encode())
    kept = list((store.root / "handoff").rglob("*"))
    assert any(canary.encode() in p.read_bytes() for p in kept if p.is_file()), "control"
    for segment in (store.root / "audit").glob("*.jsonl"):
        assert canary.encode() not in segment.read_bytes()


def test_unknown_source_is_refused(store: Store) -> None:
    source = samples.packet()
    parents = (registry.id_of(source),)
    request = samples.tool_request(inputs=(), derived_from=parents, integrity="external")
    (orphan,) = bring(store, request)
    assert (orphan.status, orphan.code) == ("quarantined", "TG-HND-012")
    assert [a.status for a in bring(store, source, request)] == ["accepted"] * 2, "control"


# claim TG-C-12
def test_labels_weaker_than_those_of_the_sources_are_refused(store: Store) -> None:
    secret = samples.packet(confidentiality="confidential")
    parents = (registry.id_of(secret),)
    bring(store, secret)
    for integrity, confidentiality in (("operator", "confidential"), ("external", "public")):
        request = samples.tool_request(
            inputs=(),
            derived_from=parents,
            integrity=integrity,
            confidentiality=confidentiality,
        )
        assert bring(store, request)[0].code == "TG-ART-024"
    joined = samples.tool_request(
        inputs=(), derived_from=parents, integrity="external", confidentiality="confidential"
    )
    assert bring(store, joined)[0].status == "accepted", "control"


def test_missing_input_blob_is_refused(store: Store) -> None:
    data = b"1,2,3"
    request = samples.tool_request(
        inputs=(Input("rows", f"blob-{sha256_hex(data)}", len(data), None),)
    )
    assert bring(store, request)[0].code == "TG-HND-014"
    with store.locked() as journal:
        journal.run("blob", [Put(states.BLOBS, sha256_hex(data), data)])
    again = samples.tool_request(inputs=request.inputs, nonce="1" * 32)
    assert bring(store, again)[0].status == "accepted", "control"


def test_era_without_a_stored_refusal_is_refused(store: Store) -> None:
    request = samples.escalated("not-expressible", inputs=())
    assert bring(store, request)[0].code == "TG-ART-027"


def test_approval_without_its_signature_is_refused(store: Store) -> None:
    assert bring(store, samples.approval())[0].code == "TG-HND-013"


def test_short_form_finds_one_and_refuses_ambiguity(store: Store) -> None:
    (answer,) = bring(store, samples.packet())
    assert answer.id is not None
    assert store.resolve(answer.id[:15]) == answer.id
    with pytest.raises(UsageError, match="no artifact"):
        store.resolve("rp-" + "0" * 12)
    with pytest.raises(UsageError, match="not an artifact id"):
        store.resolve(answer.id[:14])
    # A second file that shares the first digits; its content does not matter to the listing.
    twin = answer.id[:20] + "0" * (len(answer.id) - 20)
    path = store.root / "handoff/packets/accepted" / f"{twin}.md"
    path.write_bytes(b"x")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="start of 2 ids"):
        store.resolve(answer.id[:15])


def test_moves_that_do_not_exist_are_refused(store: Store) -> None:
    request = samples.tool_request(inputs=())
    request_id = registry.id_of(request)
    bring(store, request)
    with pytest.raises(UsageError, match="no way from held to done"):
        store.move(request_id, source="held", to="done", op="cheat")
    with pytest.raises(UsageError, match="is not approved"):
        store.move(request_id, source="approved", to="claimed", op="cheat")
    store.move(request_id, source="held", to="denied", op="deny")  # control
    assert store.locate(request_id) == "handoff/requests/denied"


@pytest.mark.parametrize(("size", "ahead"), [(4 * 2**20, 4), (1000, 128)])
def test_many_large_items_are_not_held_at_once(store: Store, size: int, ahead: int) -> None:
    drawn = 0

    def offered() -> Iterator[Untrusted[bytes]]:
        nonlocal drawn
        for number in range(200):
            drawn += 1
            yield Untrusted(f"{number:04}".encode().ljust(size, b"x"))

    answers = admit(store, offered(), now=lambda: NOW)
    assert next(answers).status == "quarantined"
    assert drawn == ahead
    if ahead == 128:  # control: small ones share a transaction, and none is lost
        assert len(list(answers)) == 199
        assert drawn == 200
