"""RFC 6962: published roots, and every root against the recursive definition."""

from collections.abc import Sequence
from hashlib import sha256

import pytest

from tests.support.auditlab import leaf_hash, root_of
from threegate.audit.checkpoint import EMPTY_ROOT, MerkleTree

# The inputs and roots of the certificate-transparency reference implementation.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(data) for data in INPUTS]
MANY = [leaf_hash(b"%d" % number) for number in range(70)]


# -- the definitions of RFC 6962, section 2.1, word for word ------------------------


def split(count: int) -> int:
    k = 1
    while k * 2 < count:
        k *= 2
    return k


def mth(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def path(m: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*path(m, leaves[:k]), mth(leaves[k:])]
    return [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m: int, leaves: Sequence[bytes], *, whole: bool) -> list[bytes]:
    if m == len(leaves):
        return [] if whole else [mth(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], whole=whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], whole=False), mth(leaves[:k])]


# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(9))
def test_published_roots(size: int) -> None:
    assert root_of(LEAVES[:size]).hex() == ROOTS[size] == mth(LEAVES[:size]).hex()


def test_empty_tree() -> None:
    assert MerkleTree().root() == EMPTY_ROOT == mth([])
    assert MerkleTree().frontier == ()


@pytest.mark.parametrize("size", range(71))
def test_root_is_the_recursive_definition_however_the_leaves_arrive(size: int) -> None:
    expected = mth(MANY[:size])
    for step in (1, 2, 3, 7, 64):
        tree = MerkleTree()
        for start in range(0, size, step):
            tree.extend(MANY[start : min(size, start + step)])
        assert (tree.size, tree.root()) == (size, expected)


@pytest.mark.parametrize("size", range(70))
def test_frontier_is_enough_to_go_on(size: int) -> None:
    tree = MerkleTree()
    tree.extend(MANY[:size])
    again = MerkleTree(size=size, frontier=tree.frontier)
    again.extend(MANY[size:])
    assert again.root() == mth(MANY)


def test_copy_grows_alone() -> None:
    tree = MerkleTree()
    tree.extend(MANY[:5])
    tree.copy().extend(MANY[5:])
    assert (tree.size, tree.root()) == (5, mth(MANY[:5]))


@pytest.mark.parametrize(("size", "roots"), [(3, 1), (0, 1), (4, 2), (-1, 0)])
def test_frontier_of_another_size_is_refused(size: int, roots: int) -> None:
    with pytest.raises(ValueError, match="size"):
        MerkleTree(size=size, frontier=[b"\0" * 32] * roots)


def test_frontier_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        MerkleTree(size=1, frontier=[b"\0" * 31])


def test_a_node_is_not_a_leaf() -> None:
    """Second preimage: two hashes written as an entry are not the node above them."""
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != mth(LEAVES[:2])
