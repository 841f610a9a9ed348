"""Tokens of texts, as the index stores them."""

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.words import tokens as module
from threegate.host.words.tokens import indexed, token_of, tokens_of

GERMAN = "Der Krankenversicherungsbeitrag für die Häuser wird von der Kasse getragen."


def test_english_has_no_tag_and_other_languages_have_one() -> None:
    assert indexed("Fractured bones of the hip", []).title == "fractur bone of the hip"
    found = indexed(GERMAN, [])
    assert found.languages == ("de",)
    assert found.title.split()[:2] == ["äder", "äkrankenversicherungsbeitrag"]
    assert found.compounds.split()[:3] == ["·kr", "kra", "ran"]


def test_each_part_has_its_own_language_and_short_ones_that_of_the_work() -> None:
    abstract = "The contribution of the members was compared with that of the insurers."
    found = indexed("Beiträge", [GERMAN, GERMAN, abstract, "Häuser", "45.75"])
    assert found.title == "äbeitrag"
    assert found.body.endswith("insur ähaus 45.75")
    assert found.languages == ("de",)


def test_numbers_and_scripts_without_spaces_have_no_tag() -> None:
    assert tokens_of(["2019", "h2o", "骨折", "кости", "straße"], "de") == [
        "2019",
        "h2o",
        "骨折",
        "折",
        "кост",
        "ästrass",
    ]


def test_a_compound_is_indexed_once() -> None:
    once, twice = indexed(GERMAN, []), indexed(GERMAN, [GERMAN])
    assert once.compounds == twice.compounds != ""


def test_the_cache_of_words_is_bounded_and_holds_no_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CACHED_WORDS", 100)
    known = module._TOKENS["en"]
    known.clear()
    tokens_of([f"word{number}" for number in range(50)], "en")
    assert not known
    tokens_of(["".join(letters) for letters in product("abcdef", repeat=4)], "en")
    assert 0 < len(known) <= 100
    assert token_of("en", "bones") == "bone"


def test_tokens_do_not_depend_on_the_order_of_hashes() -> None:
    code = (
        f"from threegate.host.words.tokens import indexed; print(indexed({GERMAN!r}, ['The hip']))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_text_has_tokens_without_quotes(parts: list[str]) -> None:
    found = indexed("", parts)
    assert not set(found.body + found.compounds) & set("\"'*():\n\0")
    assert found == indexed("", parts)
