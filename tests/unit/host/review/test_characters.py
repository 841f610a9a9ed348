"""Characters that deceive: found in code and in prose, spelled out, counted."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.text import visible
from threegate.host.review import characters
from threegate.host.review.characters import LETTERS, SIGNS, exposed, spelled, suspects, tally


def kinds(line: str, *, code: bool = True) -> set[str]:
    return {suspect.kind for suspect in suspects(line, code=code).values()}


@pytest.mark.parametrize(
    ("line", "kind", "shown"),
    [
        ("total\u200d = 1", "invisible", "total\\u{200d} = 1"),
        ("total\ufe00 = 1", "invisible", "total\\u{fe00} = 1"),
        ("x\u200b = 1", "invisible", "x\\u{200b} = 1"),
        ("# \u202e txet", "bidi", "# \\u{202e} txet"),
        ("a\u2066b", "bidi", "a\\u{2066}b"),
        ("x\x1b[2J", "control", "x\\u{1b}[2J"),
        ("x\x9b31m", "control", "x\\u{9b}31m"),
        ("\u0441\u043e\u0440\u0435 = 1", "look-alike", "\\u{441}\\u{43e}\\u{440}\\u{435} = 1"),
        ("sc\u043epe = 1", "look-alike", "sc\\u{43e}pe = 1"),
        ("\uff53um(x)", "look-alike", "\\u{ff53}um(x)"),
        ("\U0001d41aa = 1", "look-alike", "\\u{1d41a}a = 1"),
        ("\ufb01le", "look-alike", "\\u{fb01}le"),
        ("x\u00b2", "look-alike", "x\\u{b2}"),
        ("\u0663", "right-to-left", "\\u{663}"),
        ("\u09ea", "look-alike", "\\u{9ea}"),
        ("'a\u2018", "look-alike", "'a\\u{2018}"),
        ("a \u2212 b", "look-alike", "a \\u{2212} b"),
        ("x \u037e y", "look-alike", "x \\u{37e} y"),
        ("\u0394x", "mixed alphabets", "\\u{394}x"),
        ("\u0436a\u0436", "mixed alphabets", "\\u{436}a\\u{436}"),
        ("a\u00a0b", "space", "a\\u{a0}b"),
        ("a\u3000b", "space", "a\\u{3000}b"),
        ("a\u2800b", "space", "a\\u{2800}b"),
        ("\u05d0 - \u05d1", "right-to-left", "\\u{5d0} - \\u{5d1}"),
        ("e\u0301", "combining", "e\\u{301}"),
        ("\ue000", "unassigned", "\\u{e000}"),
        ("\tx = 1", "tab", "\\u{9}x = 1"),
        ("'\\u{41}'", "spelled like one", "'\\u{5c}u{41}'"),
    ],
)
# claim TG-C-100
def test_what_code_hides_is_spelled_out(line: str, kind: str, shown: str) -> None:
    assert kind in kinds(line)
    assert exposed(line, code=True) == shown
    plain = "total = sum(rows) / 2  # na\u00efve"
    assert exposed(plain, code=True) == plain, "control: ordinary code stays as it is"


@pytest.mark.parametrize(
    "line",
    [
        "print('\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440\u0436')",
        "print('\u4f60\u597d Unicode\u6587\u5b57')",
        "\u03c3 = 1",
        "\u00fcber = '\u00df'",
        "t = 5  # \u00b0C, \u00b5m",
        "\u305d\u308c = '\u30ab\u30bf\u30ab\u30ca\u6f22\u5b57'",
    ],
)
def test_other_languages_in_code_stay_readable(line: str) -> None:
    assert exposed(line, code=True) == line


def test_prose_stays_readable_but_hides_nothing() -> None:
    for text in (
        "\u05e9\u05dc\u05d5\u05dd",
        "\u201cm\u00b2\u201d \u2013 caf\u0065\u0301",
        "\u0442\u0430\u043c",
        "a\u00a0b",
    ):
        assert exposed(text) == text
    assert exposed("a\u200db \u202e c") == "a\\u{200d}b \\u{202e} c"
    assert exposed("p\u0430yment") == "p\\u{430}yment", "a word that mixes alphabets"
    tower = "a" + "\u0301" * 9
    assert exposed(tower) == "a\u0301\u0301" + "\\u{301}" * 7, "marks that reach other lines"


def test_what_the_output_would_spell_out_is_always_found() -> None:
    every = [chr(point) for point in range(0x110000)]
    missed = [c for c in every if visible(c) != c and c != "\n" and not suspects(c, code=False)]
    assert missed == []


@given(st.text(max_size=60))
def test_what_is_exposed_holds_nothing_that_hides_or_reorders(text: str) -> None:
    shown = exposed(text.replace("\n", " "), code=True)
    # What is spelled out divides words, so that a rest may look like another word.
    assert kinds(shown) <= {"spelled like one", "look-alike", "mixed alphabets"}
    assert visible(shown) == shown


@given(st.text(alphabet=[*LETTERS, *"etaoin_09"], min_size=1, max_size=20))
def test_a_word_that_reads_as_ascii_is_ascii_or_spelled_out(word: str) -> None:
    assert exposed(word, code=True).isascii()


@given(st.text(max_size=60))
def test_the_line_can_be_read_back(text: str) -> None:
    line = text.replace("\n", " ")
    found = suspects(line, code=True)
    shown = exposed(line, code=True)
    assert characters_of(shown) == line
    assert len(shown) == len(line) + sum(len(spelled(line[at])) - 1 for at in found)


def characters_of(shown: str) -> str:
    """Return the text that was spelled out so."""
    parts = shown.split("\\u{")
    return parts[0] + "".join(
        chr(int(point, 16)) + rest for point, _, rest in (part.partition("}") for part in parts[1:])
    )


def test_everything_is_counted_where_it_stands() -> None:
    code = "x = 1\nc\u043fde = 2\nc\u043fde = 3\n"
    found = tally([("code", code, True), ("purpose", "a\u202eb", False)])
    assert [(f.kind, f.point, f.like, f.where, f.line, f.count) for f in found] == [
        ("look-alike", "U+043F", "n", "code", 2, 2),
        ("bidi", "U+202E", "", "purpose", 1, 1),
    ]
    assert found[0].name == "CYRILLIC SMALL LETTER PE"


def test_the_table_says_what_it_means() -> None:
    for table in (LETTERS, SIGNS):
        for other, like in table.items():
            assert not other.isascii()
            assert like.isascii()
            assert like.isprintable()
            assert len(like) == 1
    assert all(unicodedata.category(other).startswith("L") for other in LETTERS)
    for other, like in LETTERS.items():
        assert suspects(f"{like}{other}", code=True)[1] == characters.Suspect("look-alike", like)
