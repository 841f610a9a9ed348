"""`audit verify`: checks of the log, its files, and the signatures on policies and checkpoints.

SECURITY
    Reads a workspace that somebody may have edited.  A difference becomes a finding; nothing is
    repaired.  Without a checkpoint from elsewhere it cannot see that the end of the log was cut off
    together with what it recorded.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.artifacts.ids import is_digest
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.entry import CLOCK, Entry, LogFault, unix_of
from threegate.audit.verify import LogReport, verify_log
from threegate.base.errors import (
    ArtifactRejected,
    AuditTampered,
    HandoffTampered,
    PolicyInvalid,
    SignatureRefused,
    ThreeGateError,
    VersionUnsupported,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import OTHER_MODE
from threegate.handoff.records import INTENT
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import Expected, FileFold, Finding, verify_files
from threegate.host.workspace import applied, log_signatures
from threegate.host.workspace.index_audit import verify_derived
from threegate.host.workspace.log_signatures import KeptCheckpoint, check_clock_entry
from threegate.host.workspace.removal import TOMBSTONE_NAMESPACE as TOMBSTONE
from threegate.host.workspace.workspace import unfinished
from threegate.keys import sshsig
from threegate.keys.signers import Signers

# Errors that mean tampering, as opposed to a failure to read.
_TAMPERED: Final = (
    AuditTampered,
    HandoffTampered,
    PolicyInvalid,
    SignatureRefused,
    ArtifactRejected,
)

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(slots=True)
class Verification:
    """Counts of everything that was checked, and every difference."""

    log: LogReport
    files: int = 0
    policies: int = 0
    checkpoints: int = 0
    findings: list[Finding] = field(default_factory=list)
    strays: list[Finding] = field(default_factory=list)
    modes: list[Finding] = field(default_factory=list)  # on a read-only disk they protect nothing
    unfinished: list[str] = field(default_factory=list)  # left by a crash, and not settled


class _LogWalk:
    """Facts from the log that later checks need."""

    def __init__(self, sizes: set[int]) -> None:
        self.fold = FileFold()
        self.applied: dict[str, int] = {}  # digest of a bundle -> when it was put in force
        self.stones = Expected()  # id of what was forgotten -> when
        self.times: dict[int, int] = {}  # size of a checkpoint -> when it was made, at the latest
        self.clocks: list[Entry] = []
        self._sizes = sizes

    def visit(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        self.fold.feed(entry)
        if entry.kind == CLOCK:
            self.clocks.append(entry)
        name, _, suffix = str(entry.data.get("name", "")).partition(".")
        if entry.kind == INTENT and suffix == "json":
            if entry.data.get("to") == states.BUNDLES and is_digest(name):
                # The first time counts: a later entry cannot give a policy another date.
                self.applied.setdefault(name, unix_of(entry.time))
            elif entry.data.get("to") == states.TOMBSTONES:
                self.stones.put((states.TOMBSTONES, name), str(unix_of(entry.time)))
        if entry.kind == INTENT and entry.data.get("to") == states.CHECKPOINTS:
            size = log_signatures.size_in(str(entry.data.get("name")))
            if size is not None:
                self.times[size] = unix_of(entry.time)
        if entry.seq + 1 in self._sizes:
            self.times.setdefault(entry.seq + 1, unix_of(entry.time))


def verify_workspace(
    root: Path,
    *,
    given: Sequence[KeptCheckpoint],
    clock: Callable[[], int],
    progress: Progress,
    seals: Path | None = None,
) -> Verification:
    """Compare everything in the workspace with everything that was recorded of it."""
    report, walk, kept = _verify_log(root, given, clock, progress)
    problem = report.log.problem
    if problem is not None and problem.reason is not LogFault.TRUNCATED:
        return report  # the log is not reliable beyond this point
    try:
        store = Store.open(root, clock=clock)
    except VersionUnsupported:
        raise
    except _TAMPERED as exc:
        report.findings.append(_finding("workspace", str(root), exc))
        return report
    try:
        _verify_files(store, report, walk, progress)
        report.unfinished = unfinished(store)
        if not report.findings:  # otherwise its files are not the recorded ones
            _verify_derived(store, report, seals, progress)
        signers = _verify_policies(store, report, walk)
        if signers is not None:
            _verify_clock(report, walk, signers)
            _verify_tombstones(store, report, walk, signers)
            _verify_checkpoints(report, walk, kept, signers, now=clock())
    finally:
        store.close()
    return report


def _verify_log(
    root: Path, given: Sequence[KeptCheckpoint], clock: Callable[[], int], progress: Progress
) -> tuple[Verification, _LogWalk, list[KeptCheckpoint]]:
    """Verify the log up to its present end against every checkpoint."""
    kept, comparable, findings = _readable([*log_signatures.stored_checkpoints(root), *given])
    walk = _LogWalk({checkpoint.size for checkpoint in comparable})
    upto = None
    try:
        store = Store.open(root, clock=clock)  # settles a torn line first, and records that
        with store.locked():
            upto = store.journal.log.head
        store.close()
    except VersionUnsupported:
        raise
    except _TAMPERED:
        pass  # the walk below finds the place
    with progress("verifying the log, entry", None) as show:
        log = verify_log(
            root / AUDIT, checkpoints=comparable, upto=upto, visit=walk.visit, progress=show
        )
    report = Verification(log, findings=findings)
    if log.problem is not None:
        report.findings.append(Finding(AUDIT, "log", str(log.problem)))
    report.strays += [
        Finding(AUDIT, name, "is not a file of ours", stray=True) for name in log.strays
    ]
    return report, walk, kept


def _readable(
    found: Sequence[KeptCheckpoint],
) -> tuple[list[KeptCheckpoint], list[Checkpoint], list[Finding]]:
    kept, comparable, findings = [], [], []
    for item in found:
        try:
            comparable.append(item.checkpoint)
            kept.append(item)
        except ArtifactRejected as exc:
            findings.append(_finding(states.CHECKPOINTS, item.name, exc))
    return kept, comparable, findings


def _verify_files(store: Store, report: Verification, walk: _LogWalk, progress: Progress) -> None:
    """Compare files with the log; again under the lock if another command wrote meanwhile."""
    head = report.log.head
    with progress("verifying files", len(walk.fold.files)) as show:
        found = list(verify_files(store.directories, walk.fold, show))
        if (
            any(not (finding.stray or finding.mode) for finding in found)
            and report.log.problem is None
        ):
            with store.locked() as journal:
                if head is not None and journal.log.head.seq > head.seq:
                    for entry in journal.log.entries(head.seq + 1):
                        walk.visit(entry)
                found = list(verify_files(store.directories, walk.fold, show))
    report.files = len(walk.fold.files)
    modes = report.modes if store.read_only else report.findings
    modes += [finding for finding in found if finding.mode]
    report.findings += [finding for finding in found if not finding.stray and not finding.mode]
    report.strays += [finding for finding in found if finding.stray]


def _verify_derived(
    store: Store, report: Verification, seals: Path | None, progress: Progress
) -> None:
    """Compare the index and the other derived files with artifacts and log."""
    with progress("comparing the index, artifact", None) as show:
        # A read-only workspace has no seals: its rows are compared.
        sealed_in = None if store.read_only else seals
        for finding in verify_derived(store, sealed_in, show):
            if finding.stray:
                report.unfinished.append(f"{finding.name}: {finding.problem}")
            else:
                report.findings.append(finding)


def _verify_policies(store: Store, report: Verification, walk: _LogWalk) -> Signers | None:
    """Check the applied policies back to the first; a signer of the one before signed each."""
    digest: str | None = None
    signers: Signers | None = None
    try:
        digest, _ = applied.read_pointer(store)
        bundle = applied.read_bundle(store, digest)
        signers = bundle.signers
        while True:
            before = (
                bundle if bundle.previous is None else applied.read_bundle(store, bundle.previous)
            )
            at = walk.applied.get(bundle.digest)
            if at is None:
                raise HandoffTampered("the log does not know when it was applied")
            if before is not bundle and before.generation + 1 != bundle.generation:
                raise HandoffTampered("it does not follow the policy it names")
            applied.check_signature(store, bundle, by=before, at=at)
            report.policies += 1
            if bundle.previous is None:
                return signers
            digest, bundle = bundle.previous, before
    except VersionUnsupported:
        raise
    except _TAMPERED as exc:
        if exc.code != OTHER_MODE:  # the comparison of files has named it
            report.findings.append(_finding(states.BUNDLES, digest or applied.CURRENT, exc))
    return signers


def _verify_clock(report: Verification, walk: _LogWalk, signers: Signers) -> None:
    """Check the signatures on clock entries."""
    for entry in walk.clocks:
        try:
            check_clock_entry(entry, workspace=report.log.workspace or "", signers=signers)
        except AuditTampered as exc:
            report.findings.append(_finding(AUDIT, "log", exc))


def _verify_tombstones(
    store: Store, report: Verification, walk: _LogWalk, signers: Signers
) -> None:
    """Check the signatures on tombstones."""
    for (_, artifact_id), at in walk.stones.items():
        try:
            record = store.read_file(states.TOMBSTONES, f"{artifact_id}.json")
            armored = store.read_file(states.TOMBSTONES, f"{artifact_id}.sig")
            sshsig.verify(
                record,
                Untrusted(armored),
                namespace=TOMBSTONE,
                signers=signers,
                at=int(at),
                past=True,
            )
        except FileNotFoundError:
            continue  # undone, or missing, which the comparison of files has shown
        except _TAMPERED as exc:
            report.findings.append(_finding(states.TOMBSTONES, artifact_id, exc))


def _verify_checkpoints(
    report: Verification,
    walk: _LogWalk,
    kept: Sequence[KeptCheckpoint],
    signers: Signers,
    *,
    now: int,
) -> None:
    for item in kept:
        report.checkpoints += 1
        if item.signature is None:
            continue
        try:
            at = walk.times.get(item.checkpoint.size, now)
            log_signatures.check_checkpoint(item.text, item.signature, signers, at=at, past=True)
        except SignatureRefused as exc:
            report.findings.append(_finding(states.CHECKPOINTS, item.name, exc))


def _finding(directory: str, name: str, exc: ThreeGateError) -> Finding:
    return Finding(directory, name, exc.message)
