"""Search in the languages of the sources: stems, compounds, accents, scripts without spaces."""

import sqlite3
from contextlib import closing

import pytest

from tests.support.holdings import paper
from tests.support.workspaces import soft_signer, take_in
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts
from threegate.host.workspace import index as index_module
from threegate.host.workspace.derived import SCHEMA
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.index_audit import verify_derived
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.workspace import Workspace

PACKETS = ("rp",)
TEXTS = {
    "english": "The patient had fractured the left hip in a fall. Studies of such cases are rare.",
    "form": "The information about the transformation of ice was taken from the new logs.",
    "german": "Der Krankenversicherungsbeitrag wird von den Mitgliedern und der Kasse getragen. "
    "Die Krankenhäuser in der Straße sind für alle da.",
    "french": "L'étude porte sur les élèves opérés dans les hôpitaux de la région. "
    "Le cœur est au centre de cette œuvre.",
    "turkish": "Isparta'da ışık ve ısı ile kırıkların tedavisi için bir çalışma yapıldı.",
    "chinese": "人工智能在骨折影像诊断中的应用越来越广泛。肺癌的早期筛查也很重要。",
    "japanese": "骨折の診断における人工知能の応用が進んでいる。ワクチンの効果を調べた。",
    "thai": "การรักษากระดูกสะโพกหักในผู้สูงอายุด้วยการผ่าตัดให้ผลดี",
    "korean": "환자는 골절로 병원에 입원하였다.",
    "arabic": "أُجريت الدراسة في المستشفيات الكبيرة في المدينة.",
    "hebrew": "הַמֶּחְקָר נערך בבתי החולים הגדולים בעיר.",
    "russian": "Лечение костей у пожилых людей проводилось в больнице.",
    "greek": "Η θεραπεία των ασθενών έγινε στο νοσοκομείο.",
    "danish": "Behandling af hoftebrud på Tromsø sygehus blev ikke sammenlignet med andre.",
}
SEARCHES = [
    ("fracture", ["english"]),
    ("fractures", ["english"]),
    ("FRACTURING", ["english"]),
    ("study", ["english"]),
    ('"fractured the left hip"', ["english"]),
    ('"left fractured"', []),
    ("form", []),  # not information: English does not join words
    ("news", []),  # not new, although a French stemmer takes them for one
    ("Versicherung", ["german"]),
    ("versicherungen", ["german"]),
    ("Beiträge", ["german"]),
    ("Haus", ["german"]),
    ("Krankenhaus", ["german"]),
    ("Strasse", ["german"]),
    ("Kasse Versicherung", ["german"]),
    ("Kasse fracture", []),
    ("etude", ["french"]),
    ("études", ["french"]),
    ("eleve", ["french"]),
    ("hôpital", ["french"]),
    ("hopitaux", ["french"]),
    ("opérer", ["french"]),
    ("coeur oeuvre", ["french"]),
    ("ısparta", ["turkish"]),
    ("ISPARTA", ["turkish"]),
    ("isik", ["turkish"]),
    ("kırık", ["turkish"]),
    ("骨折", ["chinese", "japanese"]),
    ("人工智能", ["chinese"]),
    ("人工知能", ["japanese"]),
    ("癌", ["chinese"]),
    ("诊断 肺癌", ["chinese"]),
    ("断诊", []),
    ("ワクチン", ["japanese"]),
    ("ﾜｸﾁﾝ", ["japanese"]),
    ("กระดูก", ["thai"]),
    ("ผ่าตัด", ["thai"]),
    ("환자", ["korean"]),
    ("골절", ["korean"]),
    ("الدراسة", ["arabic"]),
    ("دراسة", ["arabic"]),
    ("كبير", ["arabic"]),
    ("مدينة", ["arabic"]),
    ("המחקר", ["hebrew"]),
    ("החולים", ["hebrew"]),
    ("кости", ["russian"]),
    ("больница", ["russian"]),
    ("ασθενής", ["greek"]),
    ("Tromso", ["danish"]),
    ("brud", ["danish"]),
    ("sygehuse", ["danish"]),
]


@pytest.fixture
def named(ws: Workspace) -> dict[str, str]:
    """The names of the texts, by the ids of their packets."""
    papers = (paper(number, text) for number, text in enumerate(TEXTS.values(), 1))
    return dict(zip(take_in(ws, *papers), TEXTS, strict=True))


def found_by(index: Index, words: str) -> list[str]:
    index.catch_up()
    return [row.id for row in index.search(words, PACKETS, limit=50, skip=0)]


def test_sentences_are_found_by_their_words(index: Index, named: dict[str, str]) -> None:
    found = {words: sorted(named[one] for one in found_by(index, words)) for words, _ in SEARCHES}
    assert found == {words: sorted(texts) for words, texts in SEARCHES}
    assert all(index.count_found(words, PACKETS) == len(texts) for words, texts in SEARCHES)


