"""The payload of a git-reader sandbox: files of commits, bytes of blobs and changes, on request.

SECURITY
    Reads the objects of a repository that a stranger may have made.  Only messages of `messages`
    leave; an unexpected error ends the sandbox, and its text stays inside.
"""

from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.git_reader.changes import compare
from threegate.gates.git_reader.messages import (
    DAMAGED,
    MAX_BLOB_BYTES,
    MAX_BLOBS_BYTES,
    MISSING,
    READ,
    TOO_LARGE,
    UNREADABLE,
    BlobsCompared,
    BlobsRead,
    CommitListed,
    CommitNotListed,
    ListCommit,
    ReadBlobs,
    parse_asked,
)
from threegate.gates.git_reader.objects import BLOB, ObjectRefused, ObjectStore
from threegate.gates.git_reader.trees import list_commit
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.payload import ANSWERS_FD, REQUESTS_FD

OBJECTS: Final = "/in/objects"


def serve() -> None:
    """Answer until the host hangs up; the payload of a git-reader sandbox; never returns."""
    payload.serve_abruptly(_serve)


def _serve() -> int:
    reader = GitReader(OBJECTS)
    while (message := read_message(REQUESTS_FD, parse_asked.most_bytes)) is not None:
        write_message(ANSWERS_FD, reader.answer(message))
    return 0


class GitReader:
    """Answers questions about one repository."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._store: ObjectStore | None = None

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message of the host."""
        asked = parse_asked(Untrusted(message))
        if isinstance(asked, ListCommit):
            return self._list(asked).to_bytes()
        if isinstance(asked, ReadBlobs):
            return self._read(asked).to_bytes()
        store = self._store
        if store is None:
            return BlobsCompared((MISSING,) * len(asked.files), b"").to_bytes()
        return compare(store, asked).to_bytes()

    def _list(self, asked: ListCommit) -> CommitListed | CommitNotListed:
        try:
            self._store = self._store or ObjectStore(self._place, sha256=asked.sha256)
            return list_commit(self._store, asked.revision)
        except ObjectRefused as exc:
            return CommitNotListed(exc.reason)
        except (MemoryError, RecursionError):
            return CommitNotListed(TOO_LARGE)

    def _read(self, asked: ReadBlobs) -> BlobsRead:
        states: list[str] = []
        blobs: list[bytes] = []
        size = 0
        for name in asked.ids:
            if size >= MAX_BLOBS_BYTES:
                break
            state, data = self._blob(name)
            states.append(state)
            if state == READ:
                blobs.append(data)
                size += len(data)
        return BlobsRead(tuple(states), tuple(blobs))

    def _blob(self, name: str) -> tuple[str, bytes]:
        if self._store is None:
            return MISSING, b""
        try:
            found = self._store.get(name, MAX_BLOB_BYTES)
        except ObjectRefused as exc:
            return (MISSING if exc.reason == UNREADABLE else exc.reason), b""
        except MemoryError:
            return TOO_LARGE, b""
        return (READ, found.data) if found.kind == BLOB else (DAMAGED, b"")
