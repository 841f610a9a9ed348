"""The scholarly sources of the test internet, and one host with pages.

Everything has an ETag and answers 304 to it.  What is odd about a work is said in `works`.
"""

import hashlib
import ssl
from collections.abc import Callable
from dataclasses import replace

from tests.support.origin import OTHER, Request, Response, Site, Sites, nothing_here
from tests.support.origins import answers, works
from tests.support.origins.hostile import monster
from tests.support.origins.works import find, matching

WORLD = "tests.support.origins.scholarly:world"
PAGES = "notes.western-basin.example"  # a host that a policy must list first
OUTSIDE = "publisher.example"  # a host that no policy here lists
# A change of `fetch.policy.md` for `internet_place.settle`.
PAGES_RULE = (
    "\nhosts:\n",
    f"""
hosts:
  {PAGES}:
    rate_per_minute: 600
    concurrency: 2
    bytes_per_day: 64MiB
    response_bytes: 8MiB
    content_types: [application/json, application/pdf, application/xml, text/html, text/plain]
    credential: none

""",
)
# Others: this arXiv may be asked as often as a test likes.
ARXIV_RATES = tuple(
    (f"\n  {host}:\n    rate_per_minute: 10\n", f"\n  {host}:\n    rate_per_minute: 600\n")
    for host in ("export.arxiv.org", "arxiv.org")
)
NOT_FOUND = b"Resource not found."
RETRY_SECONDS = 1

# References whose answers are made to hurt whoever reads them.
HURTING = {
    "arxiv:2610.66601": "/laughs.xml",
    "arxiv:2610.66602": "/asks.xml",
    "doi:10.5555/threegate.monster.1": "/deep.json",
    "pmid:916660001": "/laughs.xml",
}

Plain = Callable[[Request], Response]


def _site(answer: Plain, address: str) -> Site:
    """Return a site that also says 304 to whoever knows the answer."""

    def handler(request: Request, tls: ssl.SSLSocket) -> Response | None:
        if _is_silent(request):
            tls.recv(1)  # until the client goes
            return None
        if _is_cut(request):
            return None
        response = answer(request)
        if response.status != 200:
            return response
        tag = f'"{hashlib.sha256(response.body).hexdigest()[:16]}"'
        headers = (*response.headers, ("ETag", tag))
        if request.header("if-none-match") == tag:
            return Response(b"", None, 304, headers)
        return replace(response, headers=headers)

    return Site(handler, ((address,),))


def _is_silent(request: Request) -> bool:
    silent = works.SILENT.doi or ""
    return silent in request.path + str(request.query) and request.host != "api.crossref.org"


def _is_cut(request: Request) -> bool:
    """One that closes the connection without a word: what being down looks like from here."""
    cut = works.GAPS.doi or ""
    return cut in request.path and request.host == "api.semanticscholar.org"


def _hurting(reference: str, kind: str) -> Response | None:
    found = monster(HURTING.get(reference, ""))
    return None if found is None else Response(found[1], kind)


def _crossref(request: Request) -> Response:
    hurting = _hurting(f"doi:{request.path.removeprefix('/works/')}", "application/json")
    if hurting is not None:
        return hurting
    if "query" in request.query:
        registered = [w for w in matching(request.query["query"]) if w.registrar == "crossref"]
        return Response(answers.crossref_list(registered))
    work = find(doi=request.path.removeprefix("/works/"))
    if work is works.BUSY and request.number == 0:
        return Response(b"slow down", "text/plain", 429, (("Retry-After", str(RETRY_SECONDS)),))
    if work is None or work.registrar != "crossref":
        return Response(NOT_FOUND, "application/json;charset=utf-8", 404)
    limits = (("x-rate-limit-limit", "5"), ("x-rate-limit-interval", "1s"))
    return Response(answers.crossref(work), headers=limits)


def _datacite(request: Request) -> Response:
    name = request.path.removeprefix("/dois/").lower()
    preprint = name.removeprefix("10.48550/arxiv.")
    work = find(doi=name) if preprint == name else find(arxiv=preprint)
    kind = "application/vnd.api+json; charset=utf-8"
    if work is None or work.registrar != "datacite":
        errors = {"errors": [{"status": "404", "title": "The resource you are looking for..."}]}
        return Response(answers.body(errors), kind, 404)
    return Response(answers.datacite(work), kind)


def _doi(request: Request) -> Response:
    name = request.path.removeprefix("/ra/")
    work = find(doi=name)
    if work is None:
        said = {"DOI": name, "status": "DOI does not exist"}
    else:
        said = {"DOI": name, "RA": "Crossref" if work.registrar == "crossref" else "DataCite"}
    return Response(answers.body([said]))


def _arxiv(request: Request) -> Response:
    query = request.query
    hurting = _hurting(f"arxiv:{query.get('id_list')}", "application/atom+xml")
    if hurting is not None:
        return hurting
    if "id_list" in query:
        work = find(arxiv=query["id_list"].partition("v")[0])
        found = [] if work is None else [work]
    else:
        words = query.get("search_query", "").replace("all:", "").replace(" AND ", " ")
        found = [work for work in matching(words) if work.arxiv is not None]
    return Response(answers.arxiv(found), "application/atom+xml; charset=utf-8")


def _arxiv_files(request: Request) -> Response:
    work = find(arxiv=request.path.removeprefix("/pdf/").partition("v")[0])
    if work is None:
        return Response(b"<html><body>no such paper</body></html>", "text/html", 404)
    pages = [f"{work.title}. {work.abstract}", f"{works.STORY} {works.MORE}"]
    hidden = works.INJECTION if work is works.HIDING_PREPRINT else None
    return Response(works.pdf(pages, hidden=hidden), "application/pdf")


