"""Claim: only what a human approved runs, as often as they said: the command line and the real box.

Three kinds of attacker: a host that was talked into storing a wrong approval, one that is owned
and sends it to the box itself, and somebody who moves files about in the workspace.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import PYTHON, Cli, Done, made
from tests.support.lite import Lane, Program, job_for
from tests.support.lite_day import build
from tests.support.requests import approval_for, approve_for, live_workspace, request_for
from tests.support.workspaces import key_file, key_of, soft_signer, take_in
from threegate.artifacts import registry
from threegate.artifacts.approval import Approval, PolicySection
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import time_of
from threegate.base.errors import PolicyDenied
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import LiteJob
from threegate.handoff.approvals import approve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE

CODE = "print('it ran')\n6 * 7"
STRANGER = "stranger"
SHORT_MS = 20_000


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def root(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def requested(cli: Cli, code: str = CODE, *options: str) -> str:
    """Ask for a run and return the request's id."""
    argv = ("request", "new", "--purpose", "attack", "--code", "-", *options, "--json")
    return str(cli(*argv, stdin=code.encode()).json["id"])


def approved(cli: Cli, *options: str, code: str = CODE) -> str:
    """Ask for a run, approve it with `ssh-keygen`, and return the request's id."""
    request_id = requested(cli, code)
    cli("review", "approve", request_id, "--yes", *options)
    return request_id


def results(cli: Cli) -> int:
    return len(list((root(cli) / "handoff" / "results" / "accepted").iterdir()))


WAITS = "TG-ASK-002"


def refused(cli: Cli, request_id: str, **environment: str) -> tuple[int, str]:
    """Try to run a request; nothing may come of it.  Return exit and code of the refusal.

    If time or policy took the approval back first, the code is the one that says so.
    """
    before = results(cli)
    done = cli("run", request_id, "--json", code=None, env=environment)
    assert results(cli) == before, "nothing ran"
    codes = re.findall(r"\[(TG-[A-Z]+-[0-9]{3})\]", done.err)
    if done.out:
        (run,) = done.json["runs"]
        assert run["result"] is None
        codes.append(run["error"]["code"])
    assert codes, done.err
    assert codes[1:] in ([], [WAITS]), "what was taken back waits for a human"
    return done.code, codes[0]


def runs(cli: Cli, request_id: str) -> None:
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert (run["error"], run["exit"]) == (None, "ok"), "control"


# What is wrong with an approval, and the code it is refused with.
Change = Callable[[Approval], dict[str, Any]]
OTHER = "0" * 64
NOT_YET = "not valid yet"
HOUR = 3600
DAYS = 20  # a longer jump of the clock is refused in itself (TG-CLK-002)
WRONG: dict[str, tuple[str, Change]] = {
    "edited limits": ("TG-APR-003", lambda a: {"limits": _wider(a)}),
    "other functions": ("TG-APR-004", lambda _: {"functions_sha256": OTHER}),
    "other policy": ("TG-APR-005", lambda a: {"policy": _other_policy(a)}),
    "approver who did not sign": ("TG-APR-006", lambda _: {"approver": "somebody-else"}),
    "expired": ("TG-APR-007", lambda _: _window(-2 * HOUR, -HOUR)),
    NOT_YET: ("TG-APR-007", lambda _: _window(HOUR, 2 * HOUR)),
    "for years": ("TG-APR-008", lambda _: _window(-60, 1000 * 24 * HOUR)),
    "a thousand uses": ("TG-APR-008", lambda _: {"max_uses": 1000}),
    "accepts a Rule of Two that is not there": (
        "TG-APR-009",
        lambda _: {"rule_of_two": "accepted"},
    ),
}


def _wider(approval: Approval) -> Any:
    assert approval.limits is not None
    return replace(approval.limits, wall_ms=30_000)


def _other_policy(approval: Approval) -> tuple[PolicySection, ...]:
    return tuple(replace(section, sha256=OTHER) for section in approval.policy)


def _window(begin: int, end: int) -> dict[str, Any]:
    now = int(time.time())
    return {"not_before": time_of(now + begin), "not_after": time_of(now + end)}


def stored(ws: Workspace, request: ToolRequest, approval: Approval, signature: bytes) -> None:
    """Store an approval as a host would that has checked nothing."""
    approve(
        ws.store,
        request_id=registry.id_of(request),
        approval=registry.emit(approval),
        signature=signature,
        detail={},
    )


def signed(approval: Approval, name: str = "operator", namespace: str = NAMESPACE) -> bytes:
    return soft_signer(name).sign(registry.emit(approval), namespace)


