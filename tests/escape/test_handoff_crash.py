"""Claim: kill -9 at any point leaves the old state or the new one, never half, never lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.crash import deaths
from tests.support.stores import NOW, adopt, audited, clock, files_of, make_store
from threegate.artifacts import registry
from threegate.handoff import claims, states
from threegate.handoff.admission import admit
from threegate.handoff.journal import Put
from threegate.handoff.store import Store
from threegate.untrusted import Untrusted

Action = Callable[[Store], None]

REQUEST = samples.tool_request(inputs=())
REQUEST_ID = registry.id_of(REQUEST)
RESULT = samples.tool_result(request=REQUEST_ID)
BLOB = b"raw bytes"


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


def approve(store: Store) -> None:
    store.move(REQUEST_ID, source="held", to="approved", op="approve")


def deny(store: Store) -> None:
    store.move(REQUEST_ID, source="held", to="denied", op="deny")


def claim(store: Store) -> None:
    claims.claim(store, REQUEST_ID, reserve_bytes=4096)


def claim_and_finish(store: Store) -> None:
    claims.claim(store, REQUEST_ID, reserve_bytes=4096)
    result = registry.emit(RESULT)
    name = f"{registry.id_of(RESULT)}.md"
    put = Put("handoff/results/accepted", name, result)
    claims.finish(store, REQUEST_ID, to="done", extra=[put])


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
    "approve": ((hold,), approve),
    "deny": ((hold,), deny),
    "claim": ((hold, approve), claim),
    "claim and finish": ((hold, approve), claim_and_finish),
    "release a dead claim": ((hold, approve, claim), release),
    "replace the policy pointer": ((pointer_to("old"),), pointer_to("new")),
}


@pytest.mark.parametrize("name", SCENARIOS)
# claim TG-C-20
def test_kill_anywhere_leaves_old_or_new(name: str, tmp_path: Path) -> None:
    before, action = SCENARIOS[name]
    template, work = tmp_path / "template", tmp_path / "work"
    make_store(template)
    for step in before:
        adopt(template, step)
    steps = _states_on_the_way(template, work, action)

    def interrupted() -> None:
        store = Store.open(work, clock=clock)
        action(store)

    kills, seen = 0, set()
    for death in deaths(interrupted, lambda: _copy(template, work)):
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
