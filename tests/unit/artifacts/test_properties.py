"""What holds for every parser and any bytes: a typed value or `ArtifactRejected`, one spelling."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import vectors
from tests.support.samples import one_of_each
from tests.support.strategies import BY_PREFIX, mutated
from threegate.artifacts.draft import complete_draft, is_draft
from threegate.artifacts.registry import FORMATS, Artifact, emit, id_of, parse
from threegate.base.errors import ArtifactRejected
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted

SAMPLES = {prefix: emit(artifact) for prefix, artifact in one_of_each().items()}
DRAFTS = [vector.data for vector in vectors.load("accept") if vector.is_draft]
STORED = [vector.data for vector in vectors.load("accept") if not vector.is_draft]
DEEP = {900, 950, *range(960, 1000), 5000, 100_000}


def is_raw(message: str) -> bool:
    """Tell whether a message holds a character that acts on a terminal or hides in it."""
    return FORBIDDEN.search(message) is not None or "\n" in message or "\t" in message


def read(data: bytes) -> Artifact | None:
    """Return the artifact or None; anything but a rejection is a failure of the test."""
    try:
        artifact = parse(Untrusted(data))
    except ArtifactRejected as exc:
        assert exc.code.startswith("TG-ART-")
        assert not is_raw(exc.message), "foreign text reaches nobody raw"
        return None
    assert emit(artifact) == data, "accepted, so this is its one spelling"
    return artifact


@given(st.binary(max_size=300))
# claim TG-C-03
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    assert read(data) is None


@pytest.mark.parametrize("prefix", FORMATS)
@given(tail=st.binary(max_size=300))
def test_any_bytes_behind_a_valid_first_line_are_read_or_rejected(prefix: str, tail: bytes) -> None:
    assert read(f'---\nformat: "{prefix}/1"\n'.encode("ascii") + tail) is None


@pytest.mark.parametrize("prefix", FORMATS)
@given(data=st.data())
@settings(max_examples=300)
def test_changed_artifacts_are_read_or_rejected(prefix: str, data: st.DataObject) -> None:
    read(data.draw(mutated([SAMPLES[prefix]])))


@given(mutated(STORED))
@settings(max_examples=300)
def test_changed_vectors_are_read_or_rejected(data: bytes) -> None:
    read(data)


@pytest.mark.parametrize("prefix", FORMATS)
@given(data=st.data())
@settings(max_examples=60)
def test_typed_value_is_spelled_and_read_back_equal(prefix: str, data: st.DataObject) -> None:
    artifact = data.draw(BY_PREFIX[prefix])
    spelled = emit(artifact)
    again = parse(Untrusted(spelled))
    assert again == artifact
    assert (emit(again), id_of(again)) == (spelled, id_of(artifact))


@pytest.mark.parametrize("prefix", FORMATS)
# claim TG-C-10
def test_one_changed_byte_is_another_artifact_or_none(prefix: str) -> None:
    spelled = SAMPLES[prefix]
    original = id_of(parse(Untrusted(spelled)))
    for at in range(0, len(spelled), 7):
        changed = spelled[:at] + bytes([spelled[at] ^ 1]) + spelled[at + 1 :]
        artifact = read(changed)
        assert artifact is None or id_of(artifact) != original


@pytest.mark.parametrize("depth", sorted(DEEP))
# claim TG-C-15
def test_deep_nesting_is_rejected_at_every_depth_of_the_stack(depth: int) -> None:
    # Decoder and encoder reach the recursion limit at different depths: between them lay a crash.
    nest = b"[" * depth + b"]" * depth
    spelled = SAMPLES["rp"].replace(b"raw_bytes: 3", b"raw_bytes: " + nest)
    assert read(spelled) is None
    draft = DRAFTS[0].replace(b'/1"\n', b'/1"\nargv: ' + nest + b"\n", 1)
    with pytest.raises(ArtifactRejected):
        complete_draft(Untrusted(draft), created=vectors.CREATED, nonce=vectors.NONCE)


def test_a_stack_that_is_nearly_full_gives_a_rejection_too() -> None:
    nest = SAMPLES["rp"].replace(b"raw_bytes: 3", b"raw_bytes: " + b"[" * 200 + b"]" * 200)

    def sink(depth: int) -> Artifact | None:
        return sink(depth - 1) if depth else read(nest)

    assert sink(sys.getrecursionlimit() - 400) is None


@given(st.binary(max_size=300) | mutated(DRAFTS))
@settings(max_examples=500)
def test_any_draft_is_completed_or_rejected(data: bytes) -> None:
    box = Untrusted(data)
    assert is_draft(box) in (True, False)
    try:
        request = complete_draft(box, created=vectors.CREATED, nonce=vectors.NONCE)
    except ArtifactRejected as exc:
        assert exc.code.startswith("TG-ART-")
        assert not is_raw(exc.message)
        return
    assert parse(Untrusted(emit(request))) == request
    assert (request.origin, request.derived_from) == ("operator", ())
    assert (request.created, request.nonce) == (vectors.CREATED, vectors.NONCE)
