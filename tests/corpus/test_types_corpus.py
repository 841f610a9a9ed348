"""Recorded answers are of the type their server called them, and of no other."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.gates.fetch.retrieve.messages import HTML, JSON, PDF, TEXT, XML
from threegate.gates.fetch.retrieve.types import declared_type, read_as
from threegate.gates.http_library.client import Failure, NotRetrieved

FOLDERS = {"crossref", "datacite", "doi", "openalex", "pubmed", "semanticscholar", "unpaywall"}
BY_SUFFIX = {".html": HTML, ".json": JSON, ".nxml": XML, ".pdf": PDF, ".xml": XML}
READ = {JSON, "application/vnd.api+json", "application/vnd.citationstyles.csl+json", HTML, TEXT}
READ |= {"text/xml", XML, PDF, "application/atom+xml"}


def rows(corpus: Path) -> Iterator[tuple[Path, int, str | None]]:
    """Yield file, status and content type of everything that was recorded."""
    for line in (corpus / "manifest.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        headers = {name.lower(): value for name, value in (row.get("headers") or {}).items()}
        found = headers.get("content-type")
        value = found[0] if isinstance(found, list) else found
        yield corpus / row["file"], row.get("status") or 200, value


def test_answers_are_read_as_what_their_servers_called_them(corpus: Path) -> None:
    taken: Counter[str] = Counter()
    for path, status, value in rows(corpus):
        if status != 200 or value is None or path.parts[-2] not in FOLDERS:
            continue
        try:
            name = declared_type(value, frozenset(READ))
        except NotRetrieved as exc:
            assert exc.failure is Failure.TYPE
            continue
        taken[read_as(name, path.read_bytes())] += 1
    assert taken[JSON] > 50


@pytest.mark.parametrize("folder", ["arxiv", "openalex", "pdf", "pubmed", "unpaywall", "web"])
def test_documents_are_of_their_own_type_and_no_other(corpus: Path, folder: str) -> None:
    files = [path for path in sorted((corpus / folder).rglob("*")) if path.suffix in BY_SUFFIX]
    assert files
    for path in files:
        raw, own = path.read_bytes(), BY_SUFFIX[path.suffix]
        assert read_as(own, raw) == own, path
        others = {JSON, PDF, XML} - {own}
        for other in others if own != HTML or b"<?xml" not in raw[:200] else {JSON, PDF}:
            with pytest.raises(NotRetrieved) as caught:
                read_as(other, raw)
            assert caught.value.failure is Failure.MISLABELLED, path
