"""Names that lie, rebind, or lead where nobody may go: for the proxy alone."""

import ssl

from tests.support.origin import HERE, INSIDE, ORIGIN, OTHER, Request, Response, Site, Sites

PAGE = b'{"message":"from the test internet"}'


def page(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(PAGE)


def world() -> Sites:
    return {
        "api.crossref.org": Site(page),
        "evil.example": Site(page, ((OTHER,),)),
        "api.datacite.org": Site(page, ((INSIDE,),)),
        "doi.org": Site(page, ((ORIGIN,), (INSIDE,))),  # another one at the second question
        "api.openalex.org": Site(page, ((ORIGIN, INSIDE),)),
        "export.arxiv.org": Site(page, truncated=True),
        # The very machine the proxy runs on, by its public address.
        "api.unpaywall.org": Site(page, ((HERE,),)),
    }