QUESTIONS = [
    ("Wer trägt die Beiträge zur Versicherung?", "german", "Krankenversicherungsbeitrag"),
    ("Which hips had a fracture?", "english", "fractured"),
    ("骨折的诊断用什么?", "chinese", "人工智能"),
    ("骨折の診断はどうする?", "japanese", "人工知能"),
    ("Dans quels hopitaux ?", "french", "hôpitaux"),
    ("ผ่าตัดกระดูกสะโพก", "thai", "ผ่าตัด"),
]


def test_a_question_is_answered_from_sources_in_its_language(
    ws: Workspace, index: Index, named: dict[str, str]
) -> None:
    index.catch_up()
    for question, language, quote in QUESTIONS:
        made = answer_by_extracts(ws, index, TypedQuestion(question)).stored.analysis
        assert named[made.claims[0].cites[0].artifact] == language, question
        assert quote in made.quotes[0].open_for_display()


def test_a_compound_ranks_below_the_word_itself(ws: Workspace, index: Index) -> None:
    compound, word = take_in(
        ws,
        paper(1, "Der Krankenversicherungsbeitrag wird von der Kasse für die Mitglieder getragen."),
        paper(2, "Die Versicherung wird von der Kasse für die Mitglieder und das Land getragen."),
    )
    assert found_by(index, "Versicherung") == [word, compound]


@pytest.mark.usefixtures("named")
def test_the_order_is_the_same_in_a_new_index(ws: Workspace, index: Index) -> None:
    before = {words: found_by(index, words) for words, _ in SEARCHES}
    with closing(Index(ws.store, None)) as other:
        assert {words: found_by(other, words) for words, _ in SEARCHES} == before


# As syntax each of these finds something; as words, one of them is in no text with the others.
SYNTAX = [
    "ice OR hip",
    "fall NOT ice",
    "hi*",
    "title : work",
    "{body} : hip",
    "compounds : kra",
    "NEAR(hip fall, 9)",
]
QUOTED = ['hip" OR "ice', '"hip" OR ("ice")', "hip) OR (ice", "hip'; DROP TABLE texts; --"]


@pytest.mark.usefixtures("named")
# claim TG-C-560
def test_query_syntax_of_fts5_has_no_effect(index: Index) -> None:
    index.catch_up()
    match = "SELECT rowid FROM texts WHERE texts MATCH ?"
    for typed in SYNTAX:
        assert index.database.execute(match, (typed,)).fetchall(), f"control: {typed} is syntax"
    assert found_by(index, "hip"), "control: a word is found"
    assert [found_by(index, typed) for typed in (*SYNTAX, *QUOTED)] == [[]] * 11


@pytest.mark.usefixtures("named")
def test_letters_of_compounds_are_not_words(index: Index) -> None:
    index.catch_up()
    groups = index.database.execute("SELECT count(*) FROM texts WHERE texts MATCH 'ers'")
    assert groups.fetchone() != (0,), "control: they are in the index"
    assert found_by(index, "ers") == []


def test_forgotten_words_leave_no_language_behind(ws: Workspace, index: Index) -> None:
    german, french = take_in(ws, paper(1, TEXTS["german"]), paper(2, TEXTS["french"]))
    index.catch_up()
    assert index._languages() == ["de", "fr"]
    withdraw(ws, index, french, "because")
    forget(ws, index, german, "because", soft_signer())
    index.catch_up()
    assert index._languages() == []
    assert b"krankenversicherung" not in (ws.root / FILE).read_bytes()


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM languages",
        "INSERT INTO languages SELECT 'fr', id FROM languages",
        "UPDATE texts SET compounds = ''",
    ],
)
def test_audit_compares_languages_and_compounds(ws: Workspace, edit: str) -> None:
    take_in(ws, paper(1, TEXTS["german"]))
    with closing(Index(ws.store, ws.seals)) as index:
        index.catch_up()
    assert verify_derived(ws.store, ws.seals, lambda _: None) == [], "control"
    with closing(sqlite3.connect(ws.root / FILE)) as db:
        assert db.execute(edit).rowcount > 0
        db.commit()
    # Without a seal of this account, only the rows tell.
    assert verify_derived(ws.store, None, lambda _: None)


def test_an_index_with_other_stems_is_rebuilt(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = take_in(ws, paper(1, TEXTS["english"]))
    with monkeypatch.context() as older, closing(Index(ws.store, ws.seals)) as index:
        older.setattr(index_module, "VERSION", "6, stems 3.0.1, Unicode 14.0.0")
        index.catch_up()
        with index._file.writing() as db:
            db.execute("UPDATE texts SET body = 'fractured'")
        assert found_by(index, "fracture") == [], "control: this index has other stems"
    with closing(Index(ws.store, ws.seals)) as index:
        assert found_by(index, "fracture") == [found]


def test_an_index_of_an_earlier_schema_is_rebuilt(ws: Workspace) -> None:
    (found,) = take_in(ws, paper(1, TEXTS["english"]))
    with closing(Index(ws.store, ws.seals)) as index:
        index.catch_up()
        with index._file.writing() as db:
            db.execute("DROP TABLE texts")
            db.execute("CREATE VIRTUAL TABLE texts USING fts5 (title, body)")
    with closing(Index(ws.store, ws.seals)) as index:
        assert found_by(index, "fracture") == [found]
        assert index.rebuilt == SCHEMA
