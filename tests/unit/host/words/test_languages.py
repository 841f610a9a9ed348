"""The language of a text, by its common words."""

import pytest

from threegate.host.words.folding import cut, folded
from threegate.host.words.languages import (
    LANGUAGES,
    language_of,
    languages_of,
)

SENTENCES = {
    "en": "The treatment of hip fractures in the elderly was compared with conservative care.",
    "de": "Der Beitrag zur Krankenversicherung wird von den Mitgliedern und der Kasse getragen.",
    "nl": "De behandeling van heupfracturen bij ouderen werd vergeleken met een andere zorg.",
    "sv": "Behandling av höftfrakturer hos äldre jämfördes med vård som inte är operativ.",
    "da": "Behandling af hoftebrud hos ældre blev sammenlignet med pleje, som ikke er operativ.",
    "no": "Behandling av hoftebrudd hos eldre ble sammenlignet med pleie som ikke er operativ.",
    "fi": "Lonkkamurtumien hoitoa verrattiin, ja tulokset olivat sekä hyviä että pysyviä.",
    "fr": "Le traitement des fractures de la hanche chez les patients âgés a été comparé.",
    "es": "El tratamiento de las fracturas de cadera en los ancianos se comparó con el otro.",
    "pt": "O tratamento das fraturas do quadril em idosos foi comparado com o não operatório.",
    "it": "Il trattamento delle fratture dell'anca negli anziani è confrontato con gli altri.",
    "ca": "El tractament de les fractures de maluc en la gent gran amb els altres és millor.",
    "ro": "Tratamentul fracturilor de șold la vârstnici a fost comparat cu cel care nu este nou.",
    "pl": "Leczenie złamań biodra u osób starszych zostało porównane z tym, które nie jest nowe.",
    "cs": "Léčba zlomenin kyčle u starších osob byla porovnána s tou, která není nová, ale je.",
    "hu": "A csípőtörések kezelése az időseknél jobb volt, mint a többi, és nem volt hatása.",
    "tr": "Yaşlılarda kalça kırıklarının tedavisi daha iyi bir yöntem ile karşılaştırıldı ve bu.",
    "id": "Pengobatan patah tulang pinggul pada orang tua dibandingkan dengan yang lain dan ini.",
}


def test_every_language_has_a_sentence_here() -> None:
    assert set(SENTENCES) == set(LANGUAGES)


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_tells_its_language(code: str) -> None:
    assert language_of(cut(SENTENCES[code])) == code


@pytest.mark.parametrize("text", ["", "Fracture", "12 45", "Sea Ice", "骨折の診断", "de la"])
def test_words_that_do_not_tell_have_no_language(text: str) -> None:
    assert language_of(cut(text)) is None


def test_a_title_has_the_language_of_its_work() -> None:
    texts = ["Versicherungen", SENTENCES["de"], SENTENCES["en"]]
    assert languages_of(list(map(cut, texts))) == ["de", "de", "en"]
    assert languages_of([cut("Fracture")]) == ["en"]


def test_tags_are_single_letters_that_folding_removes() -> None:
    tags = [row.tag for row in LANGUAGES.values() if row.code != "en"]
    assert len(set(tags)) == len(tags)
    assert all(len(tag) == 1 and folded(tag) != tag for tag in tags)
