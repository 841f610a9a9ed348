"""Every DOI in recorded answers can be asked for, save what is none."""

import json
from pathlib import Path
from typing import Any

from threegate.artifacts.references import ENRICHERS, parse_reference, questions
from threegate.policy.hosts import parse_url

FOLDERS = ("crossref", "datacite", "doi", "openalex", "semanticscholar", "unpaywall")


def dois_of(value: Any) -> set[str]:
    """Return every text under a key `DOI`, however deep."""
    if isinstance(value, list):
        return set().union(*map(dois_of, value))
    if not isinstance(value, dict):
        return set()
    here = {value[key] for key in ("DOI", "doi") if isinstance(value.get(key), str)}
    return here.union(*map(dois_of, value.values()))


def recorded(corpus: Path) -> set[str]:
    found: set[str] = set()
    for folder in FOLDERS:
        for path in (corpus / folder).rglob("*"):
            if path.is_file():
                try:
                    found |= dois_of(json.loads(path.read_bytes()))
                except ValueError:  # not every answer is JSON
                    continue
    return found


def test_every_recorded_doi_has_questions(corpus: Path) -> None:
    found = recorded(corpus)
    asked = 0
    for text in sorted(found):
        try:
            reference = parse_reference(text)
        except ValueError:
            # A prefix alone, and what a publisher typed with a space in it.
            assert "/" not in text or " " in text, text
            continue
        assert parse_reference(reference.text) == reference
        for question in questions(reference, enrich=ENRICHERS, contact="a@b.org"):
            parse_url(question.url)
        asked += 1
    assert asked > 0.95 * len(found) > 1_000
