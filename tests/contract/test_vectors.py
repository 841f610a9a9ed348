"""The vectors are what another implementation would run: this one runs them first."""

from pathlib import Path

import pytest

from tests.support import vectors
from tests.support.vectors import Vector
from threegate.artifacts import registry
from threegate.artifacts.ids import is_id, make_id, prefix_of
from threegate.artifacts.reasons import ArtifactReason
from threegate.base.errors import ArtifactRejected

ACCEPT, REJECT = vectors.load("accept"), vectors.load("reject")


@pytest.mark.parametrize("vector", ACCEPT, ids=lambda vector: vector.name)
def test_accept_vector_is_read_named_and_spelled_again(vector: Vector) -> None:
    spelled = registry.emit(vector.parse())
    assert make_id(prefix_of(vector.expect), spelled) == vector.expect
    assert is_id(vector.expect)
    assert vector.is_draft or spelled == vector.data


@pytest.mark.parametrize("vector", REJECT, ids=lambda vector: vector.name)
# claim TG-C-573
def test_reject_vector_is_refused_with_its_code(vector: Vector) -> None:
    with pytest.raises(ArtifactRejected) as refusal:
        vector.parse()
    assert refusal.value.code == vector.expect
    assert vector.name.startswith(f"reject/{vector.expect.removeprefix('TG-ART-')}-")


@pytest.mark.parametrize("reason", ArtifactReason, ids=lambda reason: reason.code)
def test_every_rule_has_a_reject_vector(reason: ArtifactReason) -> None:
    assert [vector.name for vector in REJECT if vector.expect == reason.code]


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_every_format_has_vectors_on_both_sides(prefix: str) -> None:
    start = f'---\nformat: "{prefix}/1"\n'.encode("ascii")
    for side in (ACCEPT, REJECT):
        assert [v for v in side if not v.is_draft and v.data.startswith(start)]


def test_codes_are_unique_and_stay_in_their_family() -> None:
    codes = [reason.code for reason in ArtifactReason]
    assert codes == [f"TG-ART-{number:03}" for number in range(1, len(codes) + 1)]


def test_a_loader_that_finds_nothing_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert vectors.load("accept"), "control: there are vectors in the real place"
    monkeypatch.setattr(vectors, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError):
        vectors.load("accept")


def test_an_unknown_header_is_no_silent_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_bytes(b"expect: TG-ART-001\nskip: yes\n\n")
    with pytest.raises(ValueError, match="unknown header"):
        vectors.read(path)


@pytest.mark.parametrize("data", [b"plain\n", b"no end", b"\r\n", b"\xff\n", b"a\n\nb\n", b""])
def test_a_vector_written_reads_back(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    vector = Vector(f"{tmp_path.name}/x.md", "TG-ART-001", data, is_draft=True)
    path.write_bytes(vector.dump())
    assert vectors.read(path) == vector
