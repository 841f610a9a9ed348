"""One workspace's artifacts: finding, reading and moving them.

SECURITY
    Every read checks the file, its digest and its grammar again: a file that was valid
    when it was written is still only a file.  Only whole ids reach the disk; short forms
    are resolved against the listing of real names.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import ID_HINT, is_id, is_short_id, prefix_of, sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.audit.segment import is_read_only
from threegate.base.errors import ArtifactRejected, HandoffTampered, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import (
    Directories,
    check_file,
    held,
    make_directories,
    open_lock,
    read_file,
)
from threegate.handoff.journal import MAX_FILE_BYTES, Journal, Move
from threegate.handoff.ledger import Ledger, Tail

AUDIT: Final = "audit"
MISPLACED: Final = "TG-HND-015"
OTHER_CONTENT: Final = "TG-HND-008"


class Store:
    """The files of one workspace and the journal that changes them."""

    def __init__(self, root: Path, directories: Directories, journal: Journal) -> None:
        self.root, self.directories, self.journal = root, directories, journal

    @property
    def read_only(self) -> bool:
        """Tell whether the files can only be read: nothing is recovered, nothing is written."""
        return self.journal.read_only

    @classmethod
    def create(cls, root: Path, *, workspace: str, clock: Callable[[], int]) -> None:
        """Make the directories and the log of a new workspace."""
        make_directories(root)
        AuditLog.create(root / AUDIT, workspace=workspace, clock=clock)

    @classmethod
    def open(cls, root: Path, *, clock: Callable[[], int]) -> "Store":
        """Open a workspace; an interrupted change is settled first.

        Not on a read-only file system: there `journal.unfinished` and `journal.log.is_torn` name
        the traces of a crash.
        """
        directories = Directories.open(root)
        handoff = os.open(root / states.HANDOFF, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            lock, read_only = open_lock(handoff), is_read_only(handoff)
        finally:
            os.close(handoff)
        tail, ledger = Tail(), Ledger()

        def visit(entry: Entry) -> None:
            tail.feed(entry)
            ledger.feed(entry)

        with held(lock):  # opening may have to recover a torn last line
            log = AuditLog.open(root / AUDIT, clock=clock, visit=visit, read_only=read_only)
        journal = Journal(directories, log, lock, {}, tail=tail, ledger=ledger, read_only=read_only)
        return cls(root, directories, journal)

    def locate(self, artifact_id: str) -> str | None:
        """Return the directory an artifact lies in, or None."""
        for directory in states.ARTIFACT_STATES[prefix_of(artifact_id)]:
            if check_file(self.directories.fd(directory), f"{artifact_id}.md") is not None:
                return directory
        return None

    def resolve(self, text: str) -> str:
        """Return the whole id for an id or a short form; raise `UsageError`."""
        if is_id(text):
            return text
        if not is_short_id(text):
            raise UsageError(f"{quote(text)} is not an artifact id", hint=ID_HINT)
        found = sorted(i for i in self.ids(prefix_of(text)) if i.startswith(text))
        if not found:
            raise UsageError(f"no artifact {quote(text)} in this workspace")
        if len(found) > 1:
            raise UsageError(f"{quote(text)} is the start of {len(found)} ids; give more digits")
        return found[0]

    def ids(self, prefix: str) -> Iterator[str]:
        """Yield the ids of a kind in any state, in no order."""
        for directory in states.ARTIFACT_STATES[prefix]:
            for name in self.names(directory):
                if name.startswith(prefix + "-") and name.endswith(".md"):
                    yield name.removesuffix(".md")

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names of our files in a directory; stray files are left out."""
        matches = states.NAMES[directory].match
        with os.scandir(self.directories.fd(directory)) as entries:
            for entry in entries:
                if matches(entry.name):
                    yield entry.name

    def read_bytes(self, artifact_id: str) -> bytes:
        """Return an artifact's bytes; raise `UsageError` or `HandoffTampered`."""
        # Another command may move it between lookup and read, so a few tries are needed.
        for _ in states.REQUEST_STATES:
            directory = self.locate(artifact_id)
            if directory is None:
                break
            with suppress(FileNotFoundError):
                return self.read_file(directory, f"{artifact_id}.md")
        raise UsageError(f"no artifact {artifact_id} in this workspace")

    def read(self, artifact_id: str) -> Artifact:
        """Return an artifact, parsed again from its checked bytes."""
        data = self.read_bytes(artifact_id)
        try:
            return registry.parse(Untrusted(data))
        except ArtifactRejected as exc:
            raise HandoffTampered(f"{artifact_id} does not parse: {exc.message}") from exc

    def read_file(self, directory: str, name: str) -> bytes:
        """Return a file's bytes after checking the digest in its name."""
        data = read_file(self.directories.fd(directory), name, max_bytes=MAX_FILE_BYTES)
        expected = states.content_digest_in(name)
        if expected is not None and sha256_hex(data) != expected:
            raise HandoffTampered(f"{name} is not what its name says", code=OTHER_CONTENT)
        return data

    def has_blob(self, digest: str) -> bool:
        """Tell whether the raw bytes with this digest are kept."""
        return self.holds(states.BLOBS, digest)

    @contextmanager
    def locked(self) -> Iterator[Journal]:
        """Hold the workspace for one transaction."""
        with self.journal.locked():
            yield self.journal

    def move(self, artifact_id: str, *, source: str, to: str, op: str) -> None:
        """Move a request or approval along one of the moves that exist."""
        prefix = prefix_of(artifact_id)
        moves = states.APPROVAL_MOVES if prefix == "ap" else states.REQUEST_MOVES
        if prefix not in ("fr", "tr", "ap") or (source, to) not in moves:
            raise UsageError(f"there is no way from {source} to {to} for {artifact_id}")
        with self.locked() as journal:
            self.refuse_unless(artifact_id, source)
            journal.run(op, list(self.moves(artifact_id, source=source, to=to)))

    def moves(self, artifact_id: str, *, source: str, to: str) -> Iterator[Move]:
        """Yield what moves a request or approval, with all that lies beside it."""
        prefix = prefix_of(artifact_id)
        before, after = states.directory_of(prefix, source), states.directory_of(prefix, to)
        for name in self._files_in(before, artifact_id):
            yield Move(before, after, name)

    def standing(self, artifact_id: str) -> str | None:
        """Return the state of a request or approval, None if it is in none; the lock is held.

        The state is what the log says.  Raises `HandoffTampered` unless its file lies there,
        and nowhere else.
        """
        name = f"{artifact_id}.md"
        found = [
            directory
            for directory in states.ARTIFACT_STATES[prefix_of(artifact_id)]
            if self.holds(directory, name)
        ]
        if not found:
            return None
        recorded = self.journal.ledger.place(name)
        if recorded is None or found != [recorded[0]]:
            home = None if recorded is None else recorded[0]
            wrong = next(directory for directory in found if directory != home)
            raise _misplaced(f"{name} is in {wrong}, where the log did not put it")
        return states.state_of(found[0])

    def refuse_unless(self, artifact_id: str, state: str) -> None:
        """Raise `UsageError` unless a request or approval is in a state; the lock is held."""
        if self.standing(artifact_id) != state:
            raise UsageError(f"{artifact_id} is not {state} (any more)")

    def read_recorded(self, directory: str, name: str) -> bytes:
        """Return the content of a file that the ledger keeps; the lock is held.

        Raises `HandoffTampered` if it is not what the log recorded.
        """
        recorded = self.journal.ledger.place(name)
        try:
            data = self.read_file(directory, name)
        except FileNotFoundError as exc:
            raise _misplaced(f"{name} is not in {directory}") from exc
        if recorded is None or recorded[0] != directory:
            raise _misplaced(f"{name} is in {directory}, where the log did not put it")
        if sha256_hex(data) != recorded[1]:
            raise _misplaced(f"{name} is not what the log recorded")
        return data

    def files_of(self, artifact_id: str) -> list[str]:
        """Return the names of the files an artifact in a state consists of."""
        directory = self.locate(artifact_id)
        return [] if directory is None else self._files_in(directory, artifact_id)

    def _files_in(self, directory: str, artifact_id: str) -> list[str]:
        beside = [artifact_id + suffix for suffix in states.BESIDE]
        ours = [name for name in beside if states.NAMES[directory].match(name)]
        return [f"{artifact_id}.md", *(name for name in ours if self.holds(directory, name))]

    def holds(self, directory: str, name: str) -> bool:
        """Tell whether a file of ours lies in a directory."""
        return check_file(self.directories.fd(directory), name) is not None

    def close(self) -> None:
        """Close the descriptors."""
        self.directories.close()
        self.journal.close()


def _misplaced(detail: str) -> HandoffTampered:
    return HandoffTampered(detail, code=MISPLACED)


# A file that is not where or what the log says is set aside so that the others proceed.
#
# SECURITY: such a file is evidence of tampering and is never used. This code only decides whether
# it stops the command at once or is named at its end. Without a list to name it in, it stops the
# command.

Aside = dict[str, HandoffTampered] | None  # by the id of the request
OF_ONE_FILE: Final = (MISPLACED, OTHER_CONTENT)


@contextmanager
def set_aside(aside: Aside, request_id: str) -> Iterator[None]:
    """Note in `aside` that this request was tampered with; raise any error about more than it."""
    try:
        yield
    except HandoffTampered as exc:
        if aside is None or exc.code not in OF_ONE_FILE:
            raise
        aside[request_id] = exc
