"""The policy in force: the signed bundle, every earlier bundle by digest, and `allowed_signers`.

The applied bundle counts, not the files in `policy/`: an edit there changes nothing until
`policy apply` has shown what it widens and a current signer has signed it.

SECURITY
    Reads bundles and signatures from the workspace.  A bundle counts only if the log says that it
    was applied last, its digest is right and a signer of the bundle before it signed it.  The
    first bundle is accepted at `init`, by explicit choice of the operator.  Without the log, an
    older bundle or one that a revoked key signed would only need a pointer.
    A change of signers is completed before anything else uses the file `allowed_signers`: after a
    crash between the change and the file, the old file would look like an edit by the operator,
    and applying it would undo a revocation.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import is_digest, sha256_hex
from threegate.base import canonical
from threegate.base.errors import HandoffTampered, PolicyInvalid, StorageFailed, WorkspaceBusy
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import WAIT_SECONDS, held, storage_errors
from threegate.handoff.journal import Act, Put
from threegate.handoff.records import Quota
from threegate.handoff.store import Store
from threegate.host.atomic_file import sync_directory
from threegate.keys import sshsig
from threegate.keys.public import MAX_SIGNERS_BYTES
from threegate.keys.signers import emit
from threegate.keys.sshsig import SignedBytes
from threegate.policy import bundle as policy_bundle
from threegate.policy.bundle import Bundle, Compiled, parse_bundle
from threegate.policy.sections import SIGNERS_FILE

CURRENT: Final = states.CURRENT
NAMESPACE: Final = policy_bundle.NAMESPACE
POLICY: Final = "policy"  # the directory with the files that people edit


def read_current(store: Store) -> Bundle:
    """Return the bundle in force; raise `PolicyInvalid` if there is none that counts.

    The caller holds the lock: otherwise another command may put a policy in force meanwhile.
    """
    digest, at = read_recorded_pointer(store)
    bundle = read_bundle(store, digest)
    # Only the first bundle may be signed by its own signers: `init` accepted it explicitly.
    signers = bundle if bundle.previous is None else read_bundle(store, bundle.previous)
    check_signature(store, bundle, by=signers, at=at)
    return bundle


def read_bundle(store: Store, digest: str) -> Bundle:
    """Return a kept bundle by its digest."""
    try:
        return parse_bundle(store.read_file(states.BUNDLES, f"{digest}.json"))
    except FileNotFoundError as exc:
        raise PolicyInvalid(f"policy bundle {digest[:12]} is missing") from exc


def since(store: Store, bundle: Bundle, last: str) -> Iterator[Bundle]:
    """Yield a bundle and those before it, back to the one after the digest `last`."""
    while bundle.digest != last:
        yield bundle
        if bundle.previous is None:
            return
        bundle = read_bundle(store, bundle.previous)


def check_signature(store: Store, bundle: Bundle, *, by: Bundle, at: int) -> SignedBytes:
    """Return who signed `bundle`, judged by the signers of `by` at the time `at`."""
    try:
        armored = store.read_file(states.BUNDLES, f"{bundle.digest}.sig")
    except FileNotFoundError as exc:
        raise PolicyInvalid(f"policy bundle {bundle.digest[:12]} is not signed") from exc
    message = bundle.bundle_bytes()
    return sshsig.verify(
        message, Untrusted(armored), namespace=NAMESPACE, signers=by.signers, at=at
    )


def acts_to_apply(bundle: Bundle, armored: bytes, *, at: int) -> list[Act]:
    """Return the acts that put a signed bundle in force."""
    digest = bundle.digest
    return [
        Put(states.BUNDLES, f"{digest}.json", bundle.bundle_bytes()),
        Put(states.BUNDLES, f"{digest}.sig", armored),
        Put(states.BUNDLES, CURRENT, _pointer(digest, at)),
    ]


def _pointer(digest: str, at: int) -> bytes:
    return canonical.encode({"applied": at, "digest": digest, "format": "current/1"})


def read_pointer(store: Store) -> tuple[str, int]:
    """Return the digest of the bundle in force and when it was applied."""
    try:
        data = store.read_file(states.BUNDLES, CURRENT)
    except FileNotFoundError as exc:
        hint = "`threegate audit verify` shows what is missing; restore a backup"
        raise PolicyInvalid("no policy is applied", hint=hint) from exc
    try:
        value: Mapping[str, Any] = canonical.decode(data)
        digest, at = value["digest"], value["applied"]
        # `true` is an int to isinstance, so the type is compared.
        if value["format"] != "current/1" or not is_digest(digest) or type(at) is not int:
            raise ValueError("not a pointer")
    except (ValueError, KeyError, TypeError) as exc:
        raise HandoffTampered(f"{states.BUNDLES}/{CURRENT} is not readable") from exc
    return digest, at


def read_recorded_pointer(store: Store) -> tuple[str, int]:
    """Return the result of `read_pointer` if the log recorded it; the caller holds the lock."""
    digest, at = read_pointer(store)
    # Rollback attack: an old pointer restored by hand names an older, validly signed policy.
    if sha256_hex(_pointer(digest, at)) != store.journal.current:
        detail = f"{states.BUNDLES}/{CURRENT} is not the one the log recorded"
        raise HandoffTampered(detail, code="TG-HND-009")
    return digest, at


def is_current(store: Store, bundle: Bundle) -> bool:
    """Tell whether a bundle that was read before is still the one in force."""
    with store.locked():
        return read_pointer(store)[0] == bundle.digest


def is_in_force(bundle: Bundle, compiled: Compiled) -> bool:
    """Tell whether policy files are exactly the applied ones, prose and examples aside."""
    same = compiled.bundle(generation=bundle.generation, previous=bundle.previous)
    return same.bundle_bytes() == bundle.bundle_bytes()


def quotas_of(bundle: Bundle) -> dict[str, Quota]:
    """Return the quota of each directory according to a bundle."""
    quotas = {}
    for directory in (*_state_directories(), states.QUARANTINE, states.BLOBS):
        path = ("handoff", "quotas", *directory.split("/")[1:])
        quotas[directory] = Quota(bundle.integer(*path, "files"), bundle.integer(*path, "bytes"))
    return quotas


def _state_directories() -> list[str]:
    return sorted({item for group in states.ARTIFACT_STATES.values() for item in group})


def settle_if_idle(store: Store) -> None:
    """Complete a change of signers that was put in force before its file could be renamed.

    Otherwise the file would show the list before the change, and applying it, as an edit of
    the operator, would undo a revocation.
    """
    if store.read_only:
        return
    try:
        with only_one(store.root, wait_seconds=0):
            settle(store)
    except WorkspaceBusy:
        return  # a change is under way


@contextmanager
def only_one(root: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Lock out other changes of signers.  The workspace stays usable: a human has to sign."""
    with storage_errors(f"open {POLICY}"):
        fd = os.open(root / POLICY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with held(fd, wait_seconds=wait_seconds):
            yield
    finally:
        os.close(fd)


def settle(store: Store) -> None:
    """Publish the pending list if it is the one in force, else remove it."""
    pending = pending_file(store.root)
    data = _read_pending(pending)
    if not data:
        return
    with store.locked():
        # Read again: the change may have come after this workspace was opened.
        in_force = emit(read_current(store).signers)
    if data == in_force:
        publish(pending)
    else:
        pending.unlink(missing_ok=True)  # the change it was written for did not happen


def _read_pending(path: Path) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            return file.read(MAX_SIGNERS_BYTES + 1)  # one byte more is refused when parsed
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise StorageFailed(f"cannot read {path.name} in {POLICY}") from exc


def pending_file(root: Path) -> Path:
    """Return the path of the next list, written before it is in force."""
    return root / POLICY / f".{SIGNERS_FILE}.new"


def publish(pending: Path) -> None:
    """Replace the operator's file by the pending one."""
    try:
        pending.replace(pending.with_name(SIGNERS_FILE))
        sync_directory(pending.parent)
    except OSError as exc:
        hint = "`threegate policy show --source allowed_signers` prints what is in force"
        raise StorageFailed(
            "the change is in force, but the file could not be written", hint=hint
        ) from exc
