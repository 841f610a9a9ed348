"""Foreign text as it may stand in a packet: everything in it is seen, and counted."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.text import FORBIDDEN, FORBIDDEN_RANGES
from threegate.gates.fetch.normalize.hazards import Findings, show, show_line


def shown(text: str) -> tuple[str, dict[str, int]]:
    found = Findings()
    result = show(text, found)
    return result, {hazard.name: hazard.count for hazard in found.hazards()}


@pytest.mark.parametrize(
    ("text", "result", "counts"),
    [
        ("plain text\n\twith lines", "plain text\n\twith lines", {}),
        ("Zürich, 北京, Ἀθῆναι, München", "Zürich, 北京, Ἀθῆναι, München", {}),
        ("a\u202eb\u2066c", "a\\u{202e}b\\u{2066}c", {"bidi": 2}),
        ("a\u200bb", "a\\u{200b}b", {"invisible": 1}),
        ("x\U000e0041\U000e0042", "x\\u{e0041}\\u{e0042}", {"invisible": 2}),
        ("hy\u00adphen", "hyphen", {"invisible": 1}),
        ("\ufeffmark", "\\u{feff}mark", {"invisible": 1}),
        ("\x1b[2J\x00", "\\u{1b}[2J\\u{0}", {"control": 2}),
        ("\ud800 alone", "\\u{d800} alone", {"control": 1}),
        ("\uffff\ufdd0", "\\u{ffff}\\u{fdd0}", {"control": 2}),
        ("a\r\nb\rc\x0cd\x85e\u2028f\u2029g\x0bh", "a\nb\nc\nd\ne\nf\ng\nh", {}),
        ("<script>x</script>", "&lt;script>x&lt;/script>", {"markup-escaped": 2}),
        ("é<b> and <!-- and <?", "é&lt;b> and &lt;!-- and &lt;?", {"markup-escaped": 3}),
        ("p < q and 1<2 <", "p < q and 1<2 <", {}),
        ("e\u0301", "é", {}),
        ("ﬁ ² ½", "ﬁ ² ½", {}),  # composed, never folded: a quotation stays one
    ],
)
# claim TG-C-117
def test_hazard_is_visible_and_counted(text: str, result: str, counts: dict[str, int]) -> None:
    assert shown(text) == (result, counts)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("pass\u200dword", 1),
        ("a\u200c", 1),
        ("\u200d\u200d\u200d", 3),
        ("x\ufe01\ufe02\ufe03", 3),
        ("❤\ufe0f\u200d🔥", 0),  # an emoji of two
        ("می\u200cخواهم", 0),  # Persian
        ("क\u094d\u200dष", 0),  # Hindi
    ],
)
def test_a_joiner_stays_where_a_script_wants_it(text: str, spelled: int) -> None:
    result, counts = shown(text)
    assert counts.get("invisible", 0) == spelled
    assert (result == unicodedata.normalize("NFC", text)) == (spelled == 0)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("p\u0430ypal and p\u0430yp\u0430l", 2),  # Cyrillic a
        ("\u0410pple", 1),
        ("μm, Δx, 5 Ω, hν, α-helix, β2", 0),
        ("Москва and Athens, Αθήνα", 0),
        ("plain", 0),
    ],
)
def test_a_look_alike_in_a_latin_word_is_counted_and_left(text: str, count: int) -> None:
    result, counts = shown(text)
    assert (result, counts.get("confusable", 0)) == (text, count)


def test_every_forbidden_character_is_spelled_out() -> None:
    for low, high, _ in FORBIDDEN_RANGES:
        for point in {low, high, (low + high) // 2}:
            for text in (chr(point), f"é{chr(point)}x"):
                result, _ = shown(text)
                assert FORBIDDEN.search(result) is None, hex(point)


@given(st.text(st.characters(), max_size=200))
# claim TG-C-117
def test_any_text_can_stand_in_a_packet(text: str) -> None:
    result, _ = shown(text)
    assert FORBIDDEN.search(result) is None
    assert re.search("<[A-Za-z/!?]", result) is None
    assert show_line(result, 10_000, Findings()).count("\n") == 0
    again, counts = shown(result)
    assert again == result, "what is shown is shown as it is"
    assert set(counts) <= {"confusable"}


def test_markup_on_the_border_of_two_chunks_is_escaped() -> None:
    text = "é" * ((1 << 16) - 1) + "\u202e<script>" + "é" * 70_000
    for shift in range(12):
        result, counts = shown("é" * shift + text)
        assert "<s" not in result
        assert counts == {"bidi": 1, "markup-escaped": 1}


def test_a_line_is_cut_and_that_is_counted() -> None:
    found = Findings()
    assert show_line("a\nb\tc" + "d" * 20, 8, found) == "a b cddd"
    assert [(h.name, h.count) for h in found.hazards()] == [("truncated", 1)]
