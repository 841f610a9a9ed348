"""Works in the shapes in which the sources answer, JSON and XML."""

import hashlib
import json
from typing import Any
from xml.sax.saxutils import escape

from tests.support.origins.works import CITES, Work


def body(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def crossref(work: Work) -> bytes:
    return body(
        {
            "status": "ok",
            "message-type": "work",
            "message-version": "1.0.0",
            "message": crossref_work(work),
        }
    )


def crossref_list(works: list[Work]) -> bytes:
    items = [crossref_work(work) for work in works]
    message = {"facets": {}, "total-results": len(items), "items": items, "items-per-page": 20}
    return body(
        {
            "status": "ok",
            "message-type": "work-list",
            "message-version": "1.0.0",
            "message": message,
        }
    )


def crossref_work(work: Work) -> dict[str, Any]:
    assert work.doi is not None
    found: dict[str, Any] = {
        "DOI": work.doi,
        "type": "journal-article",
        "title": [work.title],
        "container-title": [work.journal],
        "author": [
            {"given": given, "family": family, "sequence": "additional", "affiliation": []}
            for given, family in work.authors
        ],
        "issued": {"date-parts": [list(work.date)]},
        "published": {"date-parts": [list(work.date)]},
        "ISSN": ["2049-3630"],
        "abstract": f"<jats:p>{work.abstract}</jats:p>",
        "license": [
            {
                "URL": "https://creativecommons.org/licenses/by/4.0/",
                "content-version": "vor",
                "delay-in-days": 0,
            }
        ],
        "URL": f"https://doi.org/{work.doi}",
        # A publisher that no policy lists: shown, never followed.
        "resource": {"primary": {"URL": f"http://publisher.example/{work.doi}"}},
        "link": [
            {
                "URL": f"https://publisher.example/{work.doi}.pdf",
                "content-type": "application/pdf",
                "intended-application": "text-mining",
            }
        ],
        "reference-count": 0,
        "is-referenced-by-count": 3,
        "relation": {},
    }
    if work in CITES:
        found["reference"] = crossref_references(work)
    if work.retraction is not None:
        found["updated-by"] = [
            {
                "DOI": work.retraction.doi,
                "type": "retraction",
                "label": "Retraction",
                "source": "retraction-watch",
                "updated": {"date-parts": [list(work.retraction.date)]},
            }
        ]
    return found


def crossref_references(work: Work) -> list[dict[str, str]]:
    """Return what a work cites, as publishers deposit it: with a DOI, or as they print it."""
    cited = []
    for number, one in enumerate(CITES[work], 1):
        year = str(one.date[0])
        entry = {"key": f"ref{number}", "author": one.authors[0][1], "year": year}
        if one.doi is None:
            entry["unstructured"] = f"{one.authors[0][1]}. {one.title}. {year}."
        else:
            entry |= {"DOI": one.doi, "doi-asserted-by": "crossref", "journal-title": one.journal}
        cited.append(entry)
    return cited


def datacite(work: Work) -> bytes:
    doi = work.doi or f"10.48550/arxiv.{work.arxiv}"
    attributes = {
        "doi": doi,
        "titles": [{"title": work.title}],
        "creators": [
            {
                "name": f"{family}, {given}",
                "nameType": "Personal",
                "givenName": given,
                "familyName": family,
                "affiliation": [],
            }
            for given, family in work.authors
        ],
        "publisher": work.journal,
        "container": {},
        "publicationYear": work.date[0],
        "dates": [{"date": work.day, "dateType": "Issued"}],
        "descriptions": [{"description": work.abstract, "descriptionType": "Abstract"}],
        "rightsList": [{"rightsIdentifier": "cc-by-4.0"}],
        "relatedIdentifiers": [],
        "types": {"resourceTypeGeneral": "Preprint" if work.arxiv else "Dataset"},
        "url": f"https://repository.example/{doi}",
        "contentUrl": None,
        "state": "findable",
    }
    return body({"data": {"id": doi, "type": "dois", "attributes": attributes}})


def openalex(work: Work) -> bytes:
    return body(openalex_work(work))


def openalex_list(works: list[Work]) -> bytes:
    meta = {"count": len(works), "page": 1, "per_page": 25}
    return body({"meta": meta, "results": [openalex_work(work) for work in works]})


def openalex_work(work: Work) -> dict[str, Any]:
    name = f"https://openalex.org/{work.openalex or 'W9100000000'}"
    doi = None if work.doi is None else f"https://doi.org/{work.doi}"
    words: dict[str, list[int]] = {}
    for place, word in enumerate(work.abstract.split()):
        words.setdefault(word, []).append(place)
    ids = {"openalex": name, "doi": doi}
    if work.pmid is not None:
        ids["pmid"] = f"https://pubmed.ncbi.nlm.nih.gov/{work.pmid}"
    return {
        "id": name,
        "doi": doi,
        "title": work.title,
        "display_name": work.title,
        "publication_year": work.date[0],
        "publication_date": work.day,
        "ids": {key: value for key, value in ids.items() if value is not None},
        "type": "article",
        "is_retracted": work.retraction is not None,
        "authorships": [
            {
                "author_position": "middle",
                "author": {"display_name": f"{given} {family}", "orcid": None},
                "raw_author_name": f"{given} {family}",
            }
            for given, family in work.authors
        ],
        "primary_location": {
            "source": {"display_name": work.journal, "issn": ["2049-3630"]},
            "license": "cc-by",
        },
        "best_oa_location": None,
        "locations": [
            {"is_oa": False, "pdf_url": None, "landing_page_url": "https://publisher.example/"},
            *({"is_oa": True, "pdf_url": url, "landing_page_url": None} for url in work.copies),
        ],
        "open_access": {"is_oa": True, "oa_status": "gold", "oa_url": None},
        "abstract_inverted_index": words,
    }


def europepmc(works: list[Work]) -> bytes:
    found = [europepmc_work(work) for work in works]
    return body({"version": "6.9", "hitCount": len(found), "resultList": {"result": found}})


def europepmc_work(work: Work) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": work.pmid,
        "source": "MED",
        "pmid": work.pmid,
        "pmcid": work.pmcid,
        "doi": work.doi,
        "title": work.title,
        "authorString": ", ".join(family for _, family in work.authors),
        "authorList": {
            "author": [
                {"fullName": f"{family} {given[0]}", "firstName": given, "lastName": family}
                for given, family in work.authors
            ]
        },
        "journalInfo": {"journal": {"title": work.journal, "issn": "2049-3630"}},
        "pubYear": str(work.date[0]),
        "firstPublicationDate": work.day,
        "abstractText": work.abstract,
        "isOpenAccess": "Y" if work.pmcid else "N",
        "license": "cc by",
        "pubTypeList": {"pubType": ["Journal Article"]},
    }
    if work.retraction is not None:
        found["pubTypeList"]["pubType"].append("Retracted Publication")
        found["commentCorrectionList"] = {
            "commentCorrection": [
                {
                    "id": work.retraction.pmid,
                    "source": "MED",
                    "type": "Retraction in",
                    "reference": "J Invent Cryol. 2022",
                }
            ]
        }
    return {key: value for key, value in found.items() if value is not None}


