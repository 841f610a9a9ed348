"""Documents: whatever a file holds, it is one value for every reader, or refused."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from threegate.base.untrusted import Untrusted
from threegate.host.request.inputs import NotADocument, check_json, document_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\u00fc"), inner),
)
NEARLY_JSON = st.text('[]{}",:0123456789eE+-.\\untrfalsN dD8\ud800')


def accepted(text: str) -> bool:
    try:
        check_json(text)
    except NotADocument:
        return False
    return True


@given(VALUES, st.booleans())
def test_every_json_value_is_a_document_as_it_stands(value: Any, plain: bool) -> None:
    data = json.dumps(value, ensure_ascii=plain, indent=1).encode("utf-8")
    assert document_of("x.json", Untrusted(data)) == data


@given(NEARLY_JSON)
def test_any_text_is_a_document_or_refused_in_our_words(text: str) -> None:
    if accepted(text):
        value = json.loads(text)
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        json.dumps(value, ensure_ascii=False).encode("utf-8")


@given(st.binary())
def test_any_bytes_are_a_text_or_refused_in_our_words(data: bytes) -> None:
    try:
        document = document_of("x.csv", Untrusted(data))
    except NotADocument as exc:
        assert str(exc).startswith("not UTF-8 at byte ")
    else:
        assert json.loads(document) == data.decode("utf-8")
        check_json(document.decode("utf-8"))
