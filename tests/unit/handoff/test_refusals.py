"""Refusals: an escalation counts only when this host wrote the refusal down itself."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.samples import digest
from tests.support.workspaces import NOW, clock, findings, make_store
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import ToolRequest, refusal_record
from threegate.audit.entry import SEGMENT_EVENTS
from threegate.base.errors import ArtifactRejected, StorageFailed
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import Admission, admit, admit_request
from threegate.handoff.journal import Put
from threegate.handoff.refusals import keep_refusal, was_refused
from threegate.handoff.store import Store

ESCALATED = samples.escalated("not-expressible", inputs=())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    root = tmp_path / "store"
    make_store(root)
    opened = Store.open(root, clock=clock)
    yield opened
    opened.close()


def bring(store: Store, request: ToolRequest) -> Admission:
    (answer,) = admit(store, [Untrusted(registry.emit(request))], now=lambda: NOW)
    return answer


def words(request: ToolRequest) -> dict[str, Any]:
    assert request.why_not_monty is not None
    refusal = request.why_not_monty.refusal
    assert refusal is not None
    return {
        "code_sha256": request.code_sha256,
        "construct": refusal.construct.open_for_validation(),
        "line": refusal.line,
        "reason": refusal.reason.open_for_validation(),
    }


def refuse(store: Store, request: ToolRequest) -> str:
    return keep_refusal(store, **words(request))


def test_escalation_with_the_stored_refusal_of_its_code_is_accepted(store: Store) -> None:
    assert bring(store, ESCALATED).code == "TG-ART-027", "nobody refused it yet"
    refuse(store, ESCALATED)
    again = samples.escalated("not-expressible", inputs=(), nonce="1" * 32)
    assert bring(store, again).status == "accepted"
    store.close()
    assert findings(store.root) == []


# claim TG-C-108
def test_refusal_spelled_by_a_page_or_a_file_is_no_refusal(store: Store) -> None:
    record = refusal_record(**words(ESCALATED))
    with store.locked() as journal:
        journal.run("blob", [Put(states.BLOBS, sha256_hex(record), record)])
    assert bring(store, ESCALATED).code == "TG-ART-027"
    with pytest.raises(ArtifactRejected, match="never refused"):
        admit_request(store, ESCALATED, blobs=[record])
    assert refuse(store, ESCALATED) == sha256_hex(record)
    again = samples.escalated("not-expressible", inputs=(), nonce="1" * 32)
    assert bring(store, again).status == "accepted", "control: Monty did refuse it now"


# claim TG-C-108
def test_refusal_of_other_code_does_not_help(store: Store) -> None:
    other = {**words(ESCALATED), "code_sha256": digest("other code")}
    keep_refusal(store, **other)
    assert bring(store, ESCALATED).code == "TG-ART-027"
    refuse(store, ESCALATED)
    again = samples.escalated("not-expressible", inputs=(), nonce="1" * 32)
    assert bring(store, again).status == "accepted", "control"


# claim TG-C-108
def test_refusal_whose_writing_was_undone_is_no_refusal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", fails)
        with pytest.raises(StorageFailed):
            refuse(store, ESCALATED)
    record = refusal_record(**words(ESCALATED))
    with store.locked() as journal:
        journal.run("blob", [Put(states.BLOBS, sha256_hex(record), record)])
    undone = [entry.data.get("direction") for entry in store.journal.log.entries(0)]
    assert "back" in undone, "control: it was announced, and undone"
    assert bring(store, ESCALATED).code == "TG-ART-027"
    refuse(store, ESCALATED)
    again = samples.escalated("not-expressible", inputs=(), nonce="1" * 32)
    assert bring(store, again).status == "accepted", "control"


def test_refusal_is_written_once_and_found_however_long_ago(store: Store) -> None:
    record = refuse(store, ESCALATED)
    size = store.journal.log.size
    assert refuse(store, ESCALATED) == record
    assert store.journal.log.size == size, "nothing new was written"
    with store.locked() as journal:
        filler = [("test.filler", {"n": n}) for n in range(64)]
        while journal.log.size < SEGMENT_EVENTS + 64:
            journal.log.append(filler, durable=False)
        assert was_refused(store, record)
        assert not was_refused(store, digest("never written"))


def test_what_was_forgotten_is_not_written_again(store: Store) -> None:
    record = refusal_record(**words(ESCALATED))
    stone = Put(states.TOMBSTONES, f"blob-{sha256_hex(record)}.json", b"{}")
    with store.locked() as journal:
        journal.run("forget", [stone])
    with pytest.raises(ArtifactRejected) as caught:
        refuse(store, ESCALATED)
    assert caught.value.code == "TG-HND-010"
    assert not store.has_blob(sha256_hex(record))
