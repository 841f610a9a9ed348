"""`threegate withdraw` and `threegate forget`: removal of artifacts to quarantine, or for good.

`withdraw` moves an artifact and everything made from it to quarantine.  The root goes first: from
then on nothing new can be made from it, because admission needs every source.  The rest follows in
batches; a run after a crash completes it.

`forget` deletes the bytes and leaves a signed tombstone.  One journal batch per artifact holds
tombstone, signature and every removal, so a crash leaves either all of the bytes or none.
Artifacts made from the removed one may quote it; the result names them, and `derived=True` forgets
them too, the youngest first.

SECURITY
    `forget` destroys evidence on purpose, so a current signer has to sign for it first.  Content
    and reason never reach the audit log.  Backups, exports and copies made by other programs are
    out of reach.  If this module is wrong, text that was promised to be gone is still there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import PREFIXES, digest_of, is_id, prefix_of
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.text import first_forbidden, quote
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import WITHDRAWN, why_file
from threegate.handoff.claims import release_dead
from threegate.handoff.journal import MAX_BATCH, Act, Move, Put, Remove
from threegate.handoff.records import INTENT
from threegate.handoff.store import Store
from threegate.host.keys.signatures import Signer
from threegate.host.workspace import applied
from threegate.host.workspace.fetched import remove_cache
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import blobs_of, is_forgotten, place_of, read_anywhere
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig

MAX_REASON_CHARS: Final = 500
ACTS_EACH: Final = 4  # an approval, its signature, its uses, the reason
IDS_PER_BATCH: Final = MAX_BATCH // ACTS_EACH


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Ids moved to quarantine in this run, the root first."""

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
    """Return a reason that fits into a record; raise `UsageError`."""
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
            hint = "wait until it has ended, or end that process, then run the command again"
            raise UsageError(f"{artifact_id} is being run", hint=hint)


def remaining(store: Store, index: Index, root: str) -> list[str]:
    """Return the ids that `withdraw` would move now: `root` and all derived from it, root first."""
    if not is_id(root):
        raise UsageError(f"{quote(root)} is not an artifact id")
    with store.locked():
        pass  # taking the lock reads new entries of the log
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