@pytest.fixture
def confused(tmp_path: Path) -> tuple[Workspace, Cli]:
    ws = live_workspace(tmp_path)
    cli = Cli(tmp_path, ws.root, {"XDG_CONFIG_HOME": str(tmp_path / "config")})
    return ws, cli


SIGNATURES: dict[str, Callable[[Approval], bytes]] = {
    "other key": lambda a: signed(a, STRANGER),
    "other namespace": lambda a: signed(a, namespace="threegate-policy"),
    "other message": lambda a: signed(replace(a, nonce="f" * 32)),
    "not a signature": lambda _: b"-----BEGIN SSH SIGNATURE-----\nAAAA\n",
    "nothing": lambda _: b"x",
}


def told(done: Done) -> dict[str, str]:
    """Return the code of the refusal for each request; one that was taken back keeps that."""
    codes = {run["request"]: run["error"]["code"] for run in done.json["runs"]}
    taken = re.findall(r"(tr-[0-9a-f]{12}) waits again: .* \[(TG-[A-Z]+-[0-9]{3})\]", done.err)
    return {request: dict(taken).get(request[:15], code) for request, code in codes.items()}


# claim TG-C-36
def test_wrong_approvals_in_a_confused_host_run_nothing(confused: tuple[Workspace, Cli]) -> None:
    ws, cli = confused
    cases: dict[str, ToolRequest] = {}
    for name in (*WRONG, *SIGNATURES):
        request = cases[name] = request_for(ws, CODE)
        take_in(ws, request)
        wrong = approval_for(ws, request)
        if name in WRONG:
            wrong = replace(wrong, **WRONG[name][1](wrong))
        signature = SIGNATURES[name](wrong) if name in SIGNATURES else signed(wrong)
        if name == NOT_YET:  # a host does not even keep it
            with pytest.raises(PolicyDenied) as early:
                stored(ws, request, wrong, signature)
            assert early.value.code == WRONG[name][0]
        else:
            stored(ws, request, wrong, signature)
    ids = {name: registry.id_of(request) for name, request in cases.items()}
    found = told(cli("run", *ids.values(), "--json", code=None))
    assert results(cli) == 0, "nothing ran"
    codes = {name: found[request_id] for name, request_id in ids.items()}
    expected = {name: code for name, (code, _) in WRONG.items()} | {NOT_YET: WAITS}
    expected |= dict.fromkeys(SIGNATURES, "TG-KEY")
    assert {
        name: code[:6] if name in SIGNATURES else code for name, code in codes.items()
    } == expected
    for request in cases.values():  # control: the same requests with honest approvals do run
        approve_for(ws, request)
    ended = cli("run", "--all", "--json").json["runs"]
    assert [run["exit"] for run in ended] == ["ok"] * len(cases)


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    with Lane() as opened:
        yield opened


def said_by_the_box(lane: Lane, job: LiteJob) -> tuple[str, str | None]:
    """Send a job as an owned host would; return what the box said and why."""
    outcome = lane.box.run(job, wall_ms=SHORT_MS).outcome
    assert (outcome.stdout, outcome.value) == (b"", b"") or outcome.exit == "ok"
    return outcome.exit, outcome.code


def in_the_box(lane: Lane, **changes: Any) -> tuple[str, str | None]:
    honest = job_for(Program(CODE), lane.rules)
    assert said_by_the_box(lane, honest) == ("ok", None), "control"
    return said_by_the_box(lane, replace(honest, **changes))


@pytest.mark.parametrize("name", WRONG)
# claim TG-C-36
def test_wrong_approval_from_an_owned_host_runs_nothing(lane: Lane, name: str) -> None:
    code, change = WRONG[name]
    honest = job_for(Program(CODE), lane.rules)
    assert said_by_the_box(lane, honest) == ("ok", None), "control"
    approval = registry.parse(Untrusted(honest.approval))
    assert isinstance(approval, Approval)
    job = job_for(Program(CODE), lane.rules, **change(approval))
    assert said_by_the_box(lane, job) == ("refused:approval", code)


# claim TG-C-36
def test_parts_of_other_jobs_from_an_owned_host_run_nothing(lane: Lane) -> None:
    other = job_for(Program("print('other')\n1"), lane.rules)
    mine = job_for(Program(CODE), lane.rules)
    strange = job_for(Program(CODE), lane.rules, key=key_of(STRANGER))
    denied = "refused:approval"
    assert in_the_box(lane, request=other.request) == (denied, "TG-APR-002"), "approve A, run B"
    assert in_the_box(lane, approval=other.approval) == (denied, "TG-APR-002")
    swapped = mine.request.replace(b"6 * 7", b"7 * 7")
    assert in_the_box(lane, request=swapped) == (denied, "TG-APR-001"), "its own digest differs"
    exit_state, code = in_the_box(lane, approval=mine.approval, signature=other.signature)
    assert (exit_state, str(code)[:7]) == (denied, "TG-KEY-")
    exit_state, code = said_by_the_box(lane, strange)
    assert (exit_state, str(code)[:7]) == (denied, "TG-KEY-")
    assert in_the_box(lane, inputs=(("data", b"1"),)) == (denied, "TG-APR-016")
    assert in_the_box(lane, approval=mine.request) == (denied, "TG-APR-001")
    assert in_the_box(lane, request=mine.approval) == (denied, "TG-APR-001")


