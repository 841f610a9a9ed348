"""Artifacts as plain values: nothing is left out, nothing is opened but for display."""

import pytest

from tests.support.samples import one_of_each, packet
from threegate.artifacts import registry
from threegate.artifacts.registry import FORMATS
from threegate.host.workspace.text_form import field_lines, section_texts, shown


@pytest.mark.parametrize("prefix", sorted(FORMATS))
def test_every_field_and_section_is_shown(prefix: str) -> None:
    artifact = one_of_each()[prefix]
    view = shown(artifact)
    assert view.id == registry.id_of(artifact)
    assert list(view.fields) == list(FORMATS[prefix].shapes)
    assert list(view.sections) == [part.title for part in FORMATS[prefix].sections.values()]
    named = [name for name, _ in field_lines(view.fields) if name]
    assert named == list(view.fields)


def test_lists_take_a_line_each_and_empty_ones_say_so() -> None:
    fields = {"authors": ["Ada", "Eve"], "gaps": [], "licence": None, "ok": True}
    assert list(field_lines(fields)) == [
        ("authors", "Ada"),
        ("", "Eve"),
        ("gaps", "none"),
        ("licence", "none"),
        ("ok", "yes"),
    ]


def test_nested_values_stay_readable() -> None:
    fields = {"limits": {"wall_ms": 1, "why": None}, "claims": [{"cites": [{"a": 1}, {"a": 2}]}]}
    assert dict(field_lines(fields)) == {
        "limits": "wall_ms=1  why=none",
        "claims": "cites=[a=1, a=2]",
    }


def test_numbered_texts_come_one_by_one() -> None:
    view = shown(packet("First.", "Second."))
    assert list(section_texts(view.sections)) == [
        ("Excerpts 1", "First."),
        ("Excerpts 2", "Second."),
    ]
