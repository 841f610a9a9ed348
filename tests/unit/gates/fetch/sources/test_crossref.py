"""Crossref's answers: fields, notices, and everything that is no work."""

import json
from typing import Any

import pytest

from tests.support.normalization import JSON, crossref_work, names, problems, raw, shown, work
from threegate.artifacts.limits import MAX_AUTHORS, MAX_TITLE_CHARS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import crossref
from threegate.gates.fetch.sources.metadata import (
    Metadata,
    NotFound,
    Outcome,
    PartialDate,
    Unreadable,
)


def ask(answer: object, *, status: int = 200, media_type: str = JSON) -> Outcome:
    return crossref.READER.one(raw(answer), status=status, media_type=media_type)


def read(**fields: Any) -> Metadata:
    return work(ask(crossref_work(**fields)))


def reason(answer: object, *, status: int = 200, media_type: str = JSON) -> str:
    outcome = ask(answer, status=status, media_type=media_type)
    return outcome.reason if isinstance(outcome, Unreadable) else type(outcome).__name__


def test_fields_of_a_work() -> None:
    found = read(
        license=[
            {"URL": "https://l.example/tdm", "content-version": "tdm"},
            {"URL": "https://l.example/by", "content-version": "vor"},
        ],
        link=[{"URL": "http://p.example/a.pdf", "content-type": "application/pdf"}],
        resource={"primary": {"URL": "https://p.example/a"}},
        abstract="<jats:title>Aim</jats:title><jats:p>To <jats:italic>see</jats:italic>.</jats:p>",
    )
    assert shown(found.title) == "On gates"
    assert [shown(author.name) for author in found.authors] == ["Ada Gate"]
    assert found.published == PartialDate(2021, 3, 4)
    assert shown(found.container) == "Journal of Gates"
    assert names(found) == [("doi", "10.5555/tg.1"), ("issn", "1234-567X")]
    assert shown(found.licence) == "https://l.example/by"
    assert [(link.kind, shown(link.url)) for link in found.links] == [
        ("landing", "https://p.example/a"),
        ("pdf", "http://p.example/a.pdf"),
    ]
    assert [shown(abstract.text) for abstract in found.abstracts] == ["Aim\nTo see."]
    assert found.retraction.status == "none"
    assert found.problems == ()


@pytest.mark.parametrize(
    ("parts", "date"),
    [
        ([[2020]], "2020"),
        ([[2020, 2]], "2020-02"),
        ([["2020", "02", "29"]], "2020-02-29"),
        ([[2021, 2, 29]], "2021-02"),
        ([[2021, 13]], "2021"),
        ([[2021, None, 4]], "2021"),
    ],
)
def test_date_is_as_precise_as_it_is_one(parts: object, date: str) -> None:
    found = read(issued={"date-parts": parts}).published
    assert found is not None
    assert found.text == date


@pytest.mark.parametrize(
    "issued",
    [{"date-parts": [[None]]}, {"date-parts": []}, {"date-parts": "2020"}, {}, [], None, True,
     {"date-parts": [[True]]}, {"date-parts": [[20200]]}, {"date-parts": [[2020, 1, 1, 1]]},
     {"date-parts": [{}]}, {"date-parts": [[10**30]]}],
)  # fmt: skip
def test_what_is_no_date_is_none_and_noted(issued: object) -> None:
    found = read(issued=issued)
    assert found.published is None
    assert any(problem.field in ("published", "issued") for problem in found.problems)


def test_empty_date_gives_way_to_the_next_one() -> None:
    found = read(issued={"date-parts": [[None]]}, posted={"date-parts": [[2019, 5]]})
    assert found.published == PartialDate(2019, 5)


@pytest.mark.parametrize("title", [[], None, [None], [""], "", {}, [7], ["<i></i>"]])
def test_missing_title_is_none_and_noted(title: object) -> None:
    found = read(title=title)
    assert found.title is None
    assert ("title", "missing") in problems(found)


