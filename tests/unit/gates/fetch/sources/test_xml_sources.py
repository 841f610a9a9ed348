"""arXiv's Atom, PubMed's articles and JATS: fields, notices, and what is no article."""

from collections.abc import Callable

import pytest

from tests.support.normalization import XML, names, problems, shown, work
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import arxiv, jats, pubmed
from threegate.gates.fetch.sources.metadata import (
    Metadata,
    NotFound,
    Outcome,
    PartialDate,
    Unreadable,
)

ENTRY = """<entry><id>http://arxiv.org/abs/2101.00001v2</id><title>On
  gates &lt; 3</title><published>2021-01-02T00:00:00Z</published><summary>  We see $a&lt;b&gt;c$.
</summary><author><name>Ada Gate</name></author><author><name/></author>{more}
<link href="https://arxiv.org/pdf/2101.00001v2" type="application/pdf"/></entry>"""


def feed(*entries: str) -> Untrusted[bytes]:
    space = 'xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"'
    return Untrusted(f"<feed {space}>{''.join(entries)}</feed>".encode())


def ask_arxiv(*entries: str, status: int = 200) -> Outcome:
    return arxiv.READER.one(feed(*entries), status=status, media_type="application/atom+xml")


def test_arxiv_fields() -> None:
    more = "<arxiv:doi>10.5555/TG.1</arxiv:doi><arxiv:journal_ref>Gates 1</arxiv:journal_ref>"
    found = work(ask_arxiv(ENTRY.format(more=more)))
    assert shown(found.title) == "On gates < 3"
    assert [shown(author.name) for author in found.authors] == ["Ada Gate"]
    assert found.published == PartialDate(2021, 1, 2)
    assert names(found) == [("arxiv", "2101.00001v2"), ("doi", "10.5555/tg.1")]
    assert shown(found.abstracts[0].text) == "We see $a<b>c$."
    assert [link.kind for link in found.links] == ["pdf"]
    assert found.retraction.status == "unknown"
    assert problems(found) == {("authors", "missing")}


def test_arxiv_title_zero() -> None:
    entry = "<entry><id>http://arxiv.org/abs/hep-th/9901001</id><title>0</title></entry>"
    found = work(ask_arxiv(entry))
    assert shown(found.title) == "0"
    assert names(found) == [("arxiv", "hep-th/9901001")]


def test_arxiv_withdrawn() -> None:
    more = "<arxiv:comment>This paper has been withdrawn by the author</arxiv:comment>"
    assert work(ask_arxiv(ENTRY.format(more=more))).retraction.status == "retracted"
    more = "<arxiv:comment>The drug has been withdrawn</arxiv:comment>"
    assert work(ask_arxiv(ENTRY.format(more=more))).retraction.status == "unknown"


ERROR = """<entry><id>http://arxiv.org/api/errors#x</id><title>Error</title>
<summary>{said}</summary></entry>"""


@pytest.mark.parametrize("status", [200, 400])
def test_arxiv_error_entry(status: int) -> None:
    said = ERROR.format(said="incorrect id format for 12")
    assert ask_arxiv(said, status=status) == NotFound("arxiv")
    refused = ask_arxiv(ERROR.format(said="max_results too large"), status=status)
    assert isinstance(refused, Unreadable)
    assert refused.reason == "refused"


def test_arxiv_paper_called_error_is_a_paper() -> None:
    assert isinstance(ask_arxiv(ENTRY.replace("On\n  gates", "Error").format(more="")), Metadata)


def test_arxiv_empty_feed_and_list() -> None:
    assert ask_arxiv() == NotFound("arxiv")
    one = ENTRY.format(more="")
    assert isinstance(ask_arxiv(one, one), Unreadable)
    both = arxiv.READER.all(feed(one, one), status=200, media_type=XML)
    assert isinstance(both, tuple)
    assert len(both) == 2


def test_arxiv_rate_limit_and_other_documents() -> None:
    limited = arxiv.READER.one(Untrusted(b"Rate exceeded."), status=429, media_type="text/plain")
    assert isinstance(limited, Unreadable)
    assert limited.reason == "rate-limited"
    other = arxiv.READER.one(Untrusted(b"<feed/>"), status=200, media_type=XML)
    assert isinstance(other, Unreadable)
    assert other.reason == "other-kind"


