"""The clock of the log: a jump ahead is refused, the way back is signed and brings nothing back."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.requests import approved, held, meddler, program
from tests.support.samples import packet
from tests.support.workspaces import (
    START,
    Clock,
    make_workspace,
    public_of,
    soft_signer,
    take_in,
)
from threegate.artifacts import registry
from threegate.audit.entry import SEGMENT_EVENTS, time_of
from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals
from threegate.handoff.admission import admit
from threegate.host.policy import keyring
from threegate.host.policy.changes import apply_policy, edited
from threegate.host.review.approval import approve
from threegate.host.review.decisions import settle, sweep
from threegate.host.review.sheet import read_sheet
from threegate.host.workspace.backup import backup, silent
from threegate.host.workspace.log_signatures import clock_difference, set_clock
from threegate.host.workspace.restore import restore
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import Workspace, open_workspace

DAY = 86_400
YEARS = 3650 * DAY
SOON = 20 * DAY  # ahead, and not so far that it is noticed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Workspace:
    return make_workspace(tmp_path, clock=clock)


def reopened(ws: Workspace) -> Workspace:
    return open_workspace(ws.root, clock=ws.clock)


def differences(ws: Workspace) -> list[str]:
    report = verify_workspace(ws.root, given=[], clock=ws.clock, progress=silent)
    return [finding.problem for finding in report.findings]


def code_of(act: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(ThreeGateError) as caught:
        act(*args, **named)
    return caught.value.code


def jumped(ws: Workspace, clock: Clock, seconds: int) -> None:
    """Leave an entry in the future, step by step, and put the clock right again."""
    right = clock.now
    while clock.now < right + seconds:
        clock.now = min(clock.now + 30 * DAY, right + seconds)
        note(ws)
    clock.now = right


def note(ws: Workspace, kind: str = "test") -> None:
    with ws.store.locked() as journal:
        journal.log.append([(kind, {})])


# claim TG-C-430
def test_a_command_by_a_clock_years_ahead_writes_nothing(ws: Workspace, clock: Clock) -> None:
    sheet, size = held(ws), ws.store.journal.log.size
    clock.now += YEARS
    item = Untrusted(registry.emit(packet()))
    assert code_of(lambda: list(admit(ws.store, [item], now=ws.now))) == "TG-CLK-002"
    assert code_of(approved, ws, sheet) == "TG-CLK-002"
    assert code_of(apply_policy, ws, edited(ws), soft_signer(), op="policy.apply") == "TG-CLK-002"
    notes: list[str] = []
    settle(ws, notes.append)
    assert "days ahead" in notes[0], "by such a clock nothing expires, and reading goes on"
    assert code_of(sweep, ws) == "TG-CLK-002"
    assert ws.store.journal.log.size == size
    assert reopened(ws).store.read(sheet.id) == sheet.request, "what only reads goes on"
    clock.now -= YEARS
    assert approved(ws, sheet).id, "control: by the right clock nothing is lost"


# claim TG-C-430
def test_a_month_without_a_command_is_no_jump(ws: Workspace, clock: Clock) -> None:
    clock.now += 31 * DAY
    (first,) = take_in(ws, packet())
    clock.now += 31 * DAY + 1
    assert code_of(take_in, ws, packet("Other.")) == "TG-CLK-002"
    set_clock(ws, soft_signer())  # the clock is right: the operator signs that
    (second,) = take_in(ws, packet("Other."))
    assert ws.store.locate(first) and ws.store.locate(second)
    assert differences(ws) == []


# claim TG-C-430
def test_what_ends_something_is_written_by_any_clock(ws: Workspace, clock: Clock) -> None:
    given = approved(ws, held(ws))
    clock.now += YEARS
    approvals.revoke(ws.store, given.id)  # a human takes back a yes
    head = ws.store.journal.log.head
    assert head.time == time_of(START), "with the time of the entry before"
    clock.now -= YEARS
    assert ws.store.standing(given.id) == "revoked"
    ws.refuse_wrong_clock()


# claim TG-C-431
def test_a_log_in_the_future_is_mended_by_a_signature(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    jumped(ws, clock, YEARS)
    assert code_of(approved, ws, sheet) == "TG-CLK-001"
    found = clock_difference(ws)
    assert found is not None and found.is_back
    entry = set_clock(ws, soft_signer())
    assert (entry.kind, entry.time) == ("clock", time_of(START))
    assert clock_difference(ws) is None
    now = reopened(ws)
    given = approved(now, sheet)
    assert now.store.standing(given.id) == "accepted"
    bundle = apply_policy(now, edited(now), soft_signer(), op="policy.apply")
    assert bundle.generation == 2
    assert differences(now) == []


# claim TG-C-431
def test_a_restored_log_in_the_future_is_mended(
    ws: Workspace, clock: Clock, tmp_path: Path
) -> None:
    sheet = held(ws)
    jumped(ws, clock, YEARS)
    backup(ws, tmp_path / "a.tar")
    restore(tmp_path / "a.tar", tmp_path / "again", clock=clock)
    with closing(open_workspace(tmp_path / "again", clock=clock)) as again:
        assert code_of(approved, again, sheet) == "TG-CLK-001"
        set_clock(again, soft_signer())
        assert approved(again, sheet).id
        assert differences(again) == []


# claim TG-C-431
def test_a_backup_of_last_year_is_restored_and_confirmed(
    ws: Workspace, clock: Clock, tmp_path: Path
) -> None:
    sheet = held(ws)
    backup(ws, tmp_path / "a.tar")
    clock.now += 5 * DAY + 365 * DAY
    restore(tmp_path / "a.tar", tmp_path / "again", clock=clock)
    with closing(open_workspace(tmp_path / "again", clock=clock)) as again:
        assert again.store.read(sheet.id) == sheet.request
        assert code_of(take_in, again, packet()) == "TG-CLK-002"
        set_clock(again, soft_signer())
        take_in(again, packet())
        assert differences(again) == []


@pytest.mark.parametrize("where", ["newest segment", "long ago"])
# claim TG-C-432
def test_a_clock_entry_that_nobody_may_sign_is_found(
    ws: Workspace, clock: Clock, where: str
) -> None:
    jumped(ws, clock, SOON)
    good = set_clock(ws, soft_signer())
    assert differences(ws) == [], "control"
    with ws.store.locked() as journal:
        forged = {**good.data, "before": journal.log.head.time}
        journal.set_clock(forged, time=time_of(START - 5 * DAY))  # a signature of another entry
    clock.now = START - 5 * DAY
    if where == "newest segment":
        assert code_of(ws.refuse_wrong_clock) == "TG-CLK-003"
        assert code_of(reopened(ws).refuse_wrong_clock) == "TG-CLK-003"
    else:
        with ws.store.locked() as journal:
            journal.log.append([("test", {})] * 2 * SEGMENT_EVENTS)
    (problem,) = differences(ws)
    assert "sets the clock without a signature that counts" in problem


def signed_by(ws: Workspace, name: str) -> str:
    return code_of(set_clock, ws, soft_signer(name))


# claim TG-C-432
def test_a_key_that_ended_by_the_log_cannot_set_the_clock_back(ws: Workspace, clock: Clock) -> None:
    # It expired yesterday.  By a clock of last week it has not.
    guest, end = public_of("guest"), START + 5 * DAY
    keyring.add(ws, soft_signer(), principal="guest", key=guest, valid_before=end)
    ws = reopened(ws)
    clock.now = START + 6 * DAY
    note(ws)
    clock.now = START + DAY
    assert signed_by(ws, "guest") == "TG-KEY-005"
    assert signed_by(ws, "stranger") == "TG-KEY-003"
    assert set_clock(ws, soft_signer()).time == time_of(clock.now), "control"


# claim TG-C-432
def test_a_key_revoked_while_the_clock_was_ahead_stays_revoked(ws: Workspace, clock: Clock) -> None:
    keyring.add(ws, soft_signer(), principal="guest", key=public_of("guest"))
    ws = reopened(ws)
    request = held(ws).id
    right, clock.now = clock.now, clock.now + SOON
    keyring.revoke(ws, soft_signer(), fingerprint=public_of("guest").fingerprint, since=clock.now)
    clock.now = right
    ws = reopened(ws)
    assert signed_by(ws, "guest") == "TG-KEY-006"
    set_clock(ws, soft_signer())
    guest, sheet = (soft_signer("guest"), public_of("guest")), read_sheet(ws, request)
    assert code_of(approve, ws, sheet, *guest) == "TG-KEY-006"
    assert code_of(apply_policy, ws, edited(ws), guest[0], op="policy.apply") == "TG-KEY-006"
    states = {line.principal: line.state for line in keyring.list_keys(ws)}
    assert states == {"operator": "current", "guest": "revoked"}
    assert not ws.may_sign(public_of("guest"))
    assert approved(ws, sheet).id, "control"
    assert differences(ws) == []


# claim TG-C-432
def test_an_approval_that_expired_does_not_come_back_with_the_time(
    ws: Workspace, clock: Clock
) -> None:
    given = approved(ws, held(ws))
    jumped(ws, clock, SOON)
    assert ws.store.standing(given.id) == "accepted", "control: nobody looked at it since"
    set_clock(ws, soft_signer())
    assert ws.store.standing(given.id) == "revoked"
    assert ws.store.standing(given.request) == "held"


@pytest.mark.parametrize("entries", [0, 3 * SEGMENT_EVENTS])
# claim TG-C-432
def test_an_approval_of_the_wrong_future_is_not_given_again_when_that_comes(
    ws: Workspace, clock: Clock, entries: int
) -> None:
    sheet = held(ws, program())
    clock.now += 2 * DAY
    given = approved(ws, sheet)
    data = registry.emit(given.approval)
    signature = ws.store.read_file(approvals.ACCEPTED, f"{given.id}.sig")
    clock.now -= 2 * DAY
    set_clock(ws, soft_signer())  # ends it
    with ws.store.locked() as journal:
        journal.log.append([("test", {})] * (entries + 1))
    clock.now += 2 * DAY  # the time at which it would be valid
    note(ws)
    ws = reopened(ws)
    named = {"request_id": sheet.id, "approval": data, "signature": signature}
    assert code_of(approvals.approve, ws.store, **named) == "TG-APR-010"
    assert approved(ws, sheet).id, "control: a new one is accepted"


# claim TG-C-432
def test_the_entry_is_bound_to_its_place(ws: Workspace, clock: Clock) -> None:
    jumped(ws, clock, SOON)
    meanwhile = meddler(lambda: note(reopened(ws)))
    assert code_of(set_clock, ws, meanwhile) == "TG-USE-001", "signed for another entry"
    assert set_clock(ws, soft_signer()).kind == "clock", "control"
    assert differences(ws) == []
