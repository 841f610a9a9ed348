"""`threegate withdraw`: an artifact and everything made from it go to quarantine.

The root goes first: from then on nothing new can be made from it, because admission asks
for every source.  What follows goes in batches; run again after a crash, it completes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.text import first_forbidden, quote
from threegate.handoff import states
from threegate.handoff.admission import WITHDRAWN, why_file
from threegate.handoff.claims import release_dead
from threegate.handoff.journal import MAX_BATCH, Act, Move, Put
from threegate.handoff.store import Store
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import is_forgotten, place_of
from threegate.host.workspace.workspace import Workspace

MAX_REASON_CHARS: Final = 500
ACTS_EACH: Final = 4  # an approval, its signature, its uses, the reason
IDS_PER_BATCH: Final = MAX_BATCH // ACTS_EACH


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What went to quarantine in this run, the root first."""

    ids: tuple[str, ...]


def withdraw(ws: Workspace, index: Index, artifact_id: str, reason: str) -> Withdrawn:
    """Quarantine an artifact and all derived from it; raise `UsageError` if one is running."""
    error = ArtifactRejected(checked_reason(reason), code=WITHDRAWN)
    why = why_file(error, ws.now())
    release_dead(ws.store)
    withdrawn: list[str] = []
    while found := remaining(ws.store, index, artifact_id):
        refuse_claimed(ws.store, found)
        for start in range(0, len(found), IDS_PER_BATCH):
            batch = found[start : start + IDS_PER_BATCH]
            withdrawn += _withdraw_batch(ws.store, batch, why, root=artifact_id)
    return Withdrawn(tuple(withdrawn))


def checked_reason(reason: str) -> str:
    """Return a reason that can stand in a record; raise `UsageError`."""
    text = reason.strip()
    try:
        forbidden = first_forbidden(text.encode("utf-8"))
    except UnicodeEncodeError as exc:
        raise UsageError("the reason is not valid text") from exc
    if not text or len(text) > MAX_REASON_CHARS:
        raise UsageError(f"give a reason of 1 to {MAX_REASON_CHARS} characters")
    if forbidden is not None:
        raise UsageError(f"the reason holds {quote(forbidden)}, which cannot be shown")
    return text


def refuse_claimed(store: Store, ids: Sequence[str]) -> None:
    """Raise `UsageError` if one of these requests is being run; the dead are released first."""
    for artifact_id in ids:
        place = store.locate(artifact_id)
        if place is not None and states.state_of(place) == "claimed":
            hint = "wait until it has ended, or end that process, then give the command again"
            raise UsageError(f"{artifact_id} is being run", hint=hint)


def remaining(store: Store, index: Index, root: str) -> list[str]:
    """Return what `withdraw` would move now: `root` and all derived from it, the root first."""
    if not is_id(root):
        raise UsageError(f"{quote(root)} is not an artifact id")
    with store.locked():
        pass  # reads what other commands recorded
    if place_of(store, root) is None and not is_forgotten(store, root):
        raise UsageError(f"no artifact {root} in this workspace")
    index.catch_up()
    return [found for found in index.derived_from(root) if store.locate(found) is not None]


def _withdraw_batch(store: Store, ids: Sequence[str], why: bytes, *, root: str) -> list[str]:
    with store.locked() as journal:
        # Another command may have moved, claimed or withdrawn some of them meanwhile.
        refuse_claimed(store, ids)
        present = [found for found in ids if store.locate(found) is not None]
        acts = [act for found in present for act in _acts(store, found, why)]
        if acts:
            journal.run("withdraw", acts, {"root": root})
    return present


def _acts(store: Store, artifact_id: str, why: bytes) -> list[Act]:
    place = store.locate(artifact_id)
    assert place is not None, "looked for under the same lock"
    moves: list[Act] = [
        Move(place, states.QUARANTINE, name) for name in store.files_of(artifact_id)
    ]
    # Not `.why.json`: the same bytes may have been refused before, or denied, for a reason.
    return [*moves, Put(states.QUARANTINE, f"{artifact_id}.withdrawn.json", why)]
