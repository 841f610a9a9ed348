"""Attacks on the way from a request to its result: each was tried, and each once worked."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.support import requests
from tests.support.requests import approve_for, approved_request, live_workspace, request_for
from tests.support.workspaces import keep_blob, take_in
from tests.unit.host.review.test_approval import edit_policy
from tests.unit.host.run.test_rules import NARROWER, Endless, ran_while, write
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex, short
from threegate.artifacts.tool_request import Input
from threegate.base.errors import PolicyDenied, QuotaExceeded, UsageError
from threegate.base.limits import MAX_ERROR_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import LiteJob, LiteOutcome
from threegate.handoff import states
from threegate.handoff.admission import why_file
from threegate.handoff.approvals import approvals_by_request, deny, expire, revoke
from threegate.handoff.records import Quota, scan_usage
from threegate.host.review.sheet import read_sheet
from threegate.host.run import lifecycle, ready
from threegate.host.run.lifecycle import run_requests
from threegate.host.run.lite import LiteRun
from threegate.host.run.ready import Ready
from threegate.host.run.replay import replay
from threegate.host.run.results import Measured, make_result
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import withdraw
from threegate.host.workspace.workspace import Workspace


def _in_state(ws: Workspace, state: str) -> int:
    names = ws.store.names(states.directory_of("tr", state))
    return sum(name.endswith(".md") for name in names)


@pytest.mark.parametrize("error", [OSError(11, "fork"), MemoryError(), ValueError("a slip")])
def test_one_run_that_breaks_the_host_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(3)]
    broken = ws.store.read_bytes(ids[1])

    def answer(job: LiteJob) -> LiteRun:
        if job.request == broken:
            raise error
        return requests.ok(job)

    requests.install(monkeypatch, answer)
    with pytest.raises(type(error)):
        list(run_requests(ws, ids))
    assert len(list(ws.store.ids("res"))) == 2, "what ran has its result"
    assert (_in_state(ws, "done"), _in_state(ws, "held")) == (2, 1), "the other is a human's"
    assert _in_state(ws, "claimed") == 0


def test_an_interrupt_while_results_are_awaited_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(40)]
    requests.install(monkeypatch, requests.ok)
    plain, interrupts = lifecycle._ended, [KeyboardInterrupt()]

    def ended(ws: Workspace, item: lifecycle._Started) -> object:
        if item.ready.request_id == ids[20] and interrupts:
            raise interrupts.pop()
        return plain(ws, item)

    monkeypatch.setattr(lifecycle, "_ended", ended)
    with pytest.raises(KeyboardInterrupt):
        list(run_requests(ws, ids))
    assert not interrupts, "control: it was interrupted"
    assert len(list(ws.store.ids("res"))) == 40
    assert (_in_state(ws, "done"), _in_state(ws, "claimed")) == (40, 0)


def test_a_request_decided_meanwhile_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(3)]
    hint = approvals_by_request(ws.store)

    def make_ready(ws: Workspace, request_id: str, approvals: dict[str, list[str]]) -> Ready:
        if request_id == ids[0]:  # its time is over, and another command sees that first
            revoke(ws.store, hint[request_id][0])
            raise PolicyDenied("the approval is expired", code="TG-APR-007")
        return ready.make_ready(ws, request_id, approvals)

    requests.install(monkeypatch, requests.ok)
    monkeypatch.setattr(lifecycle, "make_ready", make_ready)
    told = {report.request_id: report for report in run_requests(ws, ids)}
    assert told[ids[0]].error is not None
    assert told[ids[0]].made is None
    assert all(told[one].made for one in ids[1:])
    assert (_in_state(ws, "held"), _in_state(ws, "done")) == (1, 2)


def test_a_box_that_answers_two_jobs_with_the_same_noise_breaks_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(2)]
    noise = Untrusted(b"not an answer")
    requests.install(monkeypatch, lambda _: LiteRun(LiteOutcome("crashed"), 1, 1, noise))
    moments = iter(range(100))
    written = lambda error, _: why_file(error, str(next(moments)))  # noqa: E731
    monkeypatch.setattr(lifecycle, "why_file", written)
    told = list(run_requests(ws, ids))
    assert [report.made.result.exit for report in told if report.made] == ["crashed"] * 2
    assert next(moments) == 2, "control: written down at two moments"
    with ws.store.locked() as journal:
        assert journal.usage.plain() == scan_usage(ws.store.directories).plain()


def _answering(outcome: LiteOutcome, _: LiteJob) -> LiteRun:
    return requests.ran(outcome)


def test_a_box_cannot_leave_more_than_was_approved_or_claim_time_it_did_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    most = request_for(ws, "0").limits.output_bytes + MAX_ERROR_BYTES
    answers = [LiteOutcome("ok", stdout=b"x" * size, cpu_ms=2**40) for size in (most, most + 1)]
    found = []
    for answer in answers:
        requests.install(monkeypatch, partial(_answering, answer))
        (report,) = run_requests(ws, [approved_request(ws, "0")])
        assert report.made is not None
        found.append(report.made.result)
    assert (found[0].exit, found[0].stdout.bytes) == ("ok", most), "control: all that may be"
    assert (found[1].exit, found[1].stdout.bytes) == ("crashed", 0)
    assert [result.resources.cpu_ms <= result.resources.wall_ms for result in found] == [True] * 2


@pytest.mark.parametrize("end", ["unspent", "revoked"])
def test_a_result_somebody_wrote_makes_nothing_run(tmp_path: Path, end: str) -> None:
    ws = live_workspace(tmp_path)
    request = request_for(ws, "6 * 7")
    (request_id,) = take_in(ws, request)
    approval_id = approve_for(ws, request)
    if end == "revoked":
        revoke(ws.store, approval_id)
    measured = Measured(ws.now(), wall_ms=1, peak_memory_bytes=1)
    ids, forged = (request_id, approval_id), LiteOutcome("ok", value=b"41")
    (brought,) = take_in(ws, make_result(request, ids, forged, measured, requests.BOX).result)
    with pytest.raises(PolicyDenied) as refused:
        replay(ws, brought)
    assert refused.value.code == "TG-LITE-003"
    again = approved_request(ws, "6 * 7", uses=3)
    (report,) = run_requests(ws, [again])
    assert report.made is not None
    assert replay(ws, report.made.id).verdict == "same", "control: what ran here is replayed"
    revoke(ws.store, approvals_by_request(ws.store)[again][0])
    assert replay(ws, report.made.id).verdict == "same", "control: it ran before the end"


def _with_quota(ws: Workspace, directory: str, files: int) -> None:
    quotas = dict(ws.store.journal.quotas)
    ws.store.journal.quotas = {**quotas, directory: Quota(files, 2**40)}


def _expire_one(ws: Workspace, request_id: str) -> None:
    expire(ws.store, [request_id])


def _deny_one(ws: Workspace, request_id: str) -> None:
    deny(ws.store, request_id, reason="no", now=ws.now())


def _revoke_one(ws: Workspace, request_id: str) -> None:
    revoke(ws.store, approvals_by_request(ws.store)[request_id][0])


@pytest.mark.parametrize(
    ("end", "state"), [(_revoke_one, "held"), (_expire_one, "expired"), (_deny_one, "denied")]
)
def test_a_full_directory_keeps_nothing_from_ending(
    tmp_path: Path, end: Callable[[Workspace, str], None], state: str
) -> None:
    ws = live_workspace(tmp_path)
    request_id = approved_request(ws, "1")
    _with_quota(ws, states.directory_of("tr", state), 0)
    _with_quota(ws, states.directory_of("tr", "held"), 0)
    with pytest.raises(QuotaExceeded):  # control: nothing begins
        take_in(ws, request_for(ws, "2"))
    end(ws, request_id)
    assert (_in_state(ws, state), _in_state(ws, "approved")) == (1, 0)


def test_when_the_results_are_full_nothing_runs_and_nothing_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(3)]
    asked: list[LiteJob] = []

    def answer(job: LiteJob) -> LiteRun:
        asked.append(job)
        return requests.ok(job)

    requests.install(monkeypatch, answer)
    _with_quota(ws, states.directory_of("res", "accepted"), 2)
    _with_quota(ws, states.QUARANTINE, 0)  # full of other things, which is no reason
    with pytest.raises(QuotaExceeded):
        list(run_requests(ws, ids))
    assert not asked
    assert _in_state(ws, "approved") == 3
    list(run_requests(ws, ids[:2]))
    assert len(asked) == 2, "control: as many as there is room for"


def test_data_is_shown_with_its_own_size_and_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    secret = b'"' + b"\xe2\x80\xae" * 100 + b'"'  # may not stand in an artifact, so it is a blob
    requests.install(monkeypatch, partial(_answering, LiteOutcome("ok", value=secret)))
    made = request_for(ws, "0", confidentiality="confidential")
    take_in(ws, made)
    approve_for(ws, made)
    (report,) = run_requests(ws, [registry.id_of(made)])
    assert report.made is not None
    size, given = len(report.made.data), Input("x", f"blob-{sha256_hex(secret)}", len(secret), None)
    asked = {
        "public": request_for(ws, "x", confidentiality="public", inputs=(given,)),
        "same level": request_for(
            ws,
            "x",
            origin="core",
            integrity="external",
            confidentiality="confidential",
            derived_from=(report.made.id,),
            inputs=(given,),
        ),
        "small": request_for(
            ws,
            "x",
            integrity="external",
            confidentiality="confidential",
            inputs=(Input("x", report.made.id, 1, None),),
        ),
    }
    shown = {}
    with closing(Index(ws.store, ws.seals)) as index:
        for name, request in asked.items():
            take_in(ws, request)
            index.catch_up()
            tool = read_sheet(ws, registry.id_of(request), index).tool
            assert tool is not None
            (shown[name],) = tool.inputs
    result = short(report.made.id)
    words = f"is external and confidential as part of {result}, and the request is not"
    assert (shown["public"].origin, shown["public"].problem) == (f"the bytes of {result}", words)
    assert shown["same level"].problem == "", "control: its labels cover it"
    assert shown["small"].problem == f"has {size} bytes"


def test_the_same_bytes_named_many_times_are_not_read_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    most = ws.bundle.integer("tool-exec", "lanes", "monty", "max", "input_bytes")
    blob = b'"' + b"x" * (most // 2) + b'"'
    digest = keep_blob(ws, blob)
    many = tuple(Input(f"x{n:02}", f"blob-{digest}", 1, None) for n in range(64))
    reads: list[str] = []
    plain = ws.store.read_file

    def read_file(directory: str, name: str) -> bytes:
        reads.append(name)
        return plain(directory, name)

    monkeypatch.setattr(ws.store, "read_file", read_file)
    requests.install(monkeypatch, requests.ok)
    one = approved_request(ws, "1", inputs=many[:1])
    reports = list(run_requests(ws, [one, approved_request(ws, "1", inputs=many)]))
    assert [report.error and report.error.code for report in reports] == ["TG-APR-016", None]
    assert reports[1].request_id == one, "control: once is within bounds"
    assert reads.count(digest) == 1 + 2


def test_what_a_box_would_not_begin_goes_back_to_the_human(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    late = LiteOutcome("refused:approval", code="TG-APR-007", message="the approval is expired")
    requests.install(monkeypatch, partial(_answering, late))
    told = list(run_requests(ws, [approved_request(ws, "1"), approved_request(ws, "2", uses=3)]))
    assert [report.made.result.exit for report in told if report.made] == [late.exit] * 2
    assert (_in_state(ws, "held"), _in_state(ws, "done"), _in_state(ws, "approved")) == (2, 0, 0)
    requests.install(monkeypatch, requests.ok)
    list(run_requests(ws, [approved_request(ws, "3")]))
    assert _in_state(ws, "done") == 1, "control: what ran is done"


def test_a_replay_is_never_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = live_workspace(tmp_path)
    (ran,) = run_requests(ws, [approved_request(ws, "6 * 7")])
    late = LiteOutcome("refused:approval", code="TG-APR-007", message="the approval is expired")
    requests.install(monkeypatch, partial(_answering, late))
    (refused,) = run_requests(ws, [approved_request(ws, "6 * 7 + 1")])
    assert ran.made is not None
    assert refused.made is not None
    assert replay(ws, ran.made.id).verdict == "same", "control: what ran is run again"
    found = replay(ws, refused.made.id)
    assert (found.verdict, found.again) == ("not-reproducible", None), "its use is spent, no more"
    assert found.why.startswith("nothing ran")


# claim TG-C-319
def test_what_a_policy_stopped_is_not_run_by_a_replay(tmp_path: Path) -> None:
    ws = live_workspace(tmp_path)
    (ran,) = run_requests(ws, [approved_request(ws, "6 * 7")])
    box, request_id = Endless(), approved_request(ws, "1")
    (stopped,) = ran_while(ws, [request_id], lambda: write(ws, NARROWER), box)
    assert ran.made is not None
    assert stopped.made is not None
    # Its rules are kept, so the box would take it: what ran to its end under them is replayed.
    assert replay(ws, ran.made.id).verdict == "same", "control"
    found = replay(ws, stopped.made.id)
    assert (found.verdict, found.again) == ("not-reproducible", None)
    assert "limit:policy" in found.why


def test_a_request_that_moves_while_it_is_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    request = request_for(ws, "1")
    (request_id,) = take_in(ws, request)
    approve_for(ws, request)
    plain, seen = ws.store.locate, [states.directory_of("tr", "held")]

    def locate(artifact_id: str) -> str | None:
        return seen.pop() if seen else plain(artifact_id)

    monkeypatch.setattr(ws.store, "locate", locate)
    assert ws.store.read_bytes(request_id) == registry.emit(request)
    assert not seen, "control: it was looked for where it had been"
    monkeypatch.setattr(ws.store, "locate", lambda _: states.directory_of("tr", "held"))
    with pytest.raises(UsageError):  # not for ever
        ws.store.read_bytes(request_id)


def test_an_approval_withdrawn_while_others_run_stops_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(40)]
    last = approvals_by_request(ws.store)[ids[-1]][0]
    withdrawn: list[str] = []

    def prove(_: lifecycle._Lane, level: str) -> None:
        """Between the first group, which was read, and the second, which was not."""
        if not withdrawn:
            with closing(Index(ws.store, ws.seals)) as index:
                withdrawn.extend(withdraw(ws, index, last, f"a mistake, {level}").ids)

    requests.install(monkeypatch, requests.ok)
    monkeypatch.setattr(lifecycle._Lane, "prove", prove)
    told = {report.request_id: report for report in run_requests(ws, ids)}
    assert withdrawn == [last], "control: it was there"
    assert told[ids[-1]].made is None
    assert all(told[one].made for one in ids[:-1])


# claim TG-C-36
def test_rules_that_change_while_requests_run_end_it_before_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes that were opened under the old rules would still say yes."""
    ws = live_workspace(tmp_path)
    ids = [approved_request(ws, f"{n}") for n in range(lifecycle.GROUP + 3)]
    proven: list[str] = []

    def prove(_: lifecycle._Lane, level: str) -> None:
        proven.append(level)
        if len(proven) == 2:
            edit_policy(ws, "wall_ms: 30s", "wall_ms: 29s")

    requests.install(monkeypatch, requests.ok)
    monkeypatch.setattr(lifecycle._Lane, "prove", prove)
    with pytest.raises(PolicyDenied, match="the policy was changed meanwhile"):
        list(run_requests(ws, ids))
    assert len(proven) == 2
    assert len(list(ws.store.ids("res"))) == lifecycle.GROUP, "control: what came before ran"
    assert (_in_state(ws, "done"), _in_state(ws, "approved")) == (lifecycle.GROUP, 3)
    spent = ws.store.names(states.directory_of("ap", "spent"))
    assert sum(name.endswith(".md") for name in spent) == lifecycle.GROUP, "no use more"
