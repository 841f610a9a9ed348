"""RFC 6962 Merkle tree: root from a frontier, inclusion and consistency proofs.

The frontier (the roots of the complete subtrees, largest first) is all that is needed
to go on adding leaves, so the root of a log of any size costs a few hundred bytes.

SECURITY
    `verify_inclusion` and `verify_consistency` judge proofs made by others: they take
    any bytes and any numbers and answer yes or no.  Leaf and node hashes carry
    different prefixes, so a node can never be passed off as a leaf (RFC 6962, 2.1).
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one entry."""
    return sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above `left` and `right`."""
    return sha256(b"\1" + left + right).digest()


class Tree:
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

    def copy(self) -> "Tree":
        """Return a tree that can grow without changing this one."""
        twin = Tree()
        twin._size, twin._frontier = self._size, self._frontier.copy()
        return twin


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over `leaves` (leaf hashes)."""
    tree = Tree()
    tree.extend(leaves)
    return tree.root()
