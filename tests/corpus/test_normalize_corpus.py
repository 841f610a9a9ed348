"""Recorded answers become packets or clear refusals; injected text changes text and counts only."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.normalization import (
    JSON,
    XML,
    Got,
    ask,
    got,
    hazards,
    labels,
    made,
    packet_with,
    page_of,
    rest,
)
from threegate.artifacts.research_packet import FORMAT
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import PacketMade
from threegate.gates.fetch.normalize.readers.registry import PLAIN

# Who answered, as a record names it, and what its answers are read as.
SOURCES = {
    "arxiv": ("arxiv", XML),
    "crossref": ("crossref", JSON),
    "datacite": ("datacite", JSON),
    "doi": ("crossref", JSON),
    "openalex": ("openalex", JSON),
    "pubmed": ("pubmed", XML),
    "semanticscholar": ("semanticscholar", JSON),
    "unpaywall": ("unpaywall", JSON),
}
ROLES = ("metadata", "search", "document")
# How many recorded answers of each source are read as works at least; `doi` names agencies.
LEAST_WORKS = {
    "arxiv": 6,
    "crossref": 110,
    "datacite": 20,
    "doi": 0,
    "openalex": 20,
    "pubmed": 15,
    "semanticscholar": 15,
    "unpaywall": 5,
}
MAX_LINE_CHARS = 20_000
# Asked for by address, so that an answer about any work is an answer.
UNNAMED: dict[str, Any] = {"scheme": "url", "reference": "https://www.example.org/"}


def recorded(corpus: Path, directory: str) -> Iterator[tuple[str, Got]]:
    """Yield the name of each recorded answer, and the answer in each of its roles."""
    source, read_as = SOURCES[directory]
    found = 0
    for line in (corpus / "manifest.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if not row["file"].startswith(f"{directory}/"):
            continue
        found += 1
        raw = (corpus / row["file"]).read_bytes()
        for role in ROLES:
            status = row.get("status") or 200
            yield row["file"], got(source, raw, read_as, role=role, status=status)
    assert found, f"no answer of {directory} is recorded"


def judge(name: str, item: Got) -> str:
    """Return `made` or the code of the refusal; anything else is a failure."""
    record, message = ask([item], **UNNAMED)
    found = answer(message, PLAIN)
    assert answer(message, PLAIN).to_bytes() == found.to_bytes(), name
    if not isinstance(found, PacketMade):
        assert found.code in ("TG-NRM-003", "TG-NRM-004"), (name, found)
        return found.code
    packet = FORMAT.parse(Untrusted(found.packet))
    assert FORMAT.emit(packet) == found.packet, name
    assert packet.raw_sha256 == record.answers[0].sha256, name
    return "made"


@pytest.mark.parametrize("directory", SOURCES)
def test_every_recorded_answer_is_a_packet_or_a_refusal(directory: str, corpus: Path) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    works = set()
    for name, item in recorded(corpus, directory):
        verdict = judge(name, item)
        counts[item.answer.role, verdict] += 1
        if verdict == "made" and item.answer.role != "document":
            works.add(name)
    print(directory, dict(counts))
    assert len(works) >= LEAST_WORKS[directory], counts
    assert counts["document", "made"] > 0


def test_recorded_answers_of_several_sources_make_one_packet(corpus: Path) -> None:
    """One answer of each, whatever they are about: one packet, with the others as gaps."""
    answers = []
    for directory in ("crossref", "openalex", "datacite", "pubmed", "unpaywall"):
        works = (
            item
            for name, item in recorded(corpus, directory)
            if item.answer.role == "metadata" and judge(name, item) == "made"
        )
        answers.append(next(works))
    packet = made(*answers, **UNNAMED)
    assert packet.source == "crossref"
    assert len(packet.also) == 4
    about_others = {gap.source for gap in packet.gaps}
    heard = {origin.source for origin in packet.metadata_from}
    assert "crossref" in heard
    assert not heard & about_others, "who spoke of another work lends this one nothing"


def injected(corpus: Path) -> Iterator[tuple[str, str]]:
    """Yield every file with an attack in it, whole and line by line."""
    for path in sorted((corpus / "injection").rglob("*")):
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        yield path.name, text
        for number, line in enumerate(text.splitlines()):
            if line.strip():
                yield f"{path.name}:{number}", line[:MAX_LINE_CHARS]


def test_injected_abstracts_change_text_and_counts_only(corpus: Path) -> None:
    harmless = packet_with("Gates open and close.")
    tried = flagged = 0
    for name, text in injected(corpus):
        packet = packet_with(f"Gates: {text}")
        assert rest(packet) == rest(harmless), name
        assert labels(packet) == labels(harmless), name
        tried += 1
        flagged += "injection-like" in hazards(packet)
    print(f"{tried} injected abstracts, {flagged} flagged")
    assert tried > 1000
    assert 0 < flagged < tried, "a hint: neither everything nor nothing"


@pytest.mark.parametrize("directory", ["hostile", "unicode", "injection"])
def test_hostile_files_end_as_a_packet_or_a_refusal(directory: str, corpus: Path) -> None:
    tried = 0
    for path in sorted((corpus / directory).rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            for read_as in (JSON, XML, "text/plain"):
                judge(path.name, page_of(raw, read_as))
                tried += 1
    assert tried > 50


def test_trojan_sources_are_flagged(corpus: Path) -> None:
    found: Counter[str] = Counter()
    for path in sorted((corpus / "unicode").glob("trojan_source_*")):
        found.update(hazards(made(page_of(path.read_bytes()))))
    print(dict(found))
    assert found["bidi"] and found["invisible"] and found["confusable"]
