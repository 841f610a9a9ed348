"""Compare the disk with what the log says must be there.

SECURITY
    Reads a workspace that somebody may have edited.  Changes nothing and raises nothing
    for what it finds; every difference becomes a finding.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from threegate.artifacts.ids import sha256_hex
from threegate.audit.entry import Entry
from threegate.errors import AuditTampered, HandoffTampered, StorageFailed
from threegate.handoff import states
from threegate.handoff.disk import Directories, read_file
from threegate.handoff.journal import MAX_FILE_BYTES
from threegate.handoff.records import (
    INTENT,
    OUTCOME,
    RECOVERED,
    Intent,
    Outcome,
    parse_intent,
    parse_outcome,
)
from threegate.handoff.usage import Usage


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference; a stray file is one that is not ours, which is not tampering."""

    directory: str
    name: str
    problem: str
    stray: bool = False


class Fold:
    """The state of all files according to the log, built entry by entry."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {}  # (directory, name) -> digest
        self.touched: dict[str, None] = {}  # names, in the order the log first mentions them
        self.usage = Usage()
        self.pending: list[Intent] = []
        self.problem: str | None = None  # the first entry the host would not have written

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        try:
            if entry.kind == INTENT:
                self.pending.append(parse_intent(entry))
            elif entry.kind in (OUTCOME, RECOVERED):
                self._close(parse_outcome(entry), entry.seq)
        except AuditTampered as exc:
            self.problem = self.problem or exc.message

    def _close(self, outcome: Outcome, seq: int) -> None:
        spans = [(intent.seq, intent.number) for intent in self.pending]
        if not spans or (outcome.first, 0) != spans[0] or outcome.last != spans[-1][0]:
            raise AuditTampered(f"audit log entry {seq} closes a change that was not announced")
        if outcome.forward:
            for intent in self.pending:
                self._apply(intent)
        self.pending, self.usage = [], outcome.usage

    def _apply(self, intent: Intent) -> None:
        digest = intent.sha256
        self.touched[intent.name] = None
        if intent.source:
            digest = self.files.pop((intent.source, intent.name), "")
        if intent.to:
            self.files[(intent.to, intent.name)] = digest


def verify_files(
    directories: Directories, fold: Fold, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    """Yield every difference between the disk and the log."""
    if fold.problem is not None:
        yield Finding("audit", "log", fold.problem)
    expected: dict[str, dict[str, str]] = {directory: {} for directory in states.NAMES}
    for (directory, name), digest in fold.files.items():
        expected[directory][name] = digest
    seen = 0
    found = Usage()
    for directory, names in expected.items():
        for name in sorted(os.listdir(directories.fd(directory))):
            yield from _verify_file(directories, directory, name, names.pop(name, None), found)
            seen += 1
            if progress is not None:
                progress(seen)
        for name in sorted(names):
            yield Finding(directory, name, "is missing")
    if not fold.pending and found != fold.usage:
        yield Finding(states.HANDOFF, "usage", "the log counts other totals than lie on disk")


def _verify_file(
    directories: Directories, directory: str, name: str, digest: str | None, found: Usage
) -> Iterator[Finding]:
    fd = directories.fd(directory)
    try:
        ours = states.NAMES[directory].match(name) is not None
        data = read_file(fd, name, max_bytes=MAX_FILE_BYTES, mode=0o444 if ours else None)
    except (HandoffTampered, StorageFailed) as exc:
        yield Finding(directory, name, exc.message)
        return
    except FileNotFoundError:
        yield Finding(directory, name, "vanished while it was read")
        return
    if not ours:
        yield Finding(directory, name, "is not a file of ours", stray=True)
        return
    if directory != states.INCOMING:
        found.add(directory, files=1, size=len(data))
    if digest is None:
        yield Finding(directory, name, "is not in the log")
    elif sha256_hex(data) != digest:
        yield Finding(directory, name, "is not what the log recorded")
