"""The desk: what was shown is what is approved, and others may change everything meanwhile."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.samples import box, digest, tool_request
from tests.support.workspaces import Clock, make_workspace, public_of, soft_signer, take_in
from threegate.artifacts import registry
from threegate.artifacts.ids import make_id
from threegate.base.errors import GateUnavailable, PolicyDenied, UsageError
from threegate.base.text import visible
from threegate.handoff.approvals import approvals_by_request, denial_of
from threegate.host.keys.signatures import Signer
from threegate.host.review import decisions
from threegate.host.review.parts import RuleOfTwo, plain
from threegate.host.review.sheet import read_sheet
from threegate.host.review.terminal.pager import PagedDocument
from threegate.host.review.terminal.press import MAX_TYPED_CHARS
from threegate.host.review.terminal.workspace import (
    MAX_LISTED,
    WorkspaceReview,
    _notices,
    _numbered,
)
from threegate.host.workspace.index import Index
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.text_form import how_given
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys.public import PublicKey


@dataclass
class Interrupted:
    """A signer whose human presses Ctrl-C."""

    def sign(self, message: bytes, namespace: str) -> bytes:
        assert message
        assert namespace
        raise KeyboardInterrupt


@dataclass
class Place:
    """A desk over a workspace, and everything it said."""

    ws: Workspace
    clock: Clock
    desk: WorkspaceReview
    told: list[str] = field(default_factory=list)
    signer: Signer = field(default_factory=soft_signer)

    def ask(self, **changes: Any) -> str:
        fields = {"profile": "pure", "inputs": (), "nonce": digest(str(changes))[:32]}
        (request_id,) = take_in(self.ws, tool_request(**{**fields, **changes}))
        return request_id

    def state(self, request_id: str) -> str | None:
        with self.ws.store.locked():
            return self.ws.store.standing(request_id)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clock = Clock()
    ws = make_workspace(tmp_path, clock=clock)
    index = Index(ws.store, ws.seals)
    found: Place

    def signing(_: Workspace) -> tuple[Signer, PublicKey]:
        return found.signer, public_of()

    def tell(words: str) -> None:
        found.told.append(words)

    found = Place(ws, clock, WorkspaceReview(LiveWorkspace(ws, index), signing, tell, visible))
    yield found
    index.close()
    ws.close()


def texts(document: PagedDocument) -> list[str]:
    return [plain(line.spans) for line in document.lines]


def test_the_list_is_oldest_first_and_spelled_out(place: Place) -> None:
    first = place.ask(purpose=box("one\u200dline\nand another"))
    second = place.ask(purpose=box("two"))
    queue = place.desk.waiting()
    assert [item.id for item in queue.items] == [first, second]
    assert [item.purpose for item in queue.items] == ["one\\u{200d}line", "two"]
    assert {(item.state, item.origin) for item in queue.items} == {("held", "operator")}
    assert queue.total == 2


def test_of_very_many_only_the_oldest_are_listed(place: Place) -> None:
    many = [tool_request(nonce=f"{n:032x}", inputs=()) for n in range(MAX_LISTED + 3)]
    take_in(place.ws, *many)
    queue = place.desk.waiting()
    assert (len(queue.items), queue.total) == (MAX_LISTED, MAX_LISTED + 3)


def test_a_sheet_has_everything_and_its_code(place: Place) -> None:
    found = place.desk.sheet(place.ask())
    shown = "\n".join(texts(found.document))
    for word in ("purpose", "flag", "rule of two", "code, ", "inputs", "limits", "goes back to"):
        assert word in shown
    assert "sum(rows) / len(rows)" in shown
    assert found.refusal == ""
    assert found.terms.bounds.max_uses > 1
    assert any("Network: none" in words for words in found.means)


def test_growing_older_does_not_make_it_another_sheet(place: Place) -> None:
    request_id = place.ask()
    first = place.desk.sheet(request_id)
    place.clock.now += 7200
    assert place.desk.sheet(request_id).document.lines == first.document.lines
    other = read_sheet(place.ws, request_id)
    assert other.age_seconds >= 7200, "control: it did grow older"


def test_approving_signs_the_bytes_that_were_shown(place: Place) -> None:
    request_id = place.ask()
    place.desk.sheet(request_id)
    words = place.desk.approve(request_id, uses=2, seconds=900)
    assert words.startswith(f"approved {request_id[:15]} until ")
    assert place.state(request_id) == "approved"
    ((approval_id,),) = approvals_by_request(place.ws.store).values()
    approval = place.ws.store.read(approval_id)
    assert getattr(approval, "request", "") == request_id
    assert getattr(approval, "max_uses", 0) == 2
    assert make_id("tr", place.ws.store.read_bytes(request_id)) == request_id
    assert approval_id in place.told[-1]


# claim TG-C-436
def test_an_approval_on_the_screen_is_given_on_a_terminal(place: Place) -> None:
    request_id = place.ask()
    place.desk.sheet(request_id)
    place.desk.approve(request_id, uses=1, seconds=900)
    ((approval_id,),) = approvals_by_request(place.ws.store).values()
    assert how_given(place.ws.store.journal.log, approval_id)["given"] == "terminal"


def test_what_somebody_else_decided_is_not_approved_again(place: Place) -> None:
    request_id = place.ask()
    place.desk.sheet(request_id)
    other = open_workspace(place.ws.root, clock=place.clock)
    decisions.deny(other, request_id, "no")
    other.close()
    with pytest.raises(PolicyDenied, match="decided already") as caught:
        place.desk.approve(request_id, uses=1, seconds=900)
    assert caught.value.code == "TG-APR-012"
    assert approvals_by_request(place.ws.store) == {}
    with pytest.raises(UsageError, match="does not wait"):
        place.desk.deny(request_id, "no")
    assert place.desk.state(request_id) == "denied"


def test_denying_keeps_the_reason(place: Place) -> None:
    request_id = place.ask()
    assert place.desk.deny(request_id, "too much").startswith("denied")
    denial = denial_of(place.ws.store, request_id)
    assert denial is not None
    assert denial.reason == "too much"


def test_a_typed_reason_is_never_longer_than_a_reason_may_be() -> None:
    assert MAX_TYPED_CHARS <= decisions.MAX_REASON_CHARS


def test_ctrl_c_while_signing_approves_nothing(place: Place) -> None:
    request_id = place.ask()
    place.desk.sheet(request_id)
    place.signer = Interrupted()
    with pytest.raises(GateUnavailable, match="interrupted"):
        place.desk.approve(request_id, uses=1, seconds=900)
    assert place.state(request_id) == "held"
    place.signer = soft_signer()
    place.desk.approve(request_id, uses=1, seconds=900)  # control
    assert place.state(request_id) == "approved"


def test_changes_are_noticed_and_only_those(place: Place) -> None:
    place.ask()
    place.desk.waiting()
    assert not place.desk.changed()
    other = open_workspace(place.ws.root, clock=place.clock)
    take_in(other, tool_request(nonce="7" * 32, inputs=()))
    other.close()
    seen = place.desk.changed()
    assert seen
    assert place.desk.waiting().total == 2
    assert not place.desk.changed()


def test_what_waited_too_long_is_not_offered(place: Place) -> None:
    request_id = place.ask()
    assert place.desk.waiting().total == 1, "control"
    place.clock.now += 20 * 86_400
    assert place.desk.waiting().items == ()
    assert place.desk.state(request_id) == "expired"


def test_what_policy_denies_says_so_before_anybody_is_asked(place: Place) -> None:
    refused = place.desk.sheet(place.ask(profile="default")).refusal
    assert "is not offered to monty" in refused
    assert refused.endswith("[TG-POL-001]")


def test_the_rule_of_two_is_named_in_the_question(place: Place) -> None:
    sheet = read_sheet(place.ws, place.ask(functions=()))
    assert not any("network" in words for words in _notices(sheet)), "control"
    joined = replace(sheet, rule_of_two=RuleOfTwo(True, True, True, True))
    assert any("y accepts that by name" in words for words in _notices(joined))


def test_a_request_forgotten_meanwhile_is_gone(place: Place) -> None:
    assert place.desk.state("tr-" + "0" * 64) == "gone"


def unescaped(rows: list[str]) -> bytes:
    """Read the bytes view back."""
    lines = [
        re.sub(rb"\\(\\|x([0-9a-f]{2}))", lambda m: bytes([int(m[2], 16)]) if m[2] else b"\\", row)
        for row in (text.encode("ascii") for text in rows)
    ]
    return b"\n".join(lines)


@given(st.binary(max_size=300))
def test_the_bytes_view_can_be_read_back(data: bytes) -> None:
    rows = [plain(line.spans) for line in _numbered(data.split(b"\n"))]
    assert all(row.isascii() and row.isprintable() for row in rows)
    assert unescaped(rows) == data


def test_the_bytes_view_is_of_the_stored_bytes(place: Place) -> None:
    request_id = place.ask(purpose=box("caf\u00e9 \\ \u6f22\ttab"))
    shown = unescaped(texts(place.desk.raw(request_id)))
    assert shown == place.ws.store.read_bytes(request_id)
    assert registry.id_of(place.ws.store.read(request_id)) == request_id
