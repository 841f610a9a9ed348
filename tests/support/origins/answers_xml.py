"""Works in the shapes in which arXiv, PubMed and Europe PMC answer with XML."""

from xml.sax.saxutils import escape

from tests.support.origins.works import Work

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def arxiv(works: list[Work]) -> bytes:
    entries = "".join(_entry(work) for work in works)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <id>http://arxiv.org/api/query</id>
  <title type="html">ArXiv Query</title>
  <updated>2026-11-01T00:00:00-05:00</updated>
  <opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">{len(works)}\
</opensearch:totalResults>
{entries}</feed>
""".encode()


def _entry(work: Work) -> str:
    authors = "".join(
        f"    <author><name>{escape(given)} {escape(family)}</name></author>\n"
        for given, family in work.authors
    )
    name = f"{work.arxiv}v1"
    return f"""  <entry>
    <id>http://arxiv.org/abs/{name}</id>
    <updated>{work.day}T09:30:00Z</updated>
    <published>{work.day}T09:30:00Z</published>
    <title>{escape(work.title)}</title>
    <summary>  {escape(work.abstract)}
</summary>
{authors}    <link href="http://arxiv.org/abs/{name}" rel="alternate" type="text/html"/>
    <link title="pdf" href="http://arxiv.org/pdf/{name}" rel="related" type="application/pdf"/>
    <category term="physics.geo-ph" scheme="http://arxiv.org/schemas/atom"/>
  </entry>
"""


def pubmed(work: Work | None) -> bytes:
    article = "" if work is None else _pubmed_article(work)
    return f"""<?xml version="1.0" ?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" \
"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">
<PubmedArticleSet>{article}</PubmedArticleSet>
""".encode()


def _pubmed_article(work: Work) -> str:
    year, month, day = work.date
    authors = "".join(
        f"<Author><LastName>{escape(family)}</LastName><ForeName>{escape(given)}</ForeName></Author>"
        for given, family in work.authors
    )
    doi = f'<ArticleId IdType="doi">{work.doi}</ArticleId>' if work.doi else ""
    types = "<PublicationType>Journal Article</PublicationType>"
    corrections = ""
    if work.retraction is not None:
        types += "<PublicationType>Retracted Publication</PublicationType>"
        corrections = (
            '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn">'
            f"<RefSource>J Invent Cryol. 2022</RefSource><PMID>{work.retraction.pmid}</PMID>"
            "</CommentsCorrections></CommentsCorrectionsList>"
        )
    return f"""
<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{work.pmid}</PMID>
<Article PubModel="Print"><Journal><ISSN IssnType="Electronic">2049-3630</ISSN>
<JournalIssue><PubDate><Year>{year}</Year><Month>{_MONTHS[month - 1]}</Month><Day>{day}</Day>\
</PubDate></JournalIssue><Title>{escape(work.journal)}</Title></Journal>
<ArticleTitle>{escape(work.title)}</ArticleTitle>
<Abstract><AbstractText>{escape(work.abstract)}</AbstractText></Abstract>
<AuthorList CompleteYN="Y">{authors}</AuthorList>
<PublicationTypeList>{types}</PublicationTypeList></Article>{corrections}</MedlineCitation>
<PubmedData><ArticleIdList><ArticleId IdType="pubmed">{work.pmid}</ArticleId>{doi}</ArticleIdList>\
</PubmedData></PubmedArticle>
"""


def jats(work: Work) -> bytes:
    year, month, day = work.date
    people = "".join(
        '<contrib contrib-type="author"><name>'
        f"<surname>{escape(family)}</surname><given-names>{escape(given)}</given-names>"
        "</name></contrib>"
        for given, family in work.authors
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<article article-type="research-article" xmlns:xlink="http://www.w3.org/1999/xlink">
<front><journal-meta><journal-title-group><journal-title>{escape(work.journal)}</journal-title>\
</journal-title-group><issn pub-type="epub">2049-3630</issn></journal-meta>
<article-meta><article-id pub-id-type="pmcid">{work.pmcid}</article-id>\
<article-id pub-id-type="doi">{work.doi}</article-id>
<title-group><article-title>{escape(work.title)}</article-title></title-group>
<contrib-group>{people}</contrib-group>
<pub-date pub-type="epub"><day>{day}</day><month>{month}</month><year>{year}</year></pub-date>
<permissions><license xlink:href="https://creativecommons.org/licenses/by/4.0/"/></permissions>
<abstract><p>{escape(work.abstract)}</p></abstract></article-meta></front>
<body><sec><title>Methods</title><p>Beams were sawn with care and broken with more of it.</p></sec>
<sec><title>Results</title><p>Forty beams broke, at 1.31 MPa on average.</p></sec></body>
</article>
""".encode()
