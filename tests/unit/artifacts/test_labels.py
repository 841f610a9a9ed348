"""Labels only get worse: the join is a join."""

import itertools

import pytest

from threegate.artifacts.labels import INTEGRITY, LOWEST, Labels, check_origin, join_all
from threegate.artifacts.reasons import ArtifactReason
from threegate.base.errors import ArtifactRejected
from threegate.base.forms import CONFIDENTIALITY

ALL = [Labels(i, c) for i in INTEGRITY for c in CONFIDENTIALITY]


def test_join_is_commutative_associative_and_idempotent() -> None:
    for a, b, c in itertools.product(ALL, repeat=3):
        assert a.join(b) == b.join(a)
        assert a.join(b).join(c) == a.join(b.join(c))
        assert a.join(a) == a


def test_join_covers_both_and_is_the_least_that_does() -> None:
    for a, b in itertools.product(ALL, repeat=2):
        joined = a.join(b)
        assert joined.covers(a)
        assert joined.covers(b)
        assert all(other.covers(joined) for other in ALL if other.covers(a) and other.covers(b))


def test_one_external_or_confidential_source_taints_the_whole() -> None:
    public, secret = Labels("operator", "public"), Labels("operator", "confidential")
    assert join_all([public, secret, Labels("external", "public")]) == Labels(
        "external", "confidential"
    )
    assert join_all([]) == LOWEST
    assert join_all([public, public]) == public


def test_a_more_careful_label_is_not_covered() -> None:
    assert not LOWEST.covers(Labels("external", "public"))
    assert not LOWEST.covers(Labels("operator", "internal"))


@pytest.mark.parametrize(("origin", "parents"), [("core", ()), ("operator", ("rp-1",))])
# claim TG-C-12
def test_integrity_of_the_operator_cannot_be_claimed(origin: str, parents: tuple[str, ...]) -> None:
    check_origin("operator", "operator", ())
    check_origin(origin, "external", parents)
    with pytest.raises(ArtifactRejected) as refusal:
        check_origin(origin, "operator", parents)
    assert refusal.value.code == ArtifactReason.LABELS.code
