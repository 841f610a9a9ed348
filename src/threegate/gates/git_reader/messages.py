"""Messages between the host and the sandbox that reads objects of a git repository.

The host asks for the files of a commit, then for the bytes of blobs or for the changes between two
blobs.  A path is spelled like the location of a packet: percent-encoded, `/` between its parts.

SECURITY
    The sandbox reads a stranger's repository.  The host takes from it paths in one spelling, object
    ids, words of fixed lists and bounded bytes; it compares the bytes of each blob with its id.  A
    compromised sandbox can invent a commit's list of files.  It cannot send another path grammar,
    more bytes than allowed, or bytes of another id.
"""

from typing import Final

from threegate.base.forms import GIT_PATH
from threegate.base.limits import MIB
from threegate.base.message_parts import JsonPart, RawPart, RawParts
from threegate.base.message_shapes import RowShape
from threegate.base.messages import Message, head, message, parser_of, part
from threegate.base.schema import Boolean, Choice, ListOf, Nullable, Pattern
from threegate.base.wire import need

PROTOCOL: Final = "git-reader/1"
MAX_FILES: Final = 50_000  # of one commit
MAX_LIST_BYTES: Final = 16 * MIB
MAX_BLOBS: Final = 64  # in one message
MAX_BLOB_BYTES: Final = 4 * MIB
MAX_BLOBS_BYTES: Final = 8 * MIB  # of one answer
MAX_DIFFS: Final = 16  # files in one message
MAX_DIFF_BYTES: Final = 2 * MIB  # of one answer

FILE: Final = "file"
LINK: Final = "link"
SUBMODULE: Final = "submodule"
BAD_NAME: Final = "bad-name"
KINDS: Final = (BAD_NAME, FILE, LINK, SUBMODULE)

READ: Final = "read"
MISSING: Final = "missing"
DAMAGED: Final = "damaged"
TOO_LARGE: Final = "too-large"
BINARY: Final = "binary"

AMBIGUOUS: Final = "ambiguous"
NOT_A_COMMIT: Final = "not-a-commit"
TOO_MANY: Final = "too-many"
TOO_DEEP: Final = "too-deep"
UNREADABLE: Final = "unreadable"

OBJECT_ID: Final = Pattern("[0-9a-f]{40}(?:[0-9a-f]{24})?", "the id of a git object")
_REVISION: Final = Pattern("[0-9a-f]{4,64}", "the beginning of an object's id")


@message(PROTOCOL, "list", sender="host", answer="`CommitListed` or `CommitNotListed`")
class ListCommit(Message):
    """A commit, or a tag of one, whose files the host wants to know."""

    revision: str = head(_REVISION, "its id, or the beginning of it")
    sha256: bool = head(Boolean(), "whether ids of the repository are SHA-256, else SHA-1")


@message(PROTOCOL, "listed", sender="sandbox")
class CommitListed(Message):
    """The files of a commit, in the order of its trees."""

    commit: str = head(OBJECT_ID, "the id of the commit")
    files: tuple[tuple[str, str, str], ...] = part(
        JsonPart(ListOf(RowShape(GIT_PATH, Choice(*KINDS), OBJECT_ID), MAX_FILES), MAX_LIST_BYTES),
        "path, kind and object id of each",
    )


@message(PROTOCOL, "not-listed", sender="sandbox")
class CommitNotListed(Message):
    """The files of the commit are not known."""

    reason: str = head(
        Choice(
            AMBIGUOUS, DAMAGED, MISSING, NOT_A_COMMIT, TOO_DEEP, TOO_LARGE, TOO_MANY, UNREADABLE
        ),
        "why",
    )


@message(PROTOCOL, "read", sender="host", answer="`BlobsRead`")
class ReadBlobs(Message):
    """Blobs whose bytes the host wants."""

    ids: tuple[str, ...] = head(ListOf(OBJECT_ID, MAX_BLOBS), "their object ids")


@message(PROTOCOL, "blobs", sender="sandbox")
class BlobsRead(Message):
    """The first blobs of those that were asked for, as many as fit into one answer."""

    states: tuple[str, ...] = head(
        ListOf(Choice(DAMAGED, MISSING, READ, TOO_LARGE), MAX_BLOBS), "of each blob"
    )
    blobs: tuple[bytes, ...] = part(
        RawParts(MAX_BLOBS, MAX_BLOB_BYTES, total_bytes=MAX_BLOBS_BYTES + MAX_BLOB_BYTES),
        "the bytes of those that were read",
    )

    def check(self) -> None:
        need(len(self.states) > 0, "no answer to the first blob")
        need(self.states.count(READ) == len(self.blobs), "not as many blobs as said")


@message(PROTOCOL, "compare", sender="host", answer="`BlobsCompared`")
class CompareBlobs(Message):
    """Files of which the host wants the changes: path, blob before, blob after."""

    files: tuple[tuple[str, str | None, str | None], ...] = head(
        ListOf(RowShape(GIT_PATH, Nullable(OBJECT_ID), Nullable(OBJECT_ID)), MAX_DIFFS),
        "the files; null where there was or is none",
    )


@message(PROTOCOL, "compared", sender="sandbox")
class BlobsCompared(Message):
    """The changes of the first files of those that were asked for."""

    states: tuple[str, ...] = head(
        ListOf(Choice(BINARY, DAMAGED, MISSING, READ, TOO_LARGE), MAX_DIFFS), "of each file"
    )
    diff: bytes = part(RawPart(2 * MAX_DIFF_BYTES), "a unified diff of those that were read")

    def check(self) -> None:
        need(len(self.states) > 0, "no answer to the first file")


parse_asked: Final = parser_of(ListCommit, ReadBlobs, CompareBlobs)
parse_listed: Final = parser_of(CommitListed, CommitNotListed)
parse_blobs: Final = parser_of(BlobsRead)
parse_compared: Final = parser_of(BlobsCompared)
