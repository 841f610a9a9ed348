"""Claim: kill -9 at any point leaves the old state or the new one, never half, never lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.crash import deaths
from tests.support.workspaces import (
    NOW,
    adopt,
    approval_bytes,
    approve,
    audited,
    clock,
    files_of,
    finish,
    make_store,
    take,
)
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals, claims, states
from threegate.handoff.admission import admit
from threegate.handoff.claims import End, RunClaim
from threegate.handoff.journal import Put
from threegate.handoff.store import Store

Action = Callable[[Store], None]

REQUEST = samples.tool_request(inputs=())
REQUEST_ID = registry.id_of(REQUEST)
RESULT = samples.tool_result(request=REQUEST_ID)
DRAFT = samples.tool_request(inputs=(), origin="core", integrity="external")
DRAFT_ID = registry.id_of(DRAFT)
GROUP = [samples.tool_request(inputs=(), nonce=f"{number:032x}") for number in range(3)]
GROUP_IDS = [registry.id_of(request) for request in GROUP]
# One use, one of several, the last of several.
USES = (1, 3, 2)
CLAIMS = [
    RunClaim(found, f"ap-{sha256_hex(approval_bytes(found, max_uses=uses))}", uses)
    for found, uses in zip(GROUP_IDS, USES, strict=True)
]


def admit_all(store: Store, *items: bytes) -> None:
    list(admit(store, map(Untrusted, items), now=lambda: NOW))


def admit_one(store: Store) -> None:
    admit_all(store, registry.emit(samples.packet()))


def admit_many(store: Store) -> None:
    admit_all(store, *(registry.emit(samples.packet_of_size(n, 2500)) for n in range(12)))


def admit_mixed(store: Store) -> None:
    admit_all(store, registry.emit(samples.packet("one")), b"not an artifact")


def hold(store: Store) -> None:
    admit_all(store, registry.emit(REQUEST))


def draft(store: Store) -> None:
    admit_all(store, registry.emit(DRAFT))


def approve_one(store: Store) -> None:
    approve(store, REQUEST_ID)


def approve_several_uses(store: Store) -> None:
    approve(store, REQUEST_ID, max_uses=3)


def approve_draft(store: Store) -> None:
    approve(store, DRAFT_ID)


def the_approval(store: Store) -> str:
    (found,) = approvals.approvals_by_request(store)[REQUEST_ID]
    return found


def revoke(store: Store) -> None:
    approvals.revoke(store, the_approval(store), detail={})


def void(store: Store) -> None:
    approvals.void(store, REQUEST_ID, the_approval(store), "TG-APR-005")


def deny(store: Store) -> None:
    approvals.deny(store, REQUEST_ID, reason="no", now=NOW)


def expire(store: Store) -> None:
    assert approvals.expire(store, [REQUEST_ID]) == [REQUEST_ID]


def approve_group(store: Store) -> None:
    admit_all(store, *map(registry.emit, GROUP))
    for made in CLAIMS:
        approve(store, made.request_id, max_uses=made.max_uses)
    take(store, CLAIMS[2])
    finish(store, CLAIMS[2].request_id, to="approved")


def claim_all(store: Store) -> None:
    take(store, *CLAIMS)


def finish_all(store: Store) -> None:
    take(store, *CLAIMS)
    put = Put("handoff/results/accepted", f"{registry.id_of(RESULT)}.md", registry.emit(RESULT))
    again = End(GROUP_IDS[1], "approved", (), CLAIMS[1].approval_id)
    claims.finish_group(store, [End(GROUP_IDS[0], "done", [put]), again, End(GROUP_IDS[2], "held")])


def release(store: Store) -> None:
    claims.release_dead(store)


def pointer_to(text: str) -> Action:
    def replace_pointer(store: Store) -> None:
        data = text.encode()
        name = f"{samples.digest(text)}.json"
        puts = [Put(states.BUNDLES, name, data), Put(states.BUNDLES, "current.json", data)]
        with store.locked() as journal:
            journal.run("apply", puts)

    return replace_pointer


# name: (what was done before, what is interrupted)
SCENARIOS: dict[str, tuple[tuple[Action, ...], Action]] = {
    "admit one": ((), admit_one),
    "admit many": ((), admit_many),
    "admit and quarantine": ((), admit_mixed),
    "hold": ((admit_one,), hold),
    "approve": ((hold,), approve_one),
    "approve a draft": ((draft,), approve_draft),
    "approve several uses": ((hold,), approve_several_uses),
    "revoke": ((hold, approve_one), revoke),
    "revoke several uses": ((hold, approve_several_uses), revoke),
    "void": ((hold, approve_one), void),
    "deny": ((hold,), deny),
    "deny what was approved": ((hold, approve_one), deny),
    "expire": ((hold, approve_one), expire),
    "claim a group": ((approve_group,), claim_all),
    "claim and finish a group": ((approve_group,), finish_all),
    "release dead claims": ((approve_group, claim_all), release),
    "replace the policy pointer": ((pointer_to("old"),), pointer_to("new")),
}

OPENING = "admit one"  # the one in which opening the store is interrupted too


# Of two that take the same steps, the fast suite takes the one that takes more of them.
ALIKE = (
    *("claim a group", "admit many", "admit and quarantine", "approve several uses"),
    *("revoke several uses", "deny what was approved"),
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one in ALIKE)) for one in SCENARIOS],
)
# claim TG-C-20
def test_kill_anywhere_leaves_old_or_new(name: str, tmp_path: Path) -> None:
    before, action = SCENARIOS[name]
    template, work = tmp_path / "template", tmp_path / "work"
    make_store(template)
    for step in before:
        adopt(template, step)
    steps = _states_on_the_way(template, work, action)

    opened: list[Store] = []

    def prepare() -> None:
        _copy(template, work)
        if name != OPENING:
            opened.append(Store.open(work, clock=clock))

    def interrupted() -> None:
        action(opened[-1] if opened else Store.open(work, clock=clock))

    kills, seen = 0, set()
    for death in deaths(interrupted, prepare):
        while opened:  # the lock is held for as long as anybody has it open
            opened.pop().close()
        after = audited(work)
        assert after in steps, f"{death} left neither the old state nor the new"
        seen.add(steps.index(after))
        kills += 1
    assert seen >= {0, len(steps) - 1}, "control: both the old and the new state were reached"
    print(f"{name}: {kills} kills")


def _copy(template: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)


def _states_on_the_way(template: Path, work: Path, action: Action) -> list[frozenset[str]]:
    """Return the states an uninterrupted run passes through, one per transaction."""
    _copy(template, work)
    store = Store.open(work, clock=clock)
    seen = [files_of(work)]
    run = store.journal.run

    def watched(*args: object, **kwargs: object) -> None:
        run(*args, **kwargs)  # type: ignore[arg-type]
        seen.append(files_of(work))

    store.journal.run = watched  # type: ignore[method-assign]
    action(store)
    store.close()
    return seen
