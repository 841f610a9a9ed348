"""Transactions on the files of a workspace, each announced in the audit log first.

A batch is all or nothing.  Order: intents (one fdatasync), new files into `incoming`
(synced), renames and removals, directories synced, outcome.  The next holder of the lock
finds intents without an outcome and either completes the batch, when every byte it needs
is on disk, or undoes it; what was done is recorded as `recovered`.

SECURITY
    The only code that changes a workspace.  No act precedes its durable intent; if the
    log cannot be written, nothing happens.  If this module is wrong, work is lost or a
    change goes unrecorded.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import sha256_hex
from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.audit.writer import Events
from threegate.base.errors import HandoffTampered, StorageFailed
from threegate.handoff.disk import (
    FILE_MODE,
    Directories,
    check_file,
    create_file,
    held,
    read_file,
    storage_errors,
)
from threegate.handoff.ledger import Ledger, Tail, longer_tail
from threegate.handoff.records import (
    INTENT,
    OUTCOME,
    RECOVERED,
    Intent,
    Quota,
    StateUsage,
    parse_intent,
    scan_usage,
)
from threegate.handoff.states import BUNDLES, CURRENT, INCOMING, NAMES

MAX_BATCH: Final = 512  # less than a segment, so that a batch lies in two of them at most
MAX_FILE_BYTES: Final = 256 * 2**20
# Operations that end something ignore quotas: otherwise an approval could not be revoked because
# too much waits, a run would lose its result, and expired drafts would stop every review.
# Quotas stop operations that begin something.
ENDINGS: Final = frozenset(
    {"claim-lost", "deny", "expire", "finish", "revoke", "revoke-all", "void"}
)
# These end something because of the time, so a wrong clock must not do them.
BY_THE_CLOCK: Final = frozenset({"expire", "void"})
SYNC_TOGETHER: Final = 8  # new files from which on all are made durable at once


@dataclass(frozen=True, slots=True)
class Put:
    """Write a new file, or replace one as a whole."""

    to: str
    name: str
    data: bytes

    def intent(self) -> dict[str, Any]:
        """Return what the log says before it happens."""
        size, digest = len(self.data), sha256_hex(self.data)
        return {"act": "put", "bytes": size, "name": self.name, "sha256": digest, "to": self.to}


@dataclass(frozen=True, slots=True)
class Move:
    """Rename a file from one state to another."""

    source: str
    to: str
    name: str

    def intent(self) -> dict[str, Any]:
        """Return what the log says before it happens."""
        return {"act": "move", "from": self.source, "name": self.name, "to": self.to}


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a file; only `forget` and ended claims do."""

    source: str
    name: str

    def intent(self) -> dict[str, Any]:
        """Return what the log says before it happens."""
        return {"act": "remove", "from": self.source, "name": self.name}


Act = Put | Move | Remove


