"""Checkpoint: size and Merkle root of the log at one moment, in three lines to keep elsewhere.

    threegate/<workspace>
    <number of entries>
    <Merkle root, base64>

The text is the body of a C2SP checkpoint.  Its signature is a detached SSH signature
over exactly these bytes in the namespace `threegate-checkpoint`; `host/workspace/log_signatures.py`
makes and checks it.  A chain alone cannot show that its end was cut off, or that its
last entry was changed; a checkpoint kept on another machine can.

SECURITY
    `parse_checkpoint` reads bytes that come back from outside.  It accepts exactly what
    `emit_checkpoint` writes, so what was signed is what is compared.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from threegate.audit.entry import MAX_CHECKPOINT_BYTES, MAX_TREE_SIZE
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

# RFC 6962 Merkle tree: the root, computed from a frontier.
#
# The frontier (the roots of the complete subtrees, largest first) is all that is needed to add
# leaves, so the root of a log of any size costs a few hundred bytes. Leaf and node hashes carry
# different prefixes, so a node cannot be passed off as a leaf (RFC 6962, section 2.1).

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above `left` and `right`."""
    return sha256(b"\1" + left + right).digest()


class MerkleTree:
    """A growing tree that remembers only its frontier."""

    __slots__ = ("_frontier", "_size")

    def __init__(self, *, size: int = 0, frontier: Sequence[bytes] = ()) -> None:
        """Go on from `frontier`; raise ValueError if no tree of `size` has that many roots."""
        if size < 0 or len(frontier) != size.bit_count():
            raise ValueError("the frontier does not belong to a tree of this size")
        if any(len(root) != HASH_BYTES for root in frontier):
            raise ValueError("a frontier holds SHA-256 digests")
        self._size = size
        self._frontier = list(frontier)

    @property
    def size(self) -> int:
        """Return the number of leaves."""
        return self._size

    @property
    def frontier(self) -> tuple[bytes, ...]:
        """Return the roots of the complete subtrees, largest first."""
        return tuple(self._frontier)

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaf hashes at the right."""
        level, bits = list(leaves), self._size
        self._size += len(level)
        added: list[bytes] = []
        while level:  # from the leaves up: pair what is there, keep what is left over
            if bits & 1:
                level.insert(0, self._frontier.pop())
            bits >>= 1
            if len(level) & 1:
                added.append(level.pop())
            pairs = iter(level)
            level = [
                sha256(b"\1" + left + right).digest()
                for left, right in zip(pairs, pairs, strict=True)
            ]
        self._frontier.extend(reversed(added))

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._frontier:
            return EMPTY_ROOT
        *rest, root = self._frontier
        for left in reversed(rest):
            root = node_hash(left, root)
        return root

    def copy(self) -> "MerkleTree":
        """Return a tree that can grow without changing this one."""
        twin = MerkleTree()
        twin._size, twin._frontier = self._size, self._frontier.copy()
        return twin


CODE = "TG-AUD-004"
WORKSPACE_ID = re.compile(r"[0-9a-z][0-9a-z-]{0,63}")

_TEXT = re.compile(
    rb"threegate/(?P<origin>[0-9a-z][0-9a-z-]{0,63})\n"
    rb"(?P<size>0|[1-9][0-9]{0,15})\n"
    rb"(?P<root>[A-Za-z0-9+/]{43}=)\n"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`size` entries of workspace `origin` have the Merkle root `root`."""

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        """Refuse a value that has no text."""
        if not WORKSPACE_ID.fullmatch(self.origin):
            raise ArtifactRejected("checkpoint names no workspace", code=CODE)
        if not 0 <= self.size <= MAX_TREE_SIZE or len(self.root) != HASH_BYTES:
            raise ArtifactRejected("checkpoint has no such size or root", code=CODE)


def emit_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the three lines of `checkpoint`: the bytes that are signed."""
    root = base64.b64encode(checkpoint.root).decode("ascii")
    return f"threegate/{checkpoint.origin}\n{checkpoint.size}\n{root}\n".encode("ascii")


def parse_checkpoint(data: Untrusted[bytes]) -> Checkpoint:
    """Return the checkpoint in `data`, or raise ArtifactRejected."""
    untrusted = data.open_for_validation()
    if len(untrusted) > MAX_CHECKPOINT_BYTES:
        raise ArtifactRejected("checkpoint is too long", code=CODE)
    match = _TEXT.fullmatch(untrusted)
    if match is None:
        raise ArtifactRejected("checkpoint is not three lines of the known form", code=CODE)
    try:
        root = base64.b64decode(match["root"], validate=True)
    except binascii.Error as exc:
        raise ArtifactRejected("checkpoint root is not base64", code=CODE) from exc
    checkpoint = Checkpoint(match["origin"].decode(), int(match["size"]), root)
    # base64 of 32 bytes has spare bits in its last digit: only one spelling counts.
    if emit_checkpoint(checkpoint) != untrusted:
        raise ArtifactRejected("checkpoint root has another spelling", code=CODE)
    return checkpoint