CITATION = """<PubmedArticle><MedlineCitation><PMID Version="1">77</PMID><Article><Journal>
<ISSN>1234-5678</ISSN><JournalIssue><PubDate>{date}</PubDate></JournalIssue><Title>Gates</Title>
</Journal><ArticleTitle>On <i>gates</i> and 10<sup>6</sup>.</ArticleTitle>
<ELocationID EIdType="doi">10.5555/tg.1</ELocationID><Abstract><AbstractText Label="AIM">To see.
</AbstractText><AbstractText>Seen.</AbstractText></Abstract><AuthorList>
<Author><LastName>Gate</LastName><ForeName>Ada</ForeName></Author>
<Author><CollectiveName>The Group</CollectiveName></Author></AuthorList>
<PublicationTypeList><PublicationType>{kind}</PublicationType></PublicationTypeList></Article>
{more}</MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="pmc">PMC9</ArticleId>
</ArticleIdList><ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.5555/other
</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>"""
YEAR = "<Year>2021</Year><Month>Mar</Month>"


def ask_pubmed(
    *, date: str = YEAR, kind: str = "Journal Article", more: str = "", copies: int = 1
) -> Outcome:
    articles = CITATION.format(date=date, kind=kind, more=more) * copies
    doctype = '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD X//EN" "https://d.example/x.dtd">'
    answer = f"<?xml version='1.0' ?>{doctype}<PubmedArticleSet>{articles}</PubmedArticleSet>"
    return pubmed.READER.one(Untrusted(answer.encode()), status=200, media_type="text/xml")


def test_pubmed_fields() -> None:
    found = work(ask_pubmed())
    assert shown(found.title) == "On gates and 10^6."
    assert [(shown(a.name), a.organisation) for a in found.authors] == [
        ("Ada Gate", False),
        ("The Group", True),
    ]
    assert found.published == PartialDate(2021, 3)
    assert names(found) == [
        ("doi", "10.5555/tg.1"),
        ("issn", "1234-5678"),
        ("pmcid", "PMC9"),
        ("pmid", "77"),
    ]
    assert [(shown(a.label), shown(a.text)) for a in found.abstracts] == [
        ("AIM", "To see."),
        ("abstract", "Seen."),
    ]
    assert found.retraction.status == "none"
    assert found.problems == ()


@pytest.mark.parametrize(
    ("date", "expected"),
    [("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>", PartialDate(1998)),
     ("<Year>2020</Year><Month>02</Month><Day>30</Day>", PartialDate(2020, 2)),
     ("<Year>2020</Year><Season>Spring</Season>", PartialDate(2020)), ("", None),
     ("<Year>MMXX</Year>", None)],
)  # fmt: skip
def test_pubmed_dates(date: str, expected: PartialDate | None) -> None:
    assert work(ask_pubmed(date=date)).published == expected


def reference(kind: str) -> str:
    return (
        f'<CommentsCorrectionsList><CommentsCorrections RefType="{kind}"><RefSource>G 2</RefSource>'
        "<PMID>78</PMID></CommentsCorrections></CommentsCorrectionsList>"
    )


@pytest.mark.parametrize(
    ("kind", "status", "notices"),
    [("RetractionIn", "retracted", 0), ("PartialRetractionIn", "retracted", 0),
     ("ExpressionOfConcernIn", "concern", 0), ("ErratumIn", "corrected", 0),
     ("RetractionOf", "none", 1), ("ErratumFor", "none", 1), ("Cites", "none", 0)],
)  # fmt: skip
def test_pubmed_references(kind: str, status: str, notices: int) -> None:
    found = work(ask_pubmed(more=reference(kind)))
    assert found.retraction.status == status
    assert len(found.notice_of) == notices
    for notice in found.retraction.notices:
        assert notice.identifier is not None
        assert shown(notice.identifier.value) == "78"
        assert shown(notice.said_by) == "G 2"


