"""Shapes: where every bound stands, and at the bound."""

import re
from typing import Any

import pytest

from threegate.artifacts import shapes
from threegate.artifacts.reasons import Reason
from threegate.artifacts.registry import FORMATS
from threegate.artifacts.research_packet import Hop
from threegate.artifacts.shapes import (
    Boolean,
    Choice,
    Either,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Record,
    Shape,
    Sorted,
    Text,
)
from threegate.base.errors import ArtifactRejected

HOP = {"url": "https://a.org/", "status": 302}


def code_of(shape: Shape, value: Any) -> Reason | None:
    try:
        shape.build(value)
    except ArtifactRejected as exc:
        return {reason.code: reason for reason in Reason}[exc.code]
    return None


@pytest.mark.parametrize(
    ("shape", "good", "bad", "reason"),
    [
        (Integer(1, 3), [1, 3], [0, 4, -1, 10**100], Reason.OUT_OF_RANGE),
        (Integer(), [0, 2**53 - 1], [True, False, 1.0, "1", None, [1]], Reason.WRONG_TYPE),
        (Boolean(), [True, False], [0, 1, "true", None], Reason.WRONG_TYPE),
        (Choice("a", "b"), ["a", "b"], ["", "c", "A", "a "], Reason.UNKNOWN_VALUE),
        (Choice("a", "b"), ["a"], [1, None, ["a"], {"a": 1}], Reason.WRONG_TYPE),
        (Pattern("[ab]", "x"), ["a"], ["", "ab", "a\n", "\u00aa"], Reason.MALFORMED_VALUE),
        (Pattern("a*", "x", most=3), ["", "aaa"], ["aaaa"], Reason.OUT_OF_RANGE),
        (Pattern("a*", "x"), ["a"], [1, None, ["a"]], Reason.WRONG_TYPE),
        (Text(3), ["a", "\U0001f600" * 3], ["", "aaaa"], Reason.OUT_OF_RANGE),
        (Text(3, least=0), [""], [None, 1, ["a"]], Reason.WRONG_TYPE),
        (Nullable(Integer()), [None, 1], ["", False], Reason.WRONG_TYPE),
        (ListOf(Integer(), 2, least=1), [[1], [2, 1]], [[], [1, 1, 1]], Reason.OUT_OF_RANGE),
        (ListOf(Integer(), 2), [[]], [None, {}, "ab", (1,)], Reason.WRONG_TYPE),
        (Sorted(Integer(), 3), [[], [1], [1, 2]], [[2, 1], [1, 1], [1, 3, 2]], Reason.LIST_ORDER),
        (Record(Hop), [HOP], [{**HOP, "x": 1}], Reason.UNKNOWN_KEY),
        (Record(Hop), [HOP], [{"url": HOP["url"]}, {}], Reason.MISSING_KEY),
        (Record(Hop), [HOP], [dict(reversed(HOP.items()))], Reason.KEY_ORDER),
        (Record(Hop), [HOP], [None, [], "x"], Reason.WRONG_TYPE),
        (shapes.TIME, ["2026-02-28T23:59:59Z"], ["2026-02-29T00:00:00Z"], Reason.MALFORMED_VALUE),
        (shapes.TIME, ["2028-02-29T00:00:00Z"], ["2026-01-01T24:00:00Z"], Reason.MALFORMED_VALUE),
    ],
)
def test_value_at_the_bound_and_beyond(
    shape: Shape, good: list[Any], bad: list[Any], reason: Reason
) -> None:
    for value in good:
        assert shape.plain(shape.build(value)) == value
    for value in bad:
        assert code_of(shape, value) is reason


def test_sorted_records_compare_every_field_and_named_ones_only_the_name() -> None:
    near = [{"url": "https://a.org/", "status": 301}, HOP]
    assert code_of(Sorted(Record(Hop), 9), near) is None
    assert code_of(Sorted(Record(Hop), 9), [HOP, HOP]) is Reason.LIST_ORDER
    assert code_of(Named(Record(Hop), 9), near) is Reason.LIST_ORDER
    assert code_of(Named(Record(Hop), 9), [HOP, {**HOP, "url": "https://b.org/"}]) is None


def test_arranging_sorts_what_can_be_sorted_and_leaves_the_rest() -> None:
    assert Sorted(Integer(), 9).arrange([2, 1]) == [1, 2]
    assert Sorted(Integer(), 9).arrange([2, "a"]) == [2, "a"]
    assert Named(Record(Hop), 9).arrange([{}, 1]) == [{}, 1]


def test_rejection_names_the_field_and_shows_no_foreign_character() -> None:
    with pytest.raises(ArtifactRejected) as refusal:
        Record(Hop).build({"url": "\u202egro.a//:sptth", "status": 302})
    assert refusal.value.message.startswith("url is ")
    assert r"\u{202e}" in refusal.value.message


def every_shape() -> list[Shape]:
    found: list[Shape] = []

    def walk(shape: Shape) -> None:
        found.append(shape)
        if isinstance(shape, Nullable | ListOf):
            walk(shape.shape)
        if isinstance(shape, Either):
            walk(shape.words)
            walk(shape.record)
        if isinstance(shape, Record):
            for inner in shape.shapes.values():
                walk(inner)

    for form in FORMATS.values():
        for shape in form.shapes.values():
            walk(shape)
    return found


def test_every_string_and_list_of_every_format_is_bounded() -> None:
    for shape in every_shape():
        match shape:
            case Pattern():
                assert shape.most <= 2048
            case Text() | ListOf():
                assert 0 <= shape.least <= shape.most <= 5000
            case Integer():
                assert -(2**53) < shape.low <= shape.high < 2**53
            case _:
                assert isinstance(shape, Boolean | Choice | Either | Nullable | Record)


def test_every_pattern_is_plain_enough_for_json_schema() -> None:
    patterns = [shape.pattern for shape in every_shape() if isinstance(shape, Pattern)]
    assert patterns
    for pattern in patterns:
        assert not re.search(r"\\[AZbBdDsSwW]|\(\?[^:]", pattern), "means other things elsewhere"
        assert pattern.isascii()


def test_every_section_is_bounded() -> None:
    sections = [spec for form in FORMATS.values() for spec in form.sections.values()]
    assert sections
    for spec in sections:
        assert spec.least_chars <= spec.most_chars <= 2**20
        assert spec.most_texts is None or spec.most_texts <= 10_000
