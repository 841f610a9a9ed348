"""Approving: exactly what was shown, under the rules in force, by somebody who may."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.requests import Meddler, approved, drafted, held, meddler, program
from tests.support.samples import box, escalated, fetch_request
from tests.support.sshlab import Forge, Key
from tests.support.workspaces import (
    START,
    Clock,
    SoftSigner,
    files_below,
    make_workspace,
    public_of,
    soft_signer,
    ssh_signer,
)
from threegate.artifacts import registry
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import sha256_hex
from threegate.audit.entry import unix_of
from threegate.base.errors import ThreeGateError, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import uses_left
from threegate.host.policy import keyring
from threegate.host.policy.changes import apply_policy, edited
from threegate.host.review.approval import Terms, approve
from threegate.host.review.decisions import deny
from threegate.host.review.sheet import read_sheet
from threegate.host.workspace import applied
from threegate.host.workspace.text_form import entry_line, how_given
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys.public import parse_key_blob
from threegate.policy.approvals import Presented, check_approval
from threegate.policy.bundle import functions_sha256


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path, clock=clock)) as found:
        yield found


def refused(act: Callable[[], object], ws: Workspace) -> str:
    """Return the code of a refusal that left nothing behind; then the honest way works."""
    before = approvals_in(ws)
    with pytest.raises(ThreeGateError) as refusal:
        act()
    assert approvals_in(ws) == before, "nothing was kept"
    with opened(ws) as now:
        assert approved(now, held(now, program(nonce=secrets.token_hex(16)))).id, "control"
    return refusal.value.code


def opened(ws: Workspace) -> "closing[Workspace]":
    """Open the workspace once more, as another command would."""
    return closing(open_workspace(ws.root, clock=ws.clock, seals=ws.seals))


def in_force(ws: Workspace) -> Workspace:
    """Return the workspace under the policy that was applied last."""
    with ws.store.locked():
        return replace(ws, bundle=applied.read_current(ws.store))


def approvals_in(ws: Workspace) -> set[str]:
    return {name for name in files_below(ws.root) if "/approvals/" in name}


def edit_policy(ws: Workspace, old: str, new: str, name: str = "tool-exec.policy.md") -> None:
    path = ws.root / "policy" / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with opened(ws) as other:
        apply_policy(other, edited(other), soft_signer(), op="policy.apply")


def test_an_approval_names_what_was_shown(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    given = approved(ws, sheet)
    stored = ws.store.read(given.id)
    assert stored == given.approval
    assert isinstance(stored, Approval)
    assert stored.request == sheet.id == f"tr-{sha256_hex(sheet.data)}"
    assert stored.limits == getattr(sheet.request, "limits", None)
    assert stored.functions_sha256 == functions_sha256(ws.bundle)
    assert {part.name: part.sha256 for part in stored.policy} == {
        name: ws.bundle.section_digest(name) for name in ("signers", "tool-exec")
    }
    assert (stored.max_uses, stored.network, stored.rule_of_two) == (1, "none", "not-triggered")
    assert unix_of(stored.not_before) == clock.now
    assert unix_of(stored.not_after) - clock.now == 3600
    assert read_sheet(ws, sheet.id).state == "approved"


def test_the_executor_accepts_it(ws: Workspace) -> None:
    sheet = held(ws)
    given = approved(ws, sheet)
    signature = ws.store.read_file("handoff/approvals/accepted", f"{given.id}.sig")
    presented = Presented(sheet.data, registry.emit(given.approval), signature)
    checked = check_approval(
        presented, ws.bundle, at=START, functions_sha256=functions_sha256(ws.bundle)
    )
    assert checked.approval_id == given.id


def test_the_statement_says_in_words_what_it_permits(ws: Workspace) -> None:
    said = approved(ws, held(ws), Terms(uses=3)).approval.statement.open_for_display()
    for words in ("Run the code of tr-", "3 times", "in the lane monty", "wall time 1s"):
        assert words in said
    assert "json_loads, sha256_hex" in said
    assert "Network: none" in said
    assert "external input, confidential data and network do not come together" in said


def test_the_statement_holds_no_foreign_words(ws: Workspace) -> None:
    said = box("APPROVE EVERYTHING")
    sheet = held(ws, program("# APPROVE EVERYTHING\nx = 1\n", purpose=said, risks=said))
    assert "EVERYTHING" in sheet.purpose, "control"
    given = approved(ws, sheet)
    assert "EVERYTHING" not in given.approval.statement.open_for_display()


def test_a_draft_of_core_and_a_fetch_can_be_approved(ws: Workspace) -> None:
    draft = held(ws, drafted(program()))
    assert draft.state == "draft"
    approved(ws, draft)
    assert read_sheet(ws, draft.id).state == "approved"
    fetch = held(ws, fetch_request())
    given = approved(ws, fetch)
    assert (given.approval.backend, given.approval.limits) == ("fetch", None)
    assert "Ask for the 1 reference" in given.approval.statement.open_for_display()


def test_uses_and_lifetime_within_policy(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    given = approved(ws, sheet, Terms(uses=5, seconds=1800))
    assert unix_of(given.approval.not_after) - clock.now == 1800
    assert uses_left(ws.store, given.approval, given.id) == 5


@pytest.mark.parametrize(
    "terms", [Terms(uses=0), Terms(uses=10_000), Terms(seconds=0), Terms(seconds=10**9)]
)
def test_more_than_policy_allows_is_refused_with_the_rule(ws: Workspace, terms: Terms) -> None:
    sheet = held(ws)
    with pytest.raises(UsageError, match=r"policy/handoff\.policy\.md:[0-9]+ allows"):
        approved(ws, sheet, terms)
    assert approved(ws, sheet).id, "control"


# claim TG-C-102
def test_two_requests_never_share_an_approval(ws: Workspace) -> None:
    first, second = held(ws), held(ws, program(nonce="e" * 32))
    swapped = replace(first, data=second.data, request=second.request)
    assert refused(lambda: approved(ws, swapped), ws) == "TG-APR-013"


# claim TG-C-102
def test_a_sheet_that_shows_other_code_is_not_signed(ws: Workspace) -> None:
    sheet = held(ws)
    code = "x = 'something else'\n"
    other = program(code)
    forged = replace(sheet, data=registry.emit(other), request=other)
    assert refused(lambda: approved(ws, forged), ws) == "TG-APR-013"


# claim TG-C-102
def test_request_edited_on_disk_while_the_human_signs(ws: Workspace) -> None:
    sheet = held(ws)
    path = ws.root / "handoff/requests/held" / f"{sheet.id}.md"

    def edit() -> None:
        path.chmod(0o644)
        path.write_bytes(sheet.data.replace(b"1.1", b"9.9"))
        path.chmod(0o444)

    code = refused(lambda: approve(ws, sheet, meddler(edit), public_of()), ws)
    assert code == "TG-HND-008"


# claim TG-C-102
def test_request_decided_while_the_human_signs(ws: Workspace) -> None:
    sheet = held(ws)

    def decide() -> None:
        with opened(ws) as other:
            deny(other, sheet.id, "no")

    code = refused(lambda: approve(ws, sheet, meddler(decide), public_of()), ws)
    assert code == "TG-APR-012"
    assert read_sheet(ws, sheet.id).state == "denied"


def test_an_approved_request_is_not_approved_again(ws: Workspace) -> None:
    sheet = held(ws)
    approved(ws, sheet)
    assert refused(lambda: approved(ws, sheet), ws) == "TG-APR-012"


# claim TG-C-103
def test_policy_changed_before_or_while_the_human_signs(ws: Workspace) -> None:
    sheet = held(ws)
    change = meddler(lambda: edit_policy(ws, "wall_ms: 30s", "wall_ms: 29s"))
    assert refused(lambda: approve(ws, sheet, change, public_of()), ws) == "TG-APR-014"
    with pytest.raises(ThreeGateError) as again:
        approved(ws, sheet)
    assert again.value.code == "TG-APR-014", "the sheet was judged by the old rules"


@pytest.mark.parametrize("given", ["--yes", "terminal", "console"])
# claim TG-C-436
def test_the_log_keeps_how_an_approval_was_given_and_by_what_kind_of_key(
    ws: Workspace, tmp_path: Path, given: str
) -> None:
    kept = approve(ws, held(ws), ssh_signer(tmp_path, ws.root), public_of(), given=given)
    log = ws.store.journal.log
    assert how_given(log, kept.id) == {"given": given, "key_kind": "plain-file"}
    shown = [
        entry_line(entry) for entry in log.entries() if f"put {kept.id}.md" in entry_line(entry)
    ]
    assert shown[0].endswith(f"given by {given}, key: plain-file")
    unsaid = approved(ws, held(ws, program(nonce="f" * 32)))  # control: nothing is made up
    assert how_given(log, unsaid.id) == {"given": "unknown", "key_kind": "unknown"}


# claim TG-C-103
def test_clock_behind_the_log_signs_nothing(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    clock.now -= 86_400
    with pytest.raises(ThreeGateError) as refusal:
        approved(ws, sheet)
    assert refusal.value.code == "TG-CLK-001"
    clock.now += 86_400
    assert approved(ws, sheet).id, "control"


# claim TG-C-103
def test_clock_set_back_while_the_human_signs(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)

    def set_back() -> None:
        clock.now -= 86_400

    with pytest.raises(ThreeGateError) as refusal:
        approve(ws, sheet, meddler(set_back), public_of())
    assert refusal.value.code == "TG-CLK-001"
    clock.now += 86_400
    assert approvals_in(ws) == set()
    assert approved(ws, sheet).id, "control"


# claim TG-C-103
def test_signer_that_is_not_allowed(ws: Workspace) -> None:
    sheet = held(ws)
    stranger = soft_signer("stranger")
    code = refused(lambda: approve(ws, sheet, stranger, public_of("stranger")), ws)
    assert code == "TG-KEY-003"
    # The name of the operator does not help a stranger's key.
    code = refused(lambda: approve(ws, read_sheet(ws, sheet.id), stranger, public_of()), ws)
    assert code == "TG-KEY-003"


# claim TG-C-103
def test_signer_for_other_purposes_only(ws: Workspace) -> None:
    keyring.add(
        ws,
        soft_signer(),
        principal="auditor",
        key=public_of("auditor"),
        namespaces=("threegate-checkpoint",),
    )
    again = in_force(ws)
    sheet = held(again)
    asked: list[str] = []
    signer, key = Meddler(lambda: asked.append("x"), soft_signer("auditor")), public_of("auditor")
    assert refused(lambda: approve(again, sheet, signer, key), again) == "TG-KEY-004"
    assert asked == [], "nobody is asked for a signature that would not count"


# claim TG-C-103
def test_what_policy_denies_cannot_be_approved(ws: Workspace) -> None:
    heavy = held(ws, escalated("files", inputs=(), profile="python"))
    assert refused(lambda: approved(ws, heavy), ws) == "TG-POL-001"
    unlisted = held(ws, fetch_request(references=(box("https://evil.example.org/x"),)))
    assert refused(lambda: approved(ws, unlisted), ws) == "TG-POL-001"


# claim TG-C-103
def test_rule_of_two_is_refused_or_accepted_by_name(ws: Workspace) -> None:
    request = drafted(fetch_request(references=(box("doi:10.5555/1"),)))
    joined = replace(request, confidentiality="confidential")
    sheet = held(ws, joined)
    terms = Terms(accept_rule_of_two=True)
    assert refused(lambda: approved(ws, sheet, terms), ws) == "TG-APR-009"
    edit_policy(ws, "rule_of_two: refuse", "rule_of_two: allow-if-approved")
    again = in_force(ws)
    with pytest.raises(ThreeGateError) as silent:
        approved(again, read_sheet(again, sheet.id))
    assert (silent.value.code, "--accept-rule-of-two" in silent.value.hint) == ("TG-APR-009", True)
    given = approved(again, read_sheet(again, sheet.id), terms)
    assert given.approval.rule_of_two == "accepted"
    assert "together, accepted" in given.approval.statement.open_for_display()


def test_what_waited_too_long_is_not_approved(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    clock.now += 8 * 86_400
    with pytest.raises(ThreeGateError) as refusal:
        approved(ws, sheet)
    assert refusal.value.code == "TG-APR-012"
    clock.now -= 8 * 86_400


def test_a_token_approves_when_it_was_touched(ws: Workspace) -> None:
    token = Key(b"\x07" * 32, on_token=True)
    key = parse_key_blob(token.blob)
    keyring.add(ws, soft_signer(), principal="ada", key=key)
    again = in_force(ws)
    given = approve(again, held(again), SoftSigner(token), key)
    assert (given.approval.approver, given.fingerprint) == ("ada", token.fingerprint)

    class Untouched(SoftSigner):
        def sign(self, message: bytes, namespace: str) -> bytes:
            forge = Forge(self.key, message=message, namespace=namespace.encode(), flags=0)
            return forge.armored()

    sheet = held(again, program(nonce="e" * 32))
    assert refused(lambda: approve(again, sheet, Untouched(token), key), again) == "TG-KEY-008"


def test_each_approval_has_a_nonce_of_its_own(ws: Workspace) -> None:
    first = approved(ws, held(ws))
    second = approved(ws, held(ws, program(nonce="e" * 32)))
    assert first.approval.nonce != second.approval.nonce
    assert registry.parse(Untrusted(registry.emit(first.approval))) == first.approval
