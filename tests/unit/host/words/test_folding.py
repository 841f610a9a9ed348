"""Words of a text: cut, folded, and runs of scripts without spaces in pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.words.folding import MAX_WORD_CHARS, cut, folded, pairs, runs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Sea-ice, of 45.75 MPa.", ["sea", "ice", "of", "45.75", "mpa"]),
        ("snake_case l'école", ["snake", "case", "l", "école"]),
        ("1,2-dichloroethane in v1.2", ["1,2", "dichloroethane", "in", "v1", "2"]),
        ("arXiv:2101.01234v2", ["arxiv", "2101.01234", "v2"]),
        ("\ufb01bro\u00adsis", ["fibrosis"]),  # a ligature and a soft hyphen, as in many PDFs
        ("e\u0301tude", ["étude"]),
        ("İSTANBUL", ["istanbul"]),
        ("Straße", ["strasse"]),
        ("गणित की", ["गणित", "की"]),  # vowel signs are part of the word
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("骨折。诊断", ["骨折", "诊断"]),
        ("人工\n智能 and\nice", ["人工智能", "and", "ice"]),  # a line break inside a run is layout
        ("골절\n환자", ["골절", "환자"]),
        ("", []),
        ("... !", []),
    ],
)
def test_text_is_cut_into_words(text: str, words: list[str]) -> None:
    assert cut(text) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("étude", "etude"),
        ("Müller", "Muller"),
        ("STRASSE", "Straße"),
        ("Tromsø", "Tromso"),
        ("Łódź", "Lodz"),
        ("ışık", "isik"),
        ("DIYARBAKIR", "Diyarbakır"),
        ("œuvre", "oeuvre"),
        ("ﬁbrosis", "fibrosis"),
        ("Ａ１", "a1"),
        ("ёлка", "елка"),
        ("Άλφα", "αλφα"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَاب", "كتاب"),
        ("أحمد", "احمد"),
        ("ｶﾀｶﾅ", "カタカナ"),
    ],
)
def test_spellings_of_one_word_are_equal(one: str, other: str) -> None:
    assert [folded(word) for word in cut(one)] == [folded(word) for word in cut(other)]


@pytest.mark.parametrize(
    ("one", "other"), [("が", "か"), ("कि", "का"), ("ปา", "ป่า"), ("ice", "icy")]
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert [folded(word) for word in cut(one)] != [folded(word) for word in cut(other)]


def test_a_word_of_two_scripts_is_cut_where_the_script_changes() -> None:
    assert list(runs("covid19疫苗a型")) == [
        ("covid19", False),
        ("疫苗", True),
        ("a", False),
        ("型", True),
    ]


def test_a_run_is_pairs_and_the_last_character() -> None:
    assert pairs("人工智能") == ["人工", "工智", "智能", "能"]
    assert pairs("能") == ["能"]


@given(st.text())
def test_any_text_is_cut_and_folded_words_have_no_blank_or_quote(text: str) -> None:
    for word in cut(text):
        found = folded(word)
        assert len(found) <= MAX_WORD_CHARS
        assert not set(found) & set("\"'*() \n\0")
        assert folded(found) == found
