"""Stand-ins for the hosts of `make live-test`: three answers in the shape of the real ones."""

import ssl

from tests.support.origin import Handler, Request, Response, Site, Sites
from tests.support.origins import answers_json, answers_xml
from tests.support.origins.works import Work

WORLD = "tests.support.origins.live:world"
HELIX = Work(
    title="Molecular Structure of Nucleic Acids: A Structure for Deoxyribose Nucleic Acid",
    authors=(("J. D.", "Watson"), ("F. H. C.", "Crick")),
    date=(1953, 4, 25),
    journal="Nature",
    abstract="An abstract that stands in for the real one.",
    doi="10.1038/171737a0",
)
ATTENTION = Work(
    title="Attention Is All You Need",
    authors=(("Ashish", "Vaswani"), ("Noam", "Shazeer")),
    date=(2017, 6, 12),
    journal="arXiv",
    abstract="An abstract that stands in for the real one.",
    arxiv="1706.03762",
)
PAGE = b"""<!doctype html><html lang="en"><head><title>Example Domains</title></head><body><main>
<h1>Example Domains</h1><p>Some names are kept for documentation. Nobody can register them, so
they can be written into a book or a manual without leading its readers to somebody's door.</p>
</main></body></html>
"""


def _always(body: bytes, media_type: str) -> Handler:
    def handler(_: Request, __: ssl.SSLSocket) -> Response:
        return Response(body, media_type)

    return handler


def _nothing(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(b"<!doctype html><title>404</title>", "text/html", 404)


def world() -> Sites:
    crossref = _always(answers_json.crossref(HELIX), "application/json")
    arxiv = _always(answers_xml.arxiv([ATTENTION]), "application/atom+xml; charset=utf-8")
    return {
        "api.crossref.org": Site(crossref, (("104.18.0.1",),)),
        "export.arxiv.org": Site(arxiv, (("151.101.3.42",),)),
        "www.iana.org": Site(_always(PAGE, "text/html; charset=utf-8"), (("192.0.46.8",),)),
        "api.openalex.org": Site(_nothing, (("104.18.0.13",),)),
        "www.ebi.ac.uk": Site(
            _always(answers_json.europepmc([]), "application/json"), (("193.62.193.80",),)
        ),
    }
