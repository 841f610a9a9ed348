"""What the operator names: words, lists, ids; each once, and what is wrong said once."""

import io
from pathlib import Path

import pytest

from threegate.artifacts.references import DEFAULT_ENRICH, ENRICHERS
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.host.fetch.targets import NamedTargets, read_enrich, read_targets

REQUEST = "fr-" + "a" * 64


def chosen(
    *words: str, files: tuple[str, ...] = (), stdin: bytes = b""
) -> tuple[NamedTargets, list[str]]:
    notes: list[str] = []
    found = read_targets(
        words,
        files,
        stdin=io.BytesIO(stdin),
        resolve=lambda text: REQUEST if text.startswith("fr-") else text,
        note=notes.append,
    )
    return found, notes


def test_each_is_named_once_in_its_one_spelling() -> None:
    found, _ = chosen("doi:10.5555/A", "https://doi.org/10.5555/a", "fr-" + "a" * 12, REQUEST)
    assert [item.text for item in found.references] == ["doi:10.5555/a"]
    assert found.requests == (REQUEST,)


def test_a_list_joins_what_was_named(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("doi:10.5555/b  # the second\nnonsense\ndoi:10.5555/a\n")
    found, notes = chosen("doi:10.5555/a", files=(str(file),))
    assert [item.value for item in found.references] == ["10.5555/a", "10.5555/b"]
    assert len(notes) == 1
    assert "line 2" in notes[0]


def test_many_problems_are_told_in_few_lines() -> None:
    _, notes = chosen(files=("-",), stdin=b"nonsense\n" * 50 + b"doi:10.5555/1\n")
    assert len(notes) == 11
    assert notes[-1] == "standard input: 40 more lines are not references"


@pytest.mark.parametrize("word", ["tr-" + "a" * 64, "rp-" + "a" * 64, "ap-" + "a" * 64])
def test_another_artifact_is_no_fetch_request(word: str) -> None:
    with pytest.raises(UsageError, match="is not a fetch request"):
        chosen(word)


def test_what_is_no_list_is_refused_as_a_whole() -> None:
    with pytest.raises(ArtifactRejected) as refused:
        chosen(files=("-",), stdin=b"\xff\xfe")
    assert refused.value.code == "TG-FET-076"
    with pytest.raises(UsageError, match="cannot open it"):
        chosen(files=("/nowhere/list.bib",))


@pytest.mark.parametrize("data", [b"", b"# later\n", b"%PDF-1.7\n", b"@misc{a, title={X}}\n"])
def test_a_list_that_names_nothing_is_no_list(data: bytes) -> None:
    with pytest.raises(ArtifactRejected, match="standard input names nothing to fetch") as refused:
        chosen(files=("-",), stdin=data)
    assert refused.value.code == "TG-FET-076"


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        (None, DEFAULT_ENRICH),
        ("none", ()),
        ("all", ENRICHERS),
        ("openalex, unpaywall,openalex", ("openalex", "unpaywall")),
    ],
)
def test_who_enriches(text: str | None, sources: tuple[str, ...]) -> None:
    assert read_enrich(text) == sources


@pytest.mark.parametrize("text", ["", "wikipedia", "openalex;europepmc", "None"])
def test_who_does_not(text: str) -> None:
    with pytest.raises(UsageError, match="is not a source for --enrich"):
        read_enrich(text)