class Journal:
    """Runs batches of acts on one workspace."""

    def __init__(
        self,
        directories: Directories,
        log: AuditLog,
        lock: int,
        quotas: Mapping[str, Quota],
        *,
        tail: Tail,
        ledger: Ledger,
        read_only: bool = False,
    ) -> None:
        """Go on after `tail` and `ledger`, to which the newest segment of `log` was fed."""
        self.read_only = read_only
        self.unfinished: list[Intent] = []  # acts of a change that cannot be settled here
        self.directories, self.log, self.quotas = directories, log, quotas
        self.ledger, self._lock, self._tail = ledger, lock, tail
        ledger.older = log.entries
        self._settled: str | None = None  # head digest at which nothing was pending
        self._usage = StateUsage()
        self._current: str | None = None

    @property
    def current(self) -> str | None:
        """Digest of the pointer to the policy in force, as of the last transaction seen.

        The one file whose name does not say what it must hold: only the log does.
        """
        return self._current

    @property
    def clock(self) -> Entry | None:
        """The last entry that set the clock, if it is as near as the newest segment."""
        return self._tail.clock

    def set_clock(self, data: Mapping[str, Any], *, time: str) -> Entry:
        """Let the log continue at the signed `time`; the caller holds the lock."""
        entry = self.log.set_clock(data, time=time)
        self._feed(entry)
        return entry

    @property
    def usage(self) -> StateUsage:
        """Files and bytes in each state, as of the last transaction seen."""
        return self._usage

    def close(self) -> None:
        """Close the log and the lock."""
        self.log.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the workspace, with the log up to date and every crash behind us settled."""
        with held(self._lock):
            self.log.refresh(self._feed)
            if self.log.head.digest != self._settled:
                self._settle_pending()
            yield

    def run(self, op: str, acts: Sequence[Act], detail: Mapping[str, Any] | None = None) -> None:
        """Carry out all acts or none; the caller holds the lock.

        Raises `QuotaExceeded`, `AuditUnavailable` or `StorageFailed`; after any of them
        the workspace is as it was.
        """
        assert 0 < len(acts) <= MAX_BATCH
        planned = self._plan(acts)
        if op not in ENDINGS:
            planned.refuse_over(self.quotas, than=self._usage)
        stamp = {"of": len(acts), "op": op}
        # Once for the batch: repeated in every intent, a long detail would grow by its square.
        details: list[Mapping[str, Any]] = [detail or {}, *({} for _ in acts[1:])]
        events = [
            (INTENT, {**act.intent(), **stamp, "detail": dict(details[n]), "n": n})
            for n, act in enumerate(acts)
        ]
        entries = self._append(events, ends=op in ENDINGS - BY_THE_CLOCK)
        try:
            with storage_errors(f"write to the workspace ({op})"):
                self._write_incoming(acts, entries)
                self._apply(acts, entries)
        except StorageFailed:
            if not self._settle([parse_intent(entry) for entry in entries], failed=True):
                raise
        else:
            self._close_batch(OUTCOME, entries, planned)

    def _plan(self, acts: Sequence[Act]) -> StateUsage:
        planned = self._usage.copy()
        for act in acts:
            if isinstance(act, Put):
                assert NAMES[act.to].match(act.name), act.name
                old = check_file(self.directories.fd(act.to), act.name)
                planned.add(act.to, files=int(old is None), size=len(act.data) - (old or 0))
            else:
                size = check_file(self.directories.fd(act.source), act.name)
                if size is None:
                    raise HandoffTampered(f"{act.name} is no longer in {act.source}")
                planned.add(act.source, files=-1, size=-size)
                if isinstance(act, Move):
                    planned.add(act.to, files=1, size=size)
        return planned

    def _write_incoming(self, acts: Sequence[Act], entries: Sequence[Entry]) -> None:
        puts = [
            (act, entry) for act, entry in zip(acts, entries, strict=True) if isinstance(act, Put)
        ]
        incoming = self.directories.fd(INCOMING)
        together = _is_large(acts)
        for act, entry in puts:
            fd = create_file(incoming, str(entry.seq), act.data)
            try:
                if not together:
                    os.fsync(fd)
            finally:
                os.close(fd)
        if together:
            self._sync_all()
        elif len(acts) > 1:
            os.fsync(incoming)  # before any rename, so that a batch is never half there

    def _apply(self, acts: Sequence[Act], entries: Sequence[Entry]) -> None:
        changed: set[str] = set()
        for act, entry in zip(acts, entries, strict=True):
            if isinstance(act, Put):
                self._rename(INCOMING, str(entry.seq), act.to, act.name)
                changed |= {INCOMING, act.to}
            elif isinstance(act, Move):
                self._rename(act.source, act.name, act.to, act.name)
                changed |= {act.source, act.to}
            else:
                os.unlink(act.name, dir_fd=self.directories.fd(act.source))
                changed.add(act.source)
        if _is_large(acts):
            self._sync_all()
        else:
            self._sync(changed)

    def _rename(self, source: str, name: str, to: str, new_name: str) -> None:
        os.rename(
            name,
            new_name,
            src_dir_fd=self.directories.fd(source),
            dst_dir_fd=self.directories.fd(to),
        )

    def _sync_all(self) -> None:
        from threegate.handoff.sync import sync_filesystem

        sync_filesystem(self.directories.fd(INCOMING))

    def _sync(self, changed: set[str]) -> None:
        for directory in sorted(changed):
            os.fsync(self.directories.fd(directory))

    def _close_batch(
        self,
        kind: str,
        batch: Sequence[Entry] | Sequence[Intent],
        usage: StateUsage,
        direction: str | None = None,
    ) -> None:
        current = self._current
        if direction != "back":
            current = _pointer_in(batch) or current
        span = {"first": batch[0].seq, "last": batch[-1].seq}
        data: dict[str, Any] = {**span, "current": current, "usage": usage.plain()}
        if direction is not None:
            data["direction"] = direction
        # Not flushed separately: if it is lost, the next opener finds the acts done and records
        # that.
        self._append([(kind, data)], durable=kind == RECOVERED, ends=True)
        self._usage, self._current = usage, current
        self._settled = self.log.head.digest

    def _append(self, events: Events, *, durable: bool = True, ends: bool) -> list[Entry]:
        entries = self.log.append(events, durable=durable, ends=ends)
        for entry in entries:
            self._feed(entry)
        return entries

    def _feed(self, entry: Entry) -> None:
        self._tail.feed(entry)
        self.ledger.feed(entry)

    def _settle_pending(self) -> None:
        if not self._tail.is_known:
            self._tail = longer_tail(self.log)
        pending, last = self._tail.pending(), self._tail.outcome()
        self._usage = last.usage if last is not None else scan_usage(self.directories)
        self._current = last.current if last is not None else None
        if pending and self.read_only:
            self._look_at(pending)
        elif pending:
            self._settle(pending)
        self._settled = self.log.head.digest

    def _look_at(self, intents: Sequence[Intent]) -> None:
        """Read an unfinished change without settling it; its policy file, if there, is in force."""
        self.unfinished = list(intents)
        self._usage = scan_usage(self.directories)
        pointer = _pointer_in(intents)
        if pointer is not None and self._holds(BUNDLES, CURRENT, pointer):
            self._current = pointer

    def _settle(self, intents: Sequence[Intent], *, failed: bool = False) -> bool:
        """Complete or undo a batch whose intents are in the log and whose outcome is not.

        Returns whether it was completed.  After an error (`failed`) that came before the
        first rename it is undone: after a failed sync, data may look written and be lost.
        """
        with storage_errors("settle an interrupted change"):
            states = [self._state(intent) for intent in intents]
            complete = len(intents) == intents[0].of and "lost" not in states
            complete = complete and not (failed and "done" not in states)
            if complete:
                self._finish(intents, states)
            else:
                self._undo(intents, states)
        direction = "forward" if complete else "back"
        usage = scan_usage(self.directories)
        self._close_batch(RECOVERED, intents, usage, direction)
        return complete

    def _state(self, intent: Intent) -> str:
        """Return `done`, `ready` (can be completed) or `lost` for one intent."""
        if intent.act == "put":
            if self._holds(intent.to, intent.name, intent.sha256):
                return "done"
            return "ready" if self._holds(INCOMING, intent.incoming, intent.sha256) else "lost"
        present = check_file(self.directories.fd(intent.source), intent.name) is not None
        if intent.act == "remove":
            return "ready" if present else "done"
        arrived = check_file(self.directories.fd(intent.to), intent.name) is not None
        return "ready" if present else "done" if arrived else "lost"

    def _holds(self, directory: str, name: str, digest: str) -> bool:
        fd = self.directories.fd(directory)
        # A torn file in `incoming` may not have its final mode yet.
        mode = None if directory == INCOMING else FILE_MODE
        try:
            data = read_file(fd, name, max_bytes=MAX_FILE_BYTES, mode=mode)
        except FileNotFoundError:
            return False
        return sha256_hex(data) == digest

    def _finish(self, intents: Sequence[Intent], states: Sequence[str]) -> None:
        changed: set[str] = {INCOMING}
        for intent, state in zip(intents, states, strict=True):
            if state == "done":
                self._drop_incoming(intent)
            elif intent.act == "put":
                os.chmod(intent.incoming, FILE_MODE, dir_fd=self.directories.fd(INCOMING))
                self._rename(INCOMING, intent.incoming, intent.to, intent.name)
            elif intent.act == "move":
                self._rename(intent.source, intent.name, intent.to, intent.name)
            else:
                os.unlink(intent.name, dir_fd=self.directories.fd(intent.source))
            changed |= {place for place in (intent.source, intent.to) if place}
        self._sync(changed)

    def _undo(self, intents: Sequence[Intent], states: Sequence[str]) -> None:
        for intent, state in zip(intents, states, strict=True):
            # Renames start only after every new file is durable, so this cannot be a crash.
            if intent.act == "move" and state == "done":
                raise HandoffTampered(f"an interrupted change lost files next to {intent.name}")
            self._drop_incoming(intent)
        self._sync({INCOMING})

    def _drop_incoming(self, intent: Intent) -> None:
        try:
            os.unlink(intent.incoming, dir_fd=self.directories.fd(INCOMING))
        except FileNotFoundError:
            return


def _is_large(acts: Sequence[Act]) -> bool:
    """Tell whether one `syncfs` is cheaper than a `fsync` for each file and directory."""
    return sum(isinstance(act, Put) for act in acts) >= SYNC_TOGETHER


def _pointer_in(batch: Sequence[Entry] | Sequence[Intent]) -> str | None:
    """Return the digest of the pointer that a batch puts in force, if it does."""
    for item in batch:
        if isinstance(item, Intent):
            to, name, digest = item.to, item.name, item.sha256
        else:
            to, name, digest = (item.data.get(key, "") for key in ("to", "name", "sha256"))
        if (to, name) == (BUNDLES, CURRENT):
            return digest
    return None
