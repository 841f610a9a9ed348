"""ask by meaning: the real embedder in its box finds what no word of the question names."""

from pathlib import Path

from tests.support import models
from tests.support.cli import write
from tests.support.core_doubles import asker
from tests.support.holdings import shelf
from threegate.artifacts import registry
from threegate.host.models.catalogue import MINILM
from threegate.host.workspace.vectors import VectorStore


def test_a_source_is_found_by_what_it_means(tmp_path: Path) -> None:
    cli = asker(tmp_path, *shelf())
    question = "Which animal travels the longest distance?"
    alone = cli("ask", "--extractive", question, code=2)
    assert "ranked by words alone" in alone.err, "control: words do not find it"
    models.minilm()
    cli.environment["XDG_CACHE_HOME"] = str(models.model_cache().parents[1])
    found = cli("ask", "--extractive", question, "--json").json
    assert found["claims"][0]["text"] == "The arctic tern flies 70,900 km a year."
    assert "Selected by words and vectors" in found["notes"][0]
    again = cli("ask", "--extractive", question, "--json").json
    assert (again["claims"], again["notes"]) == (found["claims"], found["notes"])
    assert cli.workspace is not None
    assert (cli.workspace / "vectors.sqlite").stat().st_mode & 0o077 == 0
    assert cli("audit", "verify").code == 0


def test_vectors_are_computed_when_packets_come_in(tmp_path: Path) -> None:
    cli = asker(tmp_path, shelf()[0])
    assert cli.workspace is not None
    kept = cli.workspace / "vectors.sqlite"
    assert not kept.exists(), "control: without the embedder there are none"
    models.minilm()
    cli.environment["XDG_CACHE_HOME"] = str(models.model_cache().parents[1])
    done = cli("admit", write(tmp_path / "more.md", registry.emit(shelf()[1])))
    assert done.err == ""
    vectors = VectorStore(cli.workspace, MINILM.sha256, tmp_path / ".local/state/threegate/derived")
    assert len(vectors.complete()) == 2, "those that lacked one as well"
    vectors.close()
