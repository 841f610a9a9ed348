"""`threegate forget`: the bytes go, a signed tombstone stays.

One journal batch per artifact holds tombstone, signature and every removal, so a crash
leaves either all of the bytes or none.  What was made from an artifact may quote it; the
answer names those, and `derived=True` forgets them as well, the youngest first.

SECURITY
    Destroys evidence on purpose, so a current signer has to sign for it first.  Content
    and reason never reach the audit log.  Backups, exports and whatever another program
    copied are out of reach.  If this module is wrong, text that was promised to be gone
    is still there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import PREFIXES, digest_of, prefix_of
from threegate.base import canonical
from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.claims import release_dead
from threegate.handoff.journal import Act, Put, Remove
from threegate.handoff.records import INTENT
from threegate.handoff.store import Store
from threegate.host.keys.signatures import Signer
from threegate.host.workspace import applied
from threegate.host.workspace.fetched import remove_cache
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import blobs_of, is_forgotten, place_of, read_anywhere
from threegate.host.workspace.withdraw import checked_reason, refuse_claimed
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig

NAMESPACE: Final = "threegate-tombstone"
BLOB: Final = "blob"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What this run removed, and what is left that may quote it."""

    ids: tuple[str, ...]
    may_quote: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stone:
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

    Raises `SignatureRefused` unless a current signer signs, `UsageError` for what is not
    here or is being run; then nothing was removed.
    """
    text = checked_reason(reason)
    family = _family(ws, index, artifact_id)
    seen = ws.store.journal.log.head.seq
    targets = list(reversed(family)) if derived else [artifact_id]
    targets = [found for found in targets if _has_bytes(ws.store, found)]
    refuse_claimed(ws.store, [found for found in targets if prefix_of(found) != BLOB])
    # All signatures before the first removal: who signs half of them has removed nothing.
    stones = [_signed_stone(ws, found, text, signer) for found in targets]
    for stone in stones:
        _remove(ws, index, stone, seen)
    index.catch_up()  # removes from index and vectors what the log says is gone
    remove_cache(ws.root)  # it names what was asked for
    left = [found for found in family if found not in targets and found != artifact_id]
    return Forgotten(tuple(targets), tuple(found for found in left if _has_bytes(ws.store, found)))


def _family(ws: Workspace, index: Index, artifact_id: str) -> list[str]:
    if not states.NAMES[states.TOMBSTONES].match(f"{artifact_id}.json"):
        raise UsageError(f"{quote(artifact_id)} is not an artifact id")
    release_dead(ws.store)
    with ws.store.locked():
        pass  # reads what other commands recorded
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


def _signed_stone(ws: Workspace, artifact_id: str, reason: str, signer: Signer) -> _Stone:
    fields = {"format": "tombstone/1", "id": artifact_id, "reason": reason, "time": ws.now()}
    record = canonical.encode(fields)
    armored = signer.sign(record, NAMESPACE)
    signed = sshsig.verify(
        record,
        Untrusted(armored),
        namespace=NAMESPACE,
        signers=ws.bundle.signers,
        at=ws.clock(),
    )
    return _Stone(artifact_id, record, armored, signed.fingerprint)


def _remove(ws: Workspace, index: Index, stone: _Stone, seen: int) -> None:
    store = ws.store
    holders = _holders(store, index, stone.id)  # before the lock: rebuilding the index takes it
    with store.locked() as journal:
        if applied.read_current(store).digest != ws.bundle.digest:
            raise UsageError("the policy was changed by another command meanwhile; look again")
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
            return  # another command was faster
        stones: list[Act] = [
            Put(states.TOMBSTONES, f"{stone.id}.json", stone.record),
            Put(states.TOMBSTONES, f"{stone.id}.sig", stone.signature),
        ]
        journal.run("forget", [*stones, *removals], {"signer": stone.signer})


def _files(store: Store, artifact_id: str) -> list[tuple[str, str]]:
    """Return every file that holds the bytes, a signature over them or a word about them."""
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
