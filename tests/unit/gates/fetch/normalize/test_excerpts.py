"""Excerpts: bounded, in order, with their places in the text and their digests."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.artifacts.limits import MAX_EXCERPT_CHARS, MAX_EXCERPTS, MAX_PACKET_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.excerpts import Cut, cut
from threegate.gates.fetch.normalize.hazards import Findings
from threegate.gates.fetch.normalize.text import Part

PLENTY = 10 * MAX_PACKET_BYTES


def part(text: str, label: str = "text", page: int | None = None) -> Part:
    return Part(Untrusted(label), Untrusted(text), page)


def cut_with(parts: list[Part], budget: int = PLENTY) -> tuple[Cut, dict[str, int]]:
    found = Findings()
    result = cut(parts, budget, found)
    return result, {hazard.name: hazard.count for hazard in found.hazards()}


@given(
    st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"])), max_size=5)
)
def test_offsets_find_each_excerpt_in_the_text(texts: list[str]) -> None:
    found, _ = cut_with([part(text) for text in texts])
    alone = [cut_with([part(text)])[0] for text in texts]
    whole = "\n".join("".join(one.texts) for one in alone if one.texts)
    for excerpt, text in zip(found.excerpts, found.texts, strict=True):
        assert whole[excerpt.offset : excerpt.offset + excerpt.length] == text
        assert excerpt.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("between", ["\n\n", "\n", ". ", " ", ""])
def test_a_long_part_is_broken_where_a_reader_would(between: str) -> None:
    text = between.join(["word" * 25] * 1000)
    found, counts = cut_with([part(text, page=7)])
    assert "".join(found.texts) == text, "nothing is lost"
    assert counts == {}
    assert len(found.texts) > 4
    assert all(len(piece) <= MAX_EXCERPT_CHARS for piece in found.texts)
    assert all(piece.endswith(between) for piece in found.texts[:-1])
    assert {excerpt.page for excerpt in found.excerpts} == {7}


def test_too_many_parts_are_cut_and_that_is_counted() -> None:
    found, counts = cut_with([part(f"page {n}") for n in range(MAX_EXCERPTS)])
    assert (len(found.texts), counts) == (MAX_EXCERPTS, {}), "control"
    found, counts = cut_with([part(f"page {n}") for n in range(MAX_EXCERPTS + 9)])
    assert (len(found.texts), counts) == (MAX_EXCERPTS, {"truncated": 1})


def test_what_does_not_fit_a_packet_is_cut_and_that_is_counted() -> None:
    text = "\U0001f9ea" * (MAX_EXCERPT_CHARS * 4)  # four bytes each
    found, counts = cut_with([part(text)], budget=200_000)
    assert (len(found.texts), counts) == (2, {"truncated": 1})


def test_empty_parts_and_labels_leave_nothing_behind() -> None:
    found, counts = cut_with([part("  \n"), part("x", label=""), part("y", label="a\u202eb")])
    labels = [excerpt.label.open_for_display() for excerpt in found.excerpts]
    assert (found.texts, labels) == (("x", "y"), ["text", "a\\u{202e}b"])
    assert counts == {"bidi": 1}


def test_megabytes_of_controls_are_cut_before_they_are_spelled_out() -> None:
    found, counts = cut_with([part("\x01" * 6_000_000)], budget=MAX_PACKET_BYTES)
    assert sum(map(len, found.texts)) <= MAX_PACKET_BYTES
    assert counts["truncated"] >= 1
    assert counts["control"] < 1_000_000
