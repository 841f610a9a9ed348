"""The box: printing it shows a size and a digest, never the content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.untrusted import Untrusted


@given(st.text(min_size=4) | st.just("\ud800 half"))
def test_printing_the_box_shows_no_content(text: str) -> None:
    box = Untrusted(text)
    for shown in (repr(box), str(box), f"{box}", repr([box]), "%s" % box):  # noqa: UP031
        assert "<untrusted " in shown
        assert text not in shown
    assert box.open_for_validation() == box.open_for_display() == text


def test_equal_boxes_are_equal_and_nothing_else_is() -> None:
    assert Untrusted("a") == Untrusted("a")
    assert hash(Untrusted("a")) == hash(Untrusted("a"))
    assert Untrusted("a") != Untrusted("b")
    assert Untrusted("a") != "a"
    assert Untrusted(b"a") != Untrusted("a")


@pytest.mark.parametrize("use", [len, iter, bytes, lambda box: box + "x", lambda box: box[0]])
def test_the_box_is_no_text(use: object) -> None:
    assert callable(use)
    with pytest.raises(TypeError):
        use(Untrusted("a"))