def test_pubmed_publication_types() -> None:
    assert work(ask_pubmed(kind="Retracted Publication")).retraction.status == "retracted"
    notice = work(ask_pubmed(kind="Retraction of Publication"))
    assert notice.retraction.status == "none"
    assert [said.status for said in notice.notice_of] == ["retracted"]


def test_pubmed_without_an_article() -> None:
    for nothing in (b"<PubmedArticleSet/>", b"<eSearchResult><Count>0</Count></eSearchResult>"):
        found = pubmed.READER.one(Untrusted(nothing), status=200, media_type=XML)
        assert found == NotFound("pubmed")
    several = ask_pubmed(copies=2)
    assert isinstance(several, Unreadable)
    assert several.reason == "several"
    summary = pubmed.READER.one(Untrusted(b"<eSummaryResult/>"), status=200, media_type=XML)
    assert isinstance(summary, Unreadable)
    assert summary.reason == "other-kind"


ARTICLE = """<article article-type="{kind}" xmlns:xlink="http://www.w3.org/1999/xlink"><front>
<journal-meta><journal-title-group><journal-title>Gates</journal-title></journal-title-group>
<issn>1234-5678</issn></journal-meta><article-meta><article-id pub-id-type="pmc">9</article-id>
<article-id pub-id-type="doi">10.5555/tg.1</article-id><title-group><article-title>On gates
</article-title></title-group><contrib-group><contrib contrib-type="author"><name>
<surname>Gate</surname><given-names>Ada</given-names></name></contrib>
<contrib contrib-type="editor"><name><surname>Ed</surname></name></contrib>
<contrib contrib-type="author"><collab>The Group</collab></contrib></contrib-group>
<pub-date pub-type="ppub"><year>2022</year></pub-date>
<pub-date pub-type="epub"><day>4</day><month>3</month><year>2021</year></pub-date>
<permissions><license xlink:href="https://l.example/by"/></permissions>{related}
<abstract><title>Aim</title><p>To see.</p></abstract></article-meta></front>
<body><p>Not read here.</p></body></article>"""
RELATED = '<related-article related-article-type="{}" ext-link-type="doi" xlink:href="10.5555/n"/>'


def ask_jats(kind: str = "research-article", related: str = "") -> Metadata:
    answer = ARTICLE.format(kind=kind, related=related).encode()
    found = work(jats.READER.one(Untrusted(answer), status=200, media_type=XML))
    alike = work(pubmed.READER.one(Untrusted(answer), status=200, media_type=XML))
    assert alike.identifiers == found.identifiers
    return found


def test_jats_fields() -> None:
    found = ask_jats()
    assert shown(found.title) == "On gates"
    assert [(shown(a.name), a.organisation) for a in found.authors] == [
        ("Ada Gate", False),
        ("The Group", True),
    ]
    assert found.published == PartialDate(2021, 3, 4)
    assert names(found) == [("doi", "10.5555/tg.1"), ("issn", "1234-5678"), ("pmcid", "PMC9")]
    assert shown(found.licence) == "https://l.example/by"
    assert shown(found.abstracts[0].text) == "Aim\nTo see."
    assert found.retraction.status == "unknown"


def test_jats_notices() -> None:
    assert ask_jats("retracted-article").retraction.status == "retracted"
    found = ask_jats(related=RELATED.format("retraction-forward"))
    assert found.retraction.status == "retracted"
    notice = ask_jats("retraction", RELATED.format("retracted-article"))
    assert notice.retraction.status == "unknown"
    assert len(notice.notice_of) == 2


LAUGHS = b'<!DOCTYPE feed [<!ENTITY a "ha">]><feed xmlns="http://www.w3.org/2005/Atom">&a;</feed>'


@pytest.mark.parametrize("parse", [arxiv.READER.one, pubmed.READER.one, jats.READER.one])
def test_entities_are_refused_with_their_reason(parse: Callable[..., Outcome]) -> None:
    found = parse(Untrusted(LAUGHS), status=200, media_type=XML)
    assert isinstance(found, Unreadable)
    assert found.reason == "doctype"