TOMBSTONE_NAMESPACE: Final = "threegate-tombstone"
BLOB: Final = "blob"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Ids that this run removed, and remaining ids that may quote them."""

    ids: tuple[str, ...]
    may_quote: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tombstone:
    id: str
    record: bytes
    signature: bytes
    signer: str


def forget(
    ws: Workspace,
    index: Index,
    artifact_id: str,
    reason: str,
    signer: Signer,
    *,
    derived: bool = False,
) -> Forgotten:
    """Remove an artifact's bytes, or those of `blob-DIGEST`, and leave a signed tombstone.

    Raises `SignatureRefused` unless a current signer signs, `UsageError` for an artifact that
    is missing or is being run; then nothing was removed.
    """
    text = checked_reason(reason)
    family = _family(ws, index, artifact_id)
    seen = ws.store.journal.log.head.seq
    targets = list(reversed(family)) if derived else [artifact_id]
    targets = [found for found in targets if _has_bytes(ws.store, found)]
    refuse_claimed(ws.store, [found for found in targets if prefix_of(found) != BLOB])
    # All signatures before the first removal: a signer who stops half-way has removed nothing.
    stones = [_signed_stone(ws, found, text, signer) for found in targets]
    for stone in stones:
        _remove(ws, index, stone, seen)
    index.catch_up()  # removes from index and vectors what the log says is gone
    remove_cache(ws.root)  # it names the questions
    left = [found for found in family if found not in targets and found != artifact_id]
    return Forgotten(tuple(targets), tuple(found for found in left if _has_bytes(ws.store, found)))


def _family(ws: Workspace, index: Index, artifact_id: str) -> list[str]:
    if not states.NAMES[states.TOMBSTONES].match(f"{artifact_id}.json"):
        raise UsageError(f"{quote(artifact_id)} is not an artifact id")
    release_dead(ws.store)
    with ws.store.locked():
        pass  # taking the lock reads new entries of the log
    ws.refuse_wrong_clock()
    if prefix_of(artifact_id) == BLOB:
        _refuse_artifact(ws.store, digest_of(artifact_id))
    if not _has_bytes(ws.store, artifact_id) and not is_forgotten(ws.store, artifact_id):
        raise UsageError(f"no artifact {artifact_id} in this workspace")
    index.catch_up()
    return index.derived_from(artifact_id)


def _refuse_artifact(store: Store, digest: str) -> None:
    """Raise `UsageError` for raw bytes that are an artifact here: its file would stay."""
    for prefix in PREFIXES:
        if place_of(store, f"{prefix}-{digest}") is not None:
            hint = f"`threegate forget {prefix}-{digest}` forgets both"
            raise UsageError(f"these bytes are {prefix}-{digest} too", hint=hint)


def _has_bytes(store: Store, artifact_id: str) -> bool:
    if prefix_of(artifact_id) != BLOB and place_of(store, artifact_id) is not None:
        return True
    return bool(_raw_files(store, artifact_id))


def _signed_stone(ws: Workspace, artifact_id: str, reason: str, signer: Signer) -> _Tombstone:
    fields = {"format": "tombstone/1", "id": artifact_id, "reason": reason, "time": ws.now()}
    record = canonical.encode(fields)
    armored = signer.sign(record, TOMBSTONE_NAMESPACE)
    signed = sshsig.verify(
        record,
        Untrusted(armored),
        namespace=TOMBSTONE_NAMESPACE,
        signers=ws.bundle.signers,
        at=ws.clock(),
    )
    return _Tombstone(artifact_id, record, armored, signed.fingerprint)


def _remove(ws: Workspace, index: Index, stone: _Tombstone, seen: int) -> None:
    store = ws.store
    holders = _holders(store, index, stone.id)  # before the lock: rebuilding the index takes it
    with store.locked() as journal:
        # The tombstone was checked against the signers of the earlier policy.
        if applied.read_current(store).digest != ws.bundle.digest:
            raise UsageError("another command changed the policy meanwhile; look again")
        if prefix_of(stone.id) != BLOB:
            refuse_claimed(store, [stone.id])
        removals: list[Act] = [
            Remove(directory, name)
            for directory, name in [
                *_files(store, stone.id),
                *_blobs(store, holders, stone.id, seen),
            ]
        ]
        if not removals:
            return  # another command removed it first
        stones: list[Act] = [
            Put(states.TOMBSTONES, f"{stone.id}.json", stone.record),
            Put(states.TOMBSTONES, f"{stone.id}.sig", stone.signature),
        ]
        journal.run("forget", [*stones, *removals], {"signer": stone.signer})


def _files(store: Store, artifact_id: str) -> list[tuple[str, str]]:
    """Return every file that holds the bytes, a signature over them or a note about them."""
    if prefix_of(artifact_id) == BLOB:
        return _raw_files(store, artifact_id)
    wanted = [
        (directory, artifact_id + suffix)
        for directory in (*states.ARTIFACT_STATES[prefix_of(artifact_id)], states.QUARANTINE)
        for suffix in (".md", *states.BESIDE, ".withdrawn.json")
    ]
    named = [(where, name) for where, name in wanted if states.NAMES[where].match(name)]
    return [pair for pair in named if store.holds(*pair)] + _raw_files(store, artifact_id)


def _raw_files(store: Store, artifact_id: str) -> list[tuple[str, str]]:
    """Return the files that hold the same bytes under their digest alone."""
    digest = digest_of(artifact_id)
    wanted = [
        (states.BLOBS, digest),
        (states.QUARANTINE, f"{digest}.bytes"),
        (states.QUARANTINE, f"{digest}.why.json"),
    ]
    return [pair for pair in wanted if store.holds(*pair)]


def _holders(store: Store, index: Index, artifact_id: str) -> dict[str, list[str]]:
    """Return the raw bytes that an artifact names, and everything else that names them."""
    artifact = None if prefix_of(artifact_id) == BLOB else read_anywhere(store, artifact_id)
    return {digest: index.holders_of(digest) for digest in blobs_of(artifact)} if artifact else {}


def _blobs(
    store: Store, holders: dict[str, list[str]], artifact_id: str, seen: int
) -> list[tuple[str, str]]:
    """Return the raw bytes that only this artifact names."""
    newcomers = _admitted_since(store, seen)
    found = []
    for digest, known in holders.items():
        others = {*known, *newcomers} - {artifact_id}
        if store.has_blob(digest) and not any(_names(store, one, digest) for one in others):
            found.append((states.BLOBS, digest))
    return found


def _names(store: Store, artifact_id: str, digest: str) -> bool:
    """Tell from the artifact itself, not from the index, whether it names raw bytes."""
    artifact = read_anywhere(store, artifact_id)
    return artifact is not None and digest in blobs_of(artifact)


def _admitted_since(store: Store, seen: int) -> Sequence[str]:
    """Return what other commands admitted after the index was last caught up."""
    entries = store.journal.log.entries(seen + 1)
    names = {entry.data["name"] for entry in entries if entry.kind == INTENT}
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))