def test_title_is_cut_at_its_limit() -> None:
    found = read(title=["x" * (MAX_TITLE_CHARS + 1)])
    assert len(shown(found.title) or "") == MAX_TITLE_CHARS
    assert ("title", "cut") in problems(found)


def test_lone_surrogate_is_replaced() -> None:
    answer = json.dumps(crossref_work(title=["a\ud800b"])).encode("ascii")
    found = work(ask(answer))
    assert shown(found.title) == "a\ufffdb"
    assert ("title", "surrogate") in problems(found)


def test_authors_of_every_kind() -> None:
    found = read(
        author=[
            {"family": "Solo"},
            {"name": "The Gate Group"},
            {"given": "A.", "family": "B", "suffix": "Jr."},
            {"affiliation": []},
            {"family": ["list"]},
            {"given": "A", "family": {"b": "c"}},
            "text",
        ]
    )
    assert [(shown(author.name), author.organisation) for author in found.authors] == [
        ("Solo", False),
        ("The Gate Group", True),
        ("A. B Jr.", False),
    ]
    assert {("authors", "missing"), ("authors", "type"), ("author", "type")} <= problems(found)


def test_many_authors_are_bounded_and_counted() -> None:
    found = read(author=[{"family": f"N{number}"} for number in range(MAX_AUTHORS + 71)])
    assert len(found.authors) == MAX_AUTHORS
    assert [p.count for p in found.problems if p.field == "authors"] == [71]


RETRACTED = {
    "DOI": "10.5555/tg.2",
    "type": "retraction",
    "source": "retraction-watch",
    "updated": {"date-parts": [[2022, 1, 2]]},
}


def test_retraction_stands_with_the_retracted_work() -> None:
    assert read().retraction.status == "none", "control"
    found = read(**{"updated-by": [{**RETRACTED, "type": "correction"}, RETRACTED]})
    assert found.retraction.status == "retracted"
    notice = found.retraction.notices[1]
    assert (notice.basis, shown(notice.said_by)) == ("updated-by", "retraction-watch")
    assert notice.identifier is not None
    assert shown(notice.identifier.value) == "10.5555/tg.2"
    assert notice.date == PartialDate(2022, 1, 2)


@pytest.mark.parametrize(
    ("kind", "status"),
    [("withdrawal", "retracted"), ("removal", "retracted"), ("partial_retraction", "retracted"),
     ("expression_of_concern", "concern"), ("expression-of-concern", "concern"),
     ("erratum", "corrected"), ("new_version", "none"), ("something new", "concern"),
     (None, "concern")],
)  # fmt: skip
def test_kind_of_update(kind: object, status: str) -> None:
    assert read(**{"updated-by": [{**RETRACTED, "type": kind}]}).retraction.status == status


def test_a_notice_is_not_itself_retracted() -> None:
    found = read(title=["Retracted: On gates"], **{"update-to": [RETRACTED]})
    assert found.retraction.status == "none"
    assert [notice.status for notice in found.notice_of] == ["retracted"]


@pytest.mark.parametrize(
    "title",
    ["RETRACTED: On gates", "RETRACTED ARTICLE: On gates", "[Retracted] On gates",
     "WITHDRAWN: On gates", "<b>RETRACTED</b>: On gates", "&#82;ETRACTED: On gates"],
)  # fmt: skip
def test_title_says_it_is_retracted(title: str) -> None:
    found = read(title=[title])
    assert found.retraction.status == "retracted"
    assert [notice.basis for notice in found.retraction.notices] == ["title"]


@pytest.mark.parametrize("title", ["Retracted papers and their readers", "Why it was withdrawn:"])
def test_a_title_about_retractions_is_none(title: str) -> None:
    assert read(title=[title]).retraction.status == "none"