def _openalex(request: Request) -> Response:
    if "search" in request.query:
        return Response(answers.openalex_list(matching(request.query["search"])))
    if "filter" in request.query:
        return Response(answers.openalex_list(_related(*request.query["filter"].split(":"))))
    name = request.path.removeprefix("/works/")
    work = find(doi=name[4:]) if name.startswith("doi:") else find(openalex=name)
    if work is works.GAPS:
        return Response(b"upstream failed", "text/plain", 503)
    if work is None or work.registrar == "datacite":
        return Response(b"<!doctype html><title>404 Not Found</title>", "text/html", 404)
    return Response(answers.openalex(work))


def _related(relation: str, name: str) -> list[works.Work]:
    """Return the works that a filter of OpenAlex finds; a preprint without its number has none."""
    work = find(openalex=name)
    if work is None:
        return []
    found = works.citing(work) if relation == "cites" else works.CITES.get(work, ())
    return [one for one in found if one.openalex is not None or one is works.INJECTING]


def _pubmed(request: Request) -> Response:
    pmid = request.query.get("id", "")
    work, hurting = find(pmid=pmid), _hurting(f"pmid:{pmid}", "text/xml")
    return hurting or Response(answers.pubmed(work), "text/xml; charset=UTF-8")


def _europepmc(request: Request) -> Response:
    if request.path.endswith("/fullTextXML"):
        work = find(pmcid=request.path.split("/")[-2])
        if work is None:
            return Response(b"", "application/xml", 404)
        return Response(answers.jats(work), "application/xml")
    return _europepmc_search(request.query.get("query", ""))


def _europepmc_search(query: str) -> Response:
    field, _, value = query.partition(":")
    scheme = {"DOI": "doi", "EXT_ID": "pmid", "PMCID": "pmcid"}.get(field)
    if scheme is None:
        found = [work for work in matching(query) if work.pmid is not None]
        return Response(answers.europepmc(found))
    work = find(**{scheme: value.partition(" AND ")[0].strip('"')})
    if work is works.GAPS:
        return Response(b'{"errCode":403}', "application/json", 403)
    known = work is not None and work.pmid is not None
    return Response(answers.europepmc([work] if known and work is not None else []))


def _semanticscholar(request: Request) -> Response:
    scheme, _, value = request.path.rpartition("/graph/v1/paper/")[2].partition(":")
    name, _, relation = value.rpartition("/")
    if relation not in ("references", "citations"):
        name, relation = value, ""
    work = find(**{scheme.lower(): name})
    if work is None:
        return Response(b'{"error":"Paper with id not found"}', status=404)
    if not relation:
        return Response(answers.semanticscholar(work))
    if work is works.RETRACTED:  # its publisher withholds what it cites
        return Response(b'{"data":null,"citingPaperInfo":{"paperId":null}}')
    cited = relation == "references"
    found = list(works.CITES.get(work, ())) if cited else works.citing(work)
    return Response(answers.semanticscholar_list("citedPaper" if cited else "citingPaper", found))


def _unpaywall(request: Request) -> Response:
    work = find(doi=request.path.removeprefix("/v2/"))
    if "@" not in request.query.get("email", ""):
        said = b'{"HTTP_status_code":422,"error":true,"message":"Email address required"}'
        return Response(said, status=422)
    if work is None or work.registrar != "crossref":
        return Response(b'{"HTTP_status_code":404,"error":true}', status=404)
    return Response(answers.unpaywall(work))


def _pages(request: Request) -> Response:
    match request.path:
        case "/field-notes":
            return Response(works.FIELD_NOTES, "text/html; charset=utf-8")
        case "/notes.txt":
            return Response(works.STORY.encode(), "text/plain; charset=utf-8")
        case "/open.pdf":
            return Response(works.pdf([works.STORY, works.MORE]), "application/pdf")
        case "/moved":
            return Response(b"", None, 301, (("Location", "/field-notes"),))
        case "/elsewhere":
            return Response(b"", None, 302, (("Location", f"https://{OUTSIDE}/paper"),))
        case _:
            return _monster(request.path)


def _monster(path: str) -> Response:
    found = monster(path)
    if found is None:
        return Response(b"<title>nothing</title>", "text/html", 404)
    return Response(found[1], found[0])


def world() -> Sites:
    return {
        "api.crossref.org": _site(_crossref, "104.18.0.1"),
        "api.datacite.org": _site(_datacite, "104.18.0.11"),
        "doi.org": _site(_doi, "104.18.0.12"),
        "export.arxiv.org": _site(_arxiv, "151.101.3.42"),
        "arxiv.org": _site(_arxiv_files, "151.101.3.43"),
        "api.openalex.org": _site(_openalex, "104.18.0.13"),
        "eutils.ncbi.nlm.nih.gov": _site(_pubmed, "130.14.29.110"),
        "www.ebi.ac.uk": _site(_europepmc, "193.62.193.80"),
        "api.semanticscholar.org": _site(_semanticscholar, "104.18.0.14"),
        "api.unpaywall.org": _site(_unpaywall, "104.18.0.15"),
        PAGES: _site(_pages, "185.199.108.7"),
        OUTSIDE: Site(nothing_here, ((OTHER,),)),
        "collect.example.net": Site(nothing_here, ((OTHER,),)),
    }
