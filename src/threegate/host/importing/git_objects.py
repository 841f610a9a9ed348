"""The host's side of a git-reader sandbox: lists of files, bytes of blobs, changes.

SECURITY
    Takes paths, ids and bytes from a sandbox that reads a stranger's repository.  Messages are
    parsed by their grammar, and the bytes of a blob must have the id they were asked by.
"""

from collections.abc import Callable, Sequence
from hashlib import sha1, sha256
from types import TracebackType
from typing import Final, Self, TypeVar

from threegate.base.errors import ArtifactRejected, ProtocolBroken, UsageError
from threegate.base.untrusted import Untrusted
from threegate.gates.git_reader import messages
from threegate.gates.git_reader.messages import (
    MAX_BLOBS,
    MAX_DIFFS,
    READ,
    CommitListed,
    CommitNotListed,
    CompareBlobs,
    ListCommit,
    ReadBlobs,
)
from threegate.host.importing.git_repository import NO_SUCH_REVISION, GitRepository
from threegate.host.open_box import ended, open_box
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import GIT_READER
from threegate.sandbox.session import Session

T = TypeVar("T")

NOT_LISTED: Final = "TG-GIT-003"
NOT_READ: Final = "TG-GIT-004"
_SECONDS: Final = 300.0
_ALTERNATES: Final = "its objects are partly in another repository: `git repack -a -d` copies them"
_AS_ROOT: Final = (
    "root's sandboxes have uids of their own: import as the owner of the repository, or "
    "`chmod -R go+rX .git/objects`"
)
_WHY_NOT_LISTED: Final = {
    messages.AMBIGUOUS: "several objects begin like this",
    messages.DAMAGED: "an object of the commit is damaged",
    messages.MISSING: "there is no such object, or one of the commit is missing",
    messages.NOT_A_COMMIT: "it is not a commit",
    messages.TOO_DEEP: "its folders are nested too deeply",
    messages.TOO_LARGE: "its packs or trees are too large",
    messages.TOO_MANY: f"it has more than {messages.MAX_FILES} files or folders",
    messages.UNREADABLE: "its objects cannot be read by the sandbox",
}
_WHY_NOT_READ: Final = {
    messages.BINARY: "it is not text",
    messages.DAMAGED: "its object is damaged",
    messages.MISSING: "its object is missing",
    messages.TOO_LARGE: "it is too large",
}


class GitObjects:
    """One session of the sandbox; used by one thread."""

    def __init__(self, repository: GitRepository, bundle: Bundle) -> None:
        self._repository = repository
        given = {"objects": str(repository.objects)}
        self._session = open_box(Session.open, find_machine(), bundle, GIT_READER, given)
        self._wanted: list[str] = []
        self._next = 0  # place in `_wanted` of what is read next
        self._blobs: dict[str, bytes | ArtifactRejected] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def commit(self, revision: str) -> CommitListed:
        """Return the files of a commit; raise `UsageError` if that cannot be had."""
        asked = ListCommit(self._repository.resolve(revision), self._repository.sha256)
        found = self._ask(asked.to_bytes(), messages.parse_listed)
        if isinstance(found, CommitNotListed):
            missing = found.reason == messages.MISSING and self._repository.has_alternates
            code = NO_SUCH_REVISION if found.reason == messages.MISSING else NOT_LISTED
            why = _WHY_NOT_LISTED[found.reason]
            hint = _AS_ROOT if found.reason == messages.UNREADABLE else ""
            raise UsageError(why, code=code, hint=_ALTERNATES if missing else hint)
        return found

    def want(self, ids: Sequence[str]) -> None:
        """Say which blobs are read next, in this order: they come many at a time."""
        self._wanted, self._next, self._blobs = list(ids), 0, {}

    def blob(self, name: str) -> bytes:
        """Return the bytes of a blob, or raise `ArtifactRejected`."""
        if name not in self._blobs:
            self._read(name)
        found = self._blobs[name]
        if isinstance(found, ArtifactRejected):
            raise found
        return found

    def _read(self, name: str) -> None:
        """Read a blob, and with it those that are wanted next."""
        ids = [name]
        if name in self._wanted[self._next :]:
            start = self._wanted.index(name, self._next)
            ids = self._wanted[start : start + MAX_BLOBS]
            self._next = start + 1
        found = self._ask(ReadBlobs(tuple(ids)).to_bytes(), messages.parse_blobs)
        if len(found.states) > len(ids):
            raise ended(GIT_READER, "protocol")
        blobs = iter(found.blobs)
        self._blobs = {}  # files are asked for in order: what came before is done with
        for one, state in zip(ids, found.states, strict=False):
            data = next(blobs) if state == READ else b""
            right = state != READ or _has_id(data, one)
            self._blobs[one] = (
                data if state == READ and right else not_read(state if right else messages.DAMAGED)
            )

    def changes(
        self, files: Sequence[tuple[str, str | None, str | None]]
    ) -> tuple[bytes, list[tuple[str, ArtifactRejected]]]:
        """Return a unified diff of some files, and those that have none with the reason."""
        diff: list[bytes] = []
        refused: list[tuple[str, ArtifactRejected]] = []
        left = list(files)
        while left:
            asked = left[:MAX_DIFFS]
            found = self._ask(CompareBlobs(tuple(asked)).to_bytes(), messages.parse_compared)
            if len(found.states) > len(asked):
                raise ended(GIT_READER, "protocol")
            diff.append(found.diff)
            for (path, _, _), state in zip(asked, found.states, strict=False):
                if state != READ:
                    refused.append((path, not_read(state)))
            left = left[len(found.states) :]
        return b"".join(diff), refused

    def _ask(self, request: bytes, parse: Callable[[Untrusted[bytes]], T]) -> T:
        reply = self._session.ask(request, deadline_seconds=_SECONDS)
        if reply.why != "done":
            raise ended(GIT_READER, reply.why)
        try:
            return parse(Untrusted(reply.message))
        except ProtocolBroken as exc:
            self._session.close()
            raise ended(GIT_READER, "protocol") from exc


def not_read(state: str) -> ArtifactRejected:
    """Return the refusal of a blob."""
    hint = _ALTERNATES if state == messages.MISSING else ""
    return ArtifactRejected(_WHY_NOT_READ[state], code=NOT_READ, hint=hint)


def _has_id(data: bytes, name: str) -> bool:
    kind = sha1 if len(name) == 40 else sha256
    return kind(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest() == name