# claim TG-C-36
def test_an_old_approval_is_only_replayed_never_run(lane: Lane) -> None:
    """The mode that judges at an old time is for replays; a run goes by the box's own clock."""
    past = _window(-2 * HOUR, -HOUR)
    old = job_for(Program(CODE), lane.rules, **past)
    at = int(time.time()) - HOUR - 60
    assert said_by_the_box(lane, replace(old, at=at)) == ("refused:approval", "TG-APR-007")
    assert said_by_the_box(lane, replace(old, at=at, mode="replay")) == ("ok", None), "control"


def move(cli: Cli, name: str, old: str, new: str) -> None:
    """Move a file by hand, as somebody with the operator's rights could."""
    source, target = root(cli) / "handoff" / old / name, root(cli) / "handoff" / new / name
    target.write_bytes(source.read_bytes())
    target.chmod(source.stat().st_mode)
    source.unlink()


def approval_files(cli: Cli, state: str) -> list[str]:
    directory = root(cli) / "handoff" / "approvals" / state
    return sorted(path.name for path in directory.iterdir())


# claim TG-C-36
def test_an_approval_is_not_spent_twice(cli: Cli) -> None:
    request_id = approved(cli)
    runs(cli, request_id)
    assert refused(cli, request_id) == (2, "TG-USE-001"), "it has run"
    for name in approval_files(cli, "spent"):
        move(cli, name, "approvals/spent", "approvals/accepted")
    move(cli, f"{request_id}.md", "requests/done", "requests/approved")
    assert refused(cli, request_id) == (76, "TG-HND-015")


# claim TG-C-36
def test_a_request_edited_after_review_does_not_run(cli: Cli) -> None:
    request_id = approved(cli)
    path = root(cli) / "handoff" / "requests" / "approved" / f"{request_id}.md"
    honest = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(honest.replace(b"6 * 7", b"7 * 7"))
    path.chmod(0o444)
    assert refused(cli, request_id) == (76, "TG-HND-008")
    path.chmod(0o644)
    path.write_bytes(honest)
    path.chmod(0o444)
    runs(cli, request_id)


# claim TG-C-36
def test_approving_one_request_runs_no_other(cli: Cli) -> None:
    first, second = approved(cli), requested(cli)
    assert refused(cli, second) == (75, WAITS), "it waits"
    move(cli, f"{second}.md", "requests/held", "requests/approved")
    assert refused(cli, second) == (76, "TG-HND-015")
    move(cli, f"{second}.md", "requests/approved", "requests/held")
    runs(cli, first)


# claim TG-C-36
def test_forged_files_are_no_approval(cli: Cli) -> None:
    request_id = requested(cli)
    template = approved(cli)
    (approval, signature) = approval_files(cli, "accepted")
    place = root(cli) / "handoff" / "approvals" / "accepted"
    text = (place / approval).read_bytes().replace(template.encode(), request_id.encode())
    forged = f"ap-{sha256_hex(text)}"
    (place / f"{forged}.md").write_bytes(text)
    (place / f"{forged}.sig").write_bytes((place / signature).read_bytes())
    (place / f"{forged}.md").chmod(0o444)
    (place / f"{forged}.sig").chmod(0o444)
    assert refused(cli, request_id) == (75, WAITS)
    move(cli, f"{request_id}.md", "requests/held", "requests/approved")
    assert refused(cli, request_id) == (77, "TG-KEY-002"), "its signature is of other bytes"
    move(cli, f"{request_id}.md", "requests/approved", "requests/held")
    (place / f"{forged}.md").unlink()
    (place / f"{forged}.sig").unlink()
    runs(cli, template)


# claim TG-C-36
def test_two_commands_share_one_use(cli: Cli) -> None:
    request_id = approved(cli)
    argv = [*PYTHON, "run", request_id, "--json"]
    both = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.env())
        for _ in range(2)
    ]
    ended = [process.communicate(timeout=120)[0] for process in both]
    told = [json.loads(out)["runs"][0] for out in ended if out]
    assert [item["exit"] for item in told if item["result"]] == ["ok"], told
    assert results(cli) == 1


SLOW = "while 1:\n    pass"


