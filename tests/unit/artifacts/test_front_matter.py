"""Front matter: a line is a key and one value, however its parts are cut and put together."""

import json

from hypothesis import given
from hypothesis import strategies as st

from threegate.artifacts.front_matter import FrontMatter
from threegate.artifacts.reasons import ArtifactReason
from threegate.base.errors import ArtifactRejected

VALUES: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(("", "a", "a, b", "], [", '"')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner),
    max_leaves=6,
)


def spell(values: list[object]) -> list[str]:
    return [json.dumps(value, ensure_ascii=False) for value in values]


def read(spelled: list[str]) -> list[object] | ArtifactReason:
    keys = tuple(f"k{number}" for number in range(len(spelled)))
    lines = [f"{key}: {text}" for key, text in zip(keys, spelled, strict=True)]
    try:
        values, body = FrontMatter(keys).read("\n".join(["---", *lines, "---", "", ""]))
    except ArtifactRejected as exc:
        return {reason.code: reason for reason in ArtifactReason}[exc.code]
    assert body == ""
    return values


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_lines_are_read_one_by_one(values: list[object]) -> None:
    assert read(spell(values)) == values


@given(st.lists(VALUES, min_size=2, max_size=5), st.data())
def test_values_cut_at_other_places_are_never_read(
    values: list[object], data: st.DataObject
) -> None:
    # All cuts give the same text when the lines are joined again, so a reader that joins them
    # first cannot tell a value that goes on in the next line from two values in one.
    parts = ", ".join(spell(values)).split(", ")
    places = st.integers(1, len(parts) - 1)
    cuts = sorted(data.draw(st.sets(places, min_size=len(values) - 1, max_size=len(values) - 1)))
    edges = zip([0, *cuts], [*cuts, len(parts)], strict=True)
    lines = [", ".join(parts[start:end]) for start, end in edges]
    assert ", ".join(lines) == ", ".join(spell(values))
    found = read(lines)
    assert found == values if lines == spell(values) else found is ArtifactReason.NOT_CANONICAL


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from((",", ", ", ", 1", " ", "]", "}")))
def test_nothing_stands_after_a_value(values: list[object], tail: str) -> None:
    *before, last = spell(values)
    assert read([*before, last + tail]) is ArtifactReason.NOT_CANONICAL


@given(VALUES)
# claim TG-C-10
def test_only_one_spelling_of_a_value_is_read(value: object) -> None:
    spelled = json.dumps(value, ensure_ascii=False)
    others = (json.dumps(value, separators=(",", ":")), json.dumps(value, separators=(",  ", ": ")))
    for other in (*others, f" {spelled}", f"{spelled} "):
        assert other == spelled or read([other]) is ArtifactReason.NOT_CANONICAL


def test_a_list_that_goes_on_in_the_next_line_is_not_read() -> None:
    lines = ['["a"', '"b"]', "null, null"]
    joined = json.loads(f"[{', '.join(lines)}]")
    assert joined == [["a", "b"], None, None], "control: joined, three lines give three values"
    assert read(lines) is ArtifactReason.NOT_CANONICAL
    assert read(spell(joined)) == joined
