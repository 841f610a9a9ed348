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


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of leaf `index` (RFC 6962, 2.1.1), lowest sibling first."""
    if not 0 <= index < len(leaves):
        raise ValueError("no such leaf")
    path: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(root_of(leaves[middle:high]))
            high = middle
        else:
            path.append(root_of(leaves[low:middle]))
            low = middle
    return path[::-1]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the proof that the first `old_size` leaves are a prefix (RFC 6962, 2.1.2)."""
    if not 0 < old_size <= len(leaves):
        raise ValueError("no such earlier tree")
    path: list[bytes] = []
    low, high = 0, len(leaves)
    whole = True  # is the subtree at `low` the old tree itself, whose root the verifier has?
    while old_size != high:
        middle = low + _split(high - low)
        if old_size <= middle:
            path.append(root_of(leaves[middle:high]))
            high = middle
        else:
            path.append(root_of(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        path.append(root_of(leaves[low:high]))
    return path[::-1]


def verify_inclusion(
    leaf: bytes, *, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Return whether `proof` shows `leaf` at `index` of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and node == root


def verify_consistency(
    *, old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Return whether the old tree is a prefix of the new one (RFC 9162, 2.1.4.2)."""
    if old_size == size:
        return not proof and old_root == root
    if not 0 < old_size < size or not proof:
        return False
    path = list(proof) if old_size & (old_size - 1) else [old_root, *proof]
    position, last = old_size - 1, size - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and old == old_root and new == root


def _split(count: int) -> int:
    """Return the largest power of two smaller than `count`."""
    return 1 << ((count - 1).bit_length() - 1)
