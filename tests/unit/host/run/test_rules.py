"""What becomes of a run whose rules are replaced: followed in the log, decided by policy."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.pushing import FINISH, KEEP
from tests.support.requests import BOX, approved_request, install, live_workspace, ok, ran
from tests.support.workspaces import OPEN, soft_signer
from tests.unit.host.review.test_approval import opened
from threegate.base.errors import GateUnavailable, HandoffTampered, PolicyDenied
from threegate.gates.tool_exec.era.messages import DID_NOT_WAKE, HeavyOutcome
from threegate.gates.tool_exec.monty.messages import LiteJob, LiteOutcome
from threegate.handoff import states
from threegate.handoff.approvals import was_used
from threegate.handoff.journal import Journal
from threegate.host.policy.changes import apply_policy, edited
from threegate.host.run import lifecycle
from threegate.host.run.heavy.backend import HeavyRun
from threegate.host.run.lifecycle import Report, run_requests
from threegate.host.run.lite import LiteRun
from threegate.host.run.results import STOPPED
from threegate.host.run.rules import Rules, Running
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, open_workspace

NARROWER = ("allowed_imports: [base64, ", "allowed_imports: [")
NARROWER_YET = ("allowed_imports: [binascii, ", "allowed_imports: [")
STOP = FINISH[::-1]
OTHER_ANCHOR = ("trust_anchors: [system]", f'trust_anchors: ["sha256:{"0" * 64}"]')
OTHER_PROXY = ("proxy: own", "proxy: connect:/run/other.sock")
OTHER_SECTION = ("response_bytes: 32MiB", "response_bytes: 31MiB")


@dataclass
class Endless:
    """Boxes whose jobs run until somebody kills them, or until their patience is over."""

    patience: float = 60.0
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    killed: threading.Event = field(default_factory=threading.Event)
    box = BOX

    def run(self, job: LiteJob, *, wall_ms: int) -> LiteRun:
        assert job.request
        assert wall_ms > 0
        self.begun.release()
        if self.killed.wait(self.patience):
            return ran(LiteOutcome("crashed"))
        return ran(LiteOutcome("ok", value=b"1"))

    def kill(self) -> None:
        self.killed.set()


class Boxes:
    """As `run_requests` asks for boxes."""

    def __init__(self, one: Endless) -> None:
        self._one = one

    def box(self, _level: str) -> Endless:
        return self._one

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


def again(ws: Workspace) -> Workspace:
    """Return the workspace with the policy that is in force now."""
    found = open_workspace(ws.root, clock=ws.clock, seals=ws.seals)
    OPEN.append(found)
    return found


def ran_while(
    ws: Workspace, ids: list[str], meanwhile: Callable[[], None], box: Endless
) -> list[Report]:
    """Run requests, and do something once the first boxes are at it."""
    found: list[Report] = []
    thread = threading.Thread(
        target=lambda: found.extend(run_requests(ws, ids, lite=lambda _: Boxes(box)))
    )
    thread.start()
    for _ in range(min(lifecycle.MAX_BOXES, len(ids))):
        assert box.begun.acquire(timeout=30)
    meanwhile()
    thread.join()
    return found


def exits(reports: list[Report]) -> list[str]:
    return [
        one.made.result.exit if one.made else str(one.error and one.error.code) for one in reports
    ]


@pytest.mark.parametrize(
    ("before", "new", "ends"),
    [((), (), True), ((), (FINISH,), False), ((FINISH,), (STOP,), True), ((FINISH,), (), False)],
    ids=["stop", "stop-then-finish", "finish-then-stop", "finish"],
)
# claim TG-C-315
def test_a_run_whose_rules_are_replaced_ends_or_finishes_as_the_new_policy_says(
    ws: Workspace, before: tuple[tuple[str, str], ...], new: tuple[tuple[str, str], ...], ends: bool
) -> None:
    if before:
        write(ws, *before)
    ws = again(ws)
    request = approved_request(ws, "1")
    box = Endless(patience=60 if ends else 1)

    def meanwhile() -> None:
        write(ws, NARROWER, *new)

    (report,) = ran_while(ws, [request], meanwhile, box)
    assert exits([report]) == [STOPPED if ends else "ok"]
    assert box.killed.is_set() == ends
    assert report.made is not None
    assert was_used(ws.store, report.made.result.approval), "its use stays spent"
    assert ws.store.locate(request) == states.directory_of("tr", "done")


def write(ws: Workspace, *changes: tuple[str, str], name: str = "tool-exec.policy.md") -> None:
    """Apply several changes as one policy."""
    path = ws.root / "policy" / name
    text = path.read_text("utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text, "utf-8")
    with opened(ws) as other:
        apply_policy(other, edited(other), soft_signer(), op="policy.apply")


# claim TG-C-315
def test_what_was_claimed_and_had_not_begun_goes_back_to_a_human(ws: Workspace) -> None:
    ids = [approved_request(ws, str(number)) for number in range(lifecycle.MAX_BOXES + 2)]
    reports = ran_while(ws, ids, lambda: write(ws, NARROWER), Endless())
    ended = sorted(exits(reports))
    assert ended == ["TG-PSH-004", "TG-PSH-004", *[STOPPED] * lifecycle.MAX_BOXES]
    held = [one.request_id for one in reports if one.made is None]
    assert all(ws.store.locate(one) == states.directory_of("tr", "held") for one in held)
    spent = ws.store.names(states.directory_of("ap", "spent"))
    assert sum(name.endswith(".md") for name in spent) == len(ids), "every use"


# claim TG-C-315
def test_a_machine_that_was_stopped_before_it_woke_goes_back_to_a_human() -> None:
    mute = HeavyRun(
        HeavyOutcome(DID_NOT_WAKE, note="the guest did not wake up"),
        1,
        1,
        1,
        (),
        "0",
    )
    assert Running(lambda: None).judged(mute) is mute, "control: nobody stopped it"
    with pytest.raises(GateUnavailable) as caught:
        Running(lambda: None, stopped=True).judged(mute)
    assert caught.value.code == "TG-PSH-004"


@contextmanager
def watched(ws: Workspace) -> Iterator[tuple[Rules, Callable[[], bool]]]:
    """Follow the rules by hand; yields what looks, and what says whether a run was ended."""
    rules, ended = Rules(ws), threading.Event()
    with rules.running(ended.set) as run:
        yield rules, lambda: run.stopped and ended.is_set()
    if rules._store is not None:
        rules._store.close()


@pytest.mark.parametrize(
    ("name", "change"),
    [("tool-exec", NARROWER), ("fetch", OTHER_ANCHOR), ("fetch", OTHER_PROXY)],
    ids=["rules", "whom a gateway believes", "through whom it asks"],
)
# claim TG-C-318
def test_a_policy_ends_runs_if_it_changes_what_they_have_of_it_and_only_then(
    ws: Workspace, name: str, change: tuple[str, str]
) -> None:
    with watched(ws) as (rules, ended):
        write(ws, OTHER_SECTION, name="fetch.policy.md")
        rules._look()
        assert not ended(), "control: nothing that a run has"
        write(ws, change, name=f"{name}.policy.md")
        rules._look()
        assert ended()


# claim TG-C-318
def test_a_policy_that_was_replaced_before_anybody_looked_still_has_its_word(
    ws: Workspace,
) -> None:
    with watched(ws) as (rules, ended):
        write(ws, NARROWER, FINISH)
        rules._look()
        assert not ended(), "control: none of them says so"
        write(ws, NARROWER_YET, STOP)
        write(ws, FINISH)
        rules._look()
        assert ended()
        with pytest.raises(GateUnavailable) as caught, rules.running(lambda: None):
            pass
        assert caught.value.code == "TG-PSH-004"


class Killed(BaseException):
    """The end of a process, at any point."""


# claim TG-C-318
def test_a_policy_whose_applier_was_killed_half_way_ends_runs_as_well(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Killed

    with watched(ws) as (rules, ended):
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "_write_incoming", dies)
            with pytest.raises(Killed):
                write(ws, NARROWER)
        rules._look()
        assert not ended(), "control: not enough was written, so it never was in force"
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "_apply", dies)
            with pytest.raises(Killed):
                write(ws)
        rules._look()
        assert ended()


@pytest.mark.parametrize(("changes", "ends"), [((), True), ((KEEP,), False), ((FINISH,), False)])
# claim TG-C-318
def test_a_bad_policy_ends_runs_where_the_last_that_counted_says_quarantine_and_stop(
    ws: Workspace, changes: tuple[tuple[str, str], ...], ends: bool
) -> None:
    if changes:
        write(ws, *changes)
    ws = again(ws)
    with watched(ws) as (rules, ended):
        note(ws)
        rules._look()
        assert not ended(), "control: the log grew, and nothing is wrong"
        damage(ws)
        note(ws)
        rules._look()
        assert ended() == ends


def damage(ws: Workspace) -> None:
    """Have the workspace point to what the log did not record."""
    pointer = ws.root / "bundles/current.json"
    right = pointer.read_bytes()
    pointer.unlink()
    pointer.write_bytes(right.replace(b'"applied":', b'"applied":1'))
    pointer.chmod(0o444)


def note(ws: Workspace) -> None:
    with ws.store.locked() as journal:
        journal.log.append([("note", {})])


def test_one_that_cannot_be_killed_does_not_save_the_others(ws: Workspace) -> None:
    def refuses() -> None:
        raise PermissionError(1, "Operation not permitted")

    rules, ended = Rules(ws), threading.Event()
    with rules.running(refuses), rules.running(ended.set):
        write(ws, NARROWER)
        rules._look()
        assert ended.is_set()
    assert rules._store is not None
    rules._store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
# claim TG-C-318
def test_without_anybody_who_follows_nothing_goes_on(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = approved_request(ws, "1"), approved_request(ws, "2")
    box = Endless(patience=1)
    assert exits(ran_while(ws, [first], lambda: note(ws), box)) == ["ok"], "control"

    def broken(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    def breaks() -> None:
        monkeypatch.setattr(applied, "read_recorded_pointer", broken)
        note(ws)

    assert exits(ran_while(ws, [second], breaks, Endless())) == [STOPPED]


# claim TG-C-319
def test_a_box_cannot_say_that_its_rules_were_replaced(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = deque(("limit:memory", STOPPED))
    install(monkeypatch, lambda _: ran(LiteOutcome(said.popleft(), stdout=b"x")))
    ids = [approved_request(ws, "1"), approved_request(ws, "2")]
    found = [report for one in ids for report in run_requests(ws, [one])]
    assert exits(found) == ["limit:memory", "crashed"], "control: the other word is its own"


def test_what_ran_is_told_before_the_refusal_of_the_rest(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "GROUP", 1)
    ids = [approved_request(ws, str(number)) for number in range(3)]
    told: dict[str, Report] = {}
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        if len(asked) == 3:  # the first is claimed, the second is about to be
            write(ws, NARROWER)
        return False

    install(monkeypatch, ok)
    with pytest.raises(PolicyDenied, match="changed meanwhile"):
        for report in run_requests(ws, ids, stop=stop):
            told[report.request_id] = report
    assert exits([*told.values()]) == ["ok"]
    assert {ws.store.locate(one) for one in ids[1:]} == {states.directory_of("tr", "approved")}


# claim TG-C-314
def test_nothing_more_is_claimed_under_a_policy_that_does_not_count(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ws, KEEP)
    ws = again(ws)
    monkeypatch.setattr(lifecycle, "GROUP", 1)
    install(monkeypatch, ok)
    first, second = approved_request(ws, "1"), approved_request(ws, "2")
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        if len(asked) == 4:  # the first is claimed, the second is about to be
            damage(ws)
        return False

    told: dict[str, Report] = {}
    with pytest.raises(HandoffTampered) as caught:
        for report in run_requests(ws, [first, second], stop=stop):
            told[report.request_id] = report
    assert caught.value.code == "TG-HND-009"
    assert [*told] == [first], "control: while it counted, it ran"
    assert ws.store.locate(second) == states.directory_of("tr", "approved"), "its use is not spent"