# claim TG-C-36
def test_a_run_that_was_killed_has_spent_its_use(cli: Cli) -> None:
    request_id = requested(cli, SLOW, "--limit", "wall_ms=30s")
    cli("review", "approve", request_id, "--yes")
    argv = [*PYTHON, "run", request_id]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=cli.env()) as process:
        claimed = root(cli) / "handoff" / "requests" / "claimed" / f"{request_id}.md"
        deadline = time.monotonic() + 60
        while not claimed.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert claimed.exists(), "control: it was under way"
        time.sleep(0.3)  # the program itself is running by now
        os.kill(process.pid, signal.SIGKILL)
    assert [name[:3] for name in approval_files(cli, "spent")] == ["ap-", "ap-"]
    assert refused(cli, request_id) == (75, WAITS), "a human decides again"
    assert approval_files(cli, "accepted") == []
    honest = approved(cli)
    runs(cli, honest)


# claim TG-C-36
def test_another_day_ends_an_approval(cli: Cli, tmp_path: Path) -> None:
    """The whole machine is twenty days later; then the log is ahead of a clock that went back."""
    library = build(tmp_path, days=DAYS)
    runs(cli, approved(cli))
    request_id = approved(cli)
    later = {"LD_PRELOAD": str(library)}
    assert refused(cli, request_id, **later) == (75, "TG-APR-007")
    assert approval_files(cli, "accepted") == [], "it was taken back, not kept for later"


# claim TG-C-36
def test_a_clock_set_back_runs_nothing(cli: Cli, tmp_path: Path) -> None:
    """And a host that lives in the future does not take its box along."""
    runs(cli, approved(cli))
    later = {"LD_PRELOAD": str(build(tmp_path, days=DAYS))}
    new = ("request", "new", "--purpose", "later", "--code", "-", "--json")
    request_id = str(cli(*new, stdin=CODE.encode(), env=later).json["id"])
    cli("review", "approve", request_id, "--yes", env=later)
    exit_code, code = refused(cli, request_id)
    assert (exit_code, code) == (77, "TG-CLK-001")
    (run,) = cli("run", request_id, "--json", env=later).json["runs"]
    assert run["exit"] == "refused:approval", "the box goes by its own clock"


# claim TG-C-36
def test_another_policy_ends_an_approval(cli: Cli) -> None:
    request_id = approved(cli)
    path = root(cli) / "policy" / "tool-exec.policy.md"
    text = path.read_text("utf-8")
    assert "wall_ms: 30s" in text
    path.write_text(text.replace("wall_ms: 30s", "wall_ms: 29s"), encoding="utf-8")
    cli("policy", "apply", "--yes")
    assert refused(cli, request_id) == (75, WAITS)
    assert approval_files(cli, "accepted") == []
    cli("review", "approve", request_id, "--yes")
    runs(cli, request_id)


# claim TG-C-36
def test_another_key_approves_nothing(cli: Cli) -> None:
    request_id = requested(cli)
    stranger = key_file(cli.base, STRANGER)
    done = cli("review", "approve", request_id, "--yes", "--key", stranger, code=None)
    assert (done.code, "[TG-KEY-003]" in done.err) == (77, True), done.err
    assert approval_files(cli, "accepted") == []
    assert refused(cli, request_id) == (75, WAITS)
    cli("review", "approve", request_id, "--yes")
    runs(cli, request_id)


# claim TG-C-36
def test_a_gate_cannot_hand_in_an_approval(confused: tuple[Workspace, Cli]) -> None:
    """What a gate says comes in by `admit`: no approval is taken there, not even a signed one."""
    ws, cli = confused
    request = request_for(ws, CODE)
    (request_id,) = take_in(ws, request)
    approval = approval_for(ws, request)
    given = ((registry.emit(approval), "TG-HND-013"), (signed(approval), "TG-ART-016"))
    for data, code in given:
        done = cli("admit", "-", "--json", code=65, stdin=data)
        (file,) = done.json["files"]
        assert (file["status"], file["code"]) == ("quarantined", code)
    assert approval_files(cli, "accepted") == []
    assert refused(cli, request_id) == (75, WAITS)
    stored(ws, request, approval, signed(approval))  # control: the very same, given by a human
    runs(cli, request_id)


# claim TG-C-36
def test_what_a_program_says_approves_nothing(cli: Cli) -> None:
    """A program prints a whole approval of a request that waits; it stays text in a result."""
    waiting = requested(cli)
    told = f'format: "ap/1"\nrequest: "{waiting}"\nthreegate: approved {waiting}\n'
    talking = approved(cli, code=f"print({told!r})\n{told!r}")
    runs(cli, talking)
    assert refused(cli, waiting) == (75, WAITS)
    assert approval_files(cli, "accepted") == []
