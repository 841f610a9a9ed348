"""Recorded answers of scholarly sources: each is a work, not found, or unreadable for a reason."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.normalization import JSON, XML, shown, work
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import (
    arxiv,
    crossref,
    datacite,
    europepmc,
    jats,
    openalex,
    pubmed,
    semanticscholar,
    unpaywall,
)
from threegate.gates.fetch.sources.merge import Answer, merge
from threegate.gates.fetch.sources.metadata import (
    UNREADABLE_REASONS,
    Metadata,
    NotFound,
    Unreadable,
)
from threegate.gates.fetch.xml import XmlRefused, parse_xml

Parser = Callable[..., object]

PARSERS: dict[str, tuple[Parser, str]] = {
    "arxiv": (arxiv.READER.one, XML),
    "crossref": (crossref.READER.one, JSON),
    "datacite": (datacite.READER.one, JSON),
    "openalex": (openalex.READER.one, JSON),
    "pubmed": (pubmed.READER.one, XML),
    "semanticscholar": (semanticscholar.READER.one, JSON),
    "unpaywall": (unpaywall.READER.one, JSON),
}
# Answers to a search hold several works, and these read them.
LISTS: dict[str, Parser] = {
    "arxiv": arxiv.READER.all,
    "crossref": crossref.READER.all,
    "openalex": openalex.READER.all,
    "pubmed": pubmed.READER.all,
}
OTHERS: tuple[tuple[Parser, str], ...] = (
    *PARSERS.values(),
    (europepmc.READER.one, JSON),
    (jats.READER.one, XML),
)


def recorded(corpus: Path, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each recorded answer, and the arguments of its parser."""
    found = 0
    for line in (corpus / "manifest.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if not row["file"].startswith(f"{source}/"):
            continue
        found += 1
        headers = {key.lower(): value for key, value in (row.get("headers") or {}).items()}
        yield (
            row["file"],
            {
                "raw": Untrusted((corpus / row["file"]).read_bytes()),
                "status": row.get("status") or 200,
                "media_type": headers.get("content-type") or PARSERS[source][1],
            },
        )
    assert found, f"no answer of {source} is recorded"


def judge(parse: Parser, asked: dict[str, Any], name: str) -> object:
    outcome = parse(asked["raw"], status=asked["status"], media_type=asked["media_type"])
    again = parse(asked["raw"], status=asked["status"], media_type=asked["media_type"])
    assert repr(outcome) == repr(again), name
    assert outcome == again, name
    if isinstance(outcome, Unreadable):
        assert outcome.reason in UNREADABLE_REASONS, name
        assert not FORBIDDEN.search(outcome.detail), name
    return outcome


@pytest.mark.parametrize("source", sorted(PARSERS))
def test_recorded_answer_is_one_of_three(corpus: Path, source: str) -> None:
    seen: Counter[str] = Counter()
    for name, asked in recorded(corpus, source):
        outcome = judge(PARSERS[source][0], asked, name)
        assert isinstance(outcome, Metadata | NotFound | Unreadable), name
        seen[type(outcome).__name__] += 1
        if isinstance(outcome, Metadata):
            assert outcome.identifiers, name
            assert merge([Answer(Untrusted(name), outcome)]).identifiers == outcome.identifiers
    assert seen["Metadata"] > 0, "control: some answers hold a work"


def test_answers_of_other_services_hold_no_work_for_any_source(corpus: Path) -> None:
    answers = list(recorded(corpus, "doi"))
    assert answers
    for parse, _ in PARSERS.values():
        for name, asked in answers:
            assert not isinstance(judge(parse, asked, name), Metadata), name


@pytest.mark.parametrize("source", sorted(LISTS))
def test_recorded_list_is_read_whole(corpus: Path, source: str) -> None:
    lists = 0
    for name, asked in recorded(corpus, source):
        if getattr(judge(PARSERS[source][0], asked, name), "reason", "") == "several":
            works = judge(LISTS[source], asked, name)
            assert isinstance(works, tuple), name
            assert len(works) > 1, name
            assert all(isinstance(item, Metadata) for item in works), name
            lists += 1
    assert lists > 0, "control: some answers hold several works"


def test_recorded_answer_under_a_wrong_name_is_one_of_three(corpus: Path) -> None:
    for source in PARSERS:
        for name, asked in recorded(corpus, source):
            for parse, media_type in OTHERS:
                judge(parse, {**asked, "status": 200, "media_type": media_type}, name)


def test_recorded_retraction_is_seen(corpus: Path) -> None:
    seen = 0
    for name, asked in recorded(corpus, "crossref"):
        if "retracted" in name:
            retraction = work(crossref.READER.one(**asked)).retraction
            assert retraction.status == "retracted", name
            assert {"title", "updated-by"} <= {notice.basis for notice in retraction.notices}
            seen += 1
    assert seen > 0


def test_no_markup_of_a_known_language_is_left_in_titles(corpus: Path) -> None:
    titles = 0
    for source, (parse, _) in PARSERS.items():
        for name, asked in recorded(corpus, source):
            outcome = parse(**asked)
            title = shown(outcome.title) if isinstance(outcome, Metadata) else None
            titles += title is not None
            for tag in ("<i>", "</i>", "<sub>", "<mml:", "<jats:", "&lt;", "&amp;"):
                assert tag not in (title or ""), name
    assert titles > 100, "control: there were titles"


# `xml-attacks.txt` and `XXE_Fuzzing.txt` are lists of attacks, one or more lines each.
@pytest.mark.parametrize("part", ["hostile/xml", "hostile/xxe", "hostile/svg"])
def test_hostile_xml_is_refused_or_gives_away_nothing(corpus: Path, part: str) -> None:
    reasons: Counter[str] = Counter()
    for path in sorted((corpus / part).iterdir()):
        # Most declare Latin-1, which alone is refused: then nothing else would be tried.
        data = path.read_bytes().replace(b"ISO-8859-1", b"UTF-8").replace(b"iso-8859-1", b"UTF-8")
        for attack in {data, *data.split(b"\n\n"), *data.splitlines()}:
            try:
                root = parse_xml(Untrusted(attack))
            except XmlRefused as exc:
                reasons[exc.reason] += 1
                assert b"<!ENTITY" not in attack or exc.reason in ("doctype", "not-xml"), path
            else:
                assert b"<!ENTITY" not in attack, path
                assert len(repr(root)) < 100 * len(attack) + 1000, path
    assert part == "hostile/svg" or reasons["doctype"] > 0, "control: declarations were met"