def semanticscholar(work: Work) -> bytes:
    return body(semanticscholar_paper(work))


def semanticscholar_list(key: str, papers: list[Work]) -> bytes:
    """Return the papers on one side of citations; `key` is `citedPaper` or `citingPaper`."""
    found = [{"isInfluential": False, key: semanticscholar_paper(one)} for one in papers]
    return body({"offset": 0, "data": found})


def semanticscholar_paper(work: Work) -> dict[str, Any]:
    ids = {"DOI": work.doi, "ArXiv": work.arxiv, "PubMed": work.pmid}
    return {
        "paperId": hashlib.sha1(work.title.encode(), usedforsecurity=False).hexdigest(),
        "externalIds": {key: value for key, value in ids.items() if value is not None},
        "url": "https://www.semanticscholar.org/paper/7",
        "title": work.title,
        "abstract": work.abstract,
        "venue": work.journal,
        "year": work.date[0],
        "publicationDate": work.day,
        "journal": {"name": work.journal},
        "openAccessPdf": None,
        "authors": [
            {"authorId": None, "name": f"{given} {family}"} for given, family in work.authors
        ],
    }


def unpaywall(work: Work) -> bytes:
    place = {
        "url_for_pdf": f"https://publisher.example/{work.doi}.pdf",
        "url_for_landing_page": f"https://doi.org/{work.doi}",
        "license": "cc-by",
        "host_type": "publisher",
        "version": "publishedVersion",
    }
    return body(
        {
            "doi": work.doi,
            "doi_url": f"https://doi.org/{work.doi}",
            "title": work.title,
            "genre": "journal-article",
            "is_oa": True,
            "journal_name": work.journal,
            "journal_issns": "2049-3630",
            "published_date": work.day,
            "year": work.date[0],
            "best_oa_location": place,
            "oa_locations": [place],
            "z_authors": [{"given": given, "family": family} for given, family in work.authors],
        }
    )


# -- Works in the shapes in which arXiv, PubMed and Europe PMC answer with XML.

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
