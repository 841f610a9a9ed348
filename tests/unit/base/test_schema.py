"""Shapes: where every bound stands, and at the bound."""

import re
from typing import Any

import pytest

from threegate.artifacts.reasons import ArtifactReason, rejection
from threegate.artifacts.registry import FORMATS
from threegate.artifacts.research_packet import Hop
from threegate.base import forms
from threegate.base.schema import (
    Boolean,
    Choice,
    Either,
    Integer,
    ListOf,
    Mismatch,
    Named,
    Nullable,
    Pattern,
    Record,
    Shape,
    ShapeRule,
    Sorted,
    Text,
)

HOP = {"url": "https://a.org/", "status": 302}


def rule_of(shape: Shape, value: Any) -> ShapeRule | None:
    try:
        shape.build(value)
    except Mismatch as exc:
        return exc.rule
    return None


@pytest.mark.parametrize(
    ("shape", "good", "bad", "rule"),
    [
        (Integer(1, 3), [1, 3], [0, 4, -1, 10**100], ShapeRule.OUT_OF_RANGE),
        (Integer(), [0, 2**53 - 1], [True, False, 1.0, "1", None, [1]], ShapeRule.WRONG_TYPE),
        (Boolean(), [True, False], [0, 1, "true", None], ShapeRule.WRONG_TYPE),
        (Choice("a", "b"), ["a", "b"], ["", "c", "A", "a "], ShapeRule.UNKNOWN_VALUE),
        (Choice("a", "b"), ["a"], [1, None, ["a"], {"a": 1}], ShapeRule.WRONG_TYPE),
        (Pattern("[ab]", "x"), ["a"], ["", "ab", "a\n", "\u00aa"], ShapeRule.MALFORMED_VALUE),
        (Pattern("a*", "x", most=3), ["", "aaa"], ["aaaa"], ShapeRule.OUT_OF_RANGE),
        (Pattern("a*", "x"), ["a"], [1, None, ["a"]], ShapeRule.WRONG_TYPE),
        (Text(3), ["a", "\U0001f600" * 3], ["", "aaaa"], ShapeRule.OUT_OF_RANGE),
        (Text(3, least=0), [""], [None, 1, ["a"]], ShapeRule.WRONG_TYPE),
        (Nullable(Integer()), [None, 1], ["", False], ShapeRule.WRONG_TYPE),
        (ListOf(Integer(), 2, least=1), [[1], [2, 1]], [[], [1, 1, 1]], ShapeRule.OUT_OF_RANGE),
        (ListOf(Integer(), 2), [[]], [None, {}, "ab", (1,)], ShapeRule.WRONG_TYPE),
        (
            Sorted(Integer(), 3),
            [[], [1], [1, 2]],
            [[2, 1], [1, 1], [1, 3, 2]],
            ShapeRule.LIST_ORDER,
        ),
        (Record(Hop), [HOP], [{**HOP, "x": 1}], ShapeRule.UNKNOWN_KEY),
        (Record(Hop), [HOP], [{"url": HOP["url"]}, {}], ShapeRule.MISSING_KEY),
        (Record(Hop), [HOP], [dict(reversed(HOP.items()))], ShapeRule.KEY_ORDER),
        (Record(Hop), [HOP], [None, [], "x"], ShapeRule.WRONG_TYPE),
        (forms.TIME, ["2026-02-28T23:59:59Z"], ["2026-02-29T00:00:00Z"], ShapeRule.MALFORMED_VALUE),
        (forms.TIME, ["2028-02-29T00:00:00Z"], ["2026-01-01T24:00:00Z"], ShapeRule.MALFORMED_VALUE),
    ],
)
def test_value_at_the_bound_and_beyond(
    shape: Shape, good: list[Any], bad: list[Any], rule: ShapeRule
) -> None:
    for value in good:
        assert shape.plain(shape.build(value)) == value
    for value in bad:
        assert rule_of(shape, value) is rule


def test_sorted_records_compare_every_field_and_named_ones_only_the_name() -> None:
    near = [{"url": "https://a.org/", "status": 301}, HOP]
    assert rule_of(Sorted(Record(Hop), 9), near) is None
    assert rule_of(Sorted(Record(Hop), 9), [HOP, HOP]) is ShapeRule.LIST_ORDER
    assert rule_of(Named(Record(Hop), 9), near) is ShapeRule.LIST_ORDER
    assert rule_of(Named(Record(Hop), 9), [HOP, {**HOP, "url": "https://b.org/"}]) is None


def test_arranging_sorts_what_can_be_sorted_and_leaves_the_rest() -> None:
    assert Sorted(Integer(), 9).arrange([2, 1]) == [1, 2]
    assert Sorted(Integer(), 9).arrange([2, "a"]) == [2, "a"]
    assert Named(Record(Hop), 9).arrange([{}, 1]) == [{}, 1]


def test_rejection_names_the_field_and_shows_no_foreign_character() -> None:
    with pytest.raises(Mismatch) as refusal:
        Record(Hop).build({"url": "\u202egro.a//:sptth", "status": 302})
    assert refusal.value.words.startswith("url is not an https URL")
    shown = rejection(refusal.value).message
    assert shown.startswith("url is ")
    assert r"\u{202e}" in shown


def test_every_rule_of_a_shape_is_a_reason_to_reject_an_artifact() -> None:
    for rule in ShapeRule:
        assert rejection(Mismatch(rule, "is not a list")).code == ArtifactReason[rule.name].code


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