@pytest.mark.parametrize("updates", ["x", {}, [7], 1])
def test_unreadable_updates_are_not_none(updates: object) -> None:
    assert read(**{"updated-by": updates}).retraction.status == "unknown"


def test_the_worst_does_not_drown() -> None:
    many = [{**RETRACTED, "type": "correction"}] * 200
    found = read(**{"updated-by": [*many, RETRACTED, *many]})
    assert found.retraction.status == "retracted"
    assert len(found.retraction.notices) == 64


@pytest.mark.parametrize("media_type", [JSON, "application/json;charset=utf-8", "text/plain"])
@pytest.mark.parametrize("status", [404, 200])
def test_not_found_text_under_any_label(media_type: str, status: int) -> None:
    outcome = ask(b"Resource not found.", status=status, media_type=media_type)
    assert outcome == NotFound("crossref")


FAILED = {"status": "failed", "message-type": "validation-failure", "message": [{"type": "x"}]}


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        (crossref_work(), 200, "Metadata"),
        (FAILED, 400, "refused"),
        (FAILED, 200, "refused"),
        (b"<html>504</html>", 504, "status"),
        (b"", 301, "status"),
        (b"{}", 429, "rate-limited"),
        (b"{}", 403, "denied"),
        (b"<html></html>", 200, "not-json"),
        (b"", 200, "not-json"),
        (b"\xff", 200, "encoding"),
        (b'\xef\xbb\xbf{"DOI":"10.5555/1"}', 200, "not-json"),
        (b'{"DOI":"10.5555/1","DOI":"10.5555/2"}', 200, "duplicate-key"),
        (b'{"DOI":"10.5555/1","x":NaN}', 200, "not-a-number"),
        (b'{"DOI":"10.5555/1","x":-Infinity}', 200, "not-a-number"),
        (b"[" * 100_000, 200, "too-deep"),
        (b'{"x":' * 65 + b"1" + b"}" * 65, 200, "too-deep"),
        (b'{"x":' * 64 + b"1" + b"}" * 64, 200, "other-kind"),
        (b"[" * 70 + b'"' + b"]" * 70, 200, "not-json"),
        (b'["' + b"[" * 100 + b'\\\\\\""]', 200, "other-kind"),
        (b" " * (8 * 2**20 + 1), 200, "too-large"),
        (b"1" * 5000, 200, "not-json"),
        ([], 200, "other-kind"),
        ({"status": "ok", "message-type": "work"}, 200, "other-kind"),
        ({"status": "ok", "message-type": "work-agency", "message": {}}, 200, "other-kind"),
        ({"status": "ok", "message-type": ["work"], "message": {}}, 200, "other-kind"),
    ],
)
def test_what_an_answer_comes_to(answer: object, status: int, expected: str) -> None:
    assert reason(answer, status=status) == expected


def test_html_label_is_refused() -> None:
    assert reason(crossref_work(), media_type="application/vnd.x+json") == "Metadata", "control"
    assert reason(crossref_work(), media_type="text/html") == "type"


def listing(*works: object) -> Untrusted[bytes]:
    items = {"items": list(works)}
    return raw({"status": "ok", "message-type": "work-list", "message": items})


def test_list_of_works() -> None:
    item = crossref_work()["message"]
    two = crossref.READER.all(listing(item, item), status=200, media_type=JSON)
    assert isinstance(two, tuple)
    assert len(two) == 2
    asked_for_one = crossref.READER.one(listing(item, item), status=200, media_type=JSON)
    assert asked_for_one == Unreadable("crossref", "several", "2 works, one was asked for")
    assert crossref.READER.one(listing(item), status=200, media_type=JSON) == two[0]
    assert crossref.READER.one(listing(), status=200, media_type=JSON) == NotFound("crossref")
    broken = crossref.READER.one(listing(item, 7), status=200, media_type=JSON)
    assert isinstance(broken, Unreadable)
    assert broken.reason == "other-kind"
