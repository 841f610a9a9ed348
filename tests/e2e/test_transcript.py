"""The sessions in docs/tour.md are what the program really prints."""

import re
from pathlib import Path

from scripts import docs_sync, transcript

TOUR = (Path(__file__).resolve().parents[2] / "docs" / "tour.md").read_text("utf-8")


def block_of(name: str, argument: str | None = None) -> str:
    wanted = (name, argument)
    blocks = docs_sync.BLOCK.finditer(TOUR)
    (found,) = [m["body"] for m in blocks if (m["name"], m["argument"]) == wanted]
    return found


def test_the_tour_shows_what_the_program_prints() -> None:
    assert block_of("transcript") == transcript.block("")


def test_it_shows_init_validate_admit_quarantine_and_verify() -> None:
    shown = block_of("transcript")
    for command in ("init", "validate", "admit", "quarantine list", "audit verify"):
        assert f"$ threegate {command}" in shown
    assert "quarantined TG-ART-003" in shown
    assert "\nverified: " in shown
    assert "(exit 65)" in shown


def test_what_differs_from_run_to_run_is_masked_and_nothing_else() -> None:
    first, second = transcript.run_session(), transcript.run_session()
    assert first != second, "control: keys, times and nonces differ"
    assert transcript.mask(first) == transcript.mask(second)
    ids = set(re.findall(r"rp-[0-9a-f]{64}", transcript.mask(first)))
    assert len(ids) == 1, "the id of an example is its digest, and stays"


def test_the_transcript_names_no_place_of_this_machine() -> None:
    assert "/tmp" not in transcript.mask(transcript.run_session())


def test_it_shows_a_retraction_a_test_source_and_a_refusal_by_fetch() -> None:
    # That it is what the program prints is checked with all documents.
    found = block_of("transcript", "fetch")
    assert "RETRACTED, TEST SOURCE: " in found
    assert "no rule matched" in found
