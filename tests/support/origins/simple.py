"""Small origins: one that sends as much as it is asked for, one whose names lie, and others."""

import ssl

from tests.support.origin import (
    HERE,
    INSIDE,
    ORIGIN,
    OTHER,
    Certificate,
    Handler,
    Request,
    Response,
    Site,
    Sites,
)
from tests.support.origins import answers
from tests.support.origins.works import Work

NAME = "export.arxiv.org"
PIECE = bytes(256 * 1024)


def bulk(request: Request, tls: ssl.SSLSocket) -> None:
    """Send so many MiB as the path says, and close."""
    count = int(request.path.strip("/")) * 2**20
    head = f"HTTP/1.1 200 Said\r\nContent-Type: application/pdf\r\nContent-Length: {count}\r\n\r\n"
    tls.sendall(head.encode())
    while count:
        tls.sendall(PIECE[:count])
        count -= min(count, len(PIECE))


def bulk_world() -> Sites:
    return {NAME: Site(bulk)}


# -- Names that lie, rebind, or lead where nobody may go: for the proxy alone.

PAGE = b'{"message":"from the test internet"}'


def page(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(PAGE)


def lying_world() -> Sites:
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


# -- What approved runs may ask, and what they may not: an API, and names that lead elsewhere.

RUNS_WORLD = "tests.support.origins.simple:runs_world"
HOST = "api.run-data.org"
SECOND = "more.run-data.org"
UNLISTED = "collector.elsewhere.org"  # policy and request know nothing of it
NOT_ASKED = "other.run-data.org"  # policy would let a request list it
INNER = "inner.run-data.org"  # listed, and its name leads inside
MOVING = "moving.run-data.org"  # leads elsewhere from the second question on
LARGE = 200_000


def api(request: Request, tls: ssl.SSLSocket) -> Response | None:
    """Answer by path."""
    if request.path == "/moved":
        where = f"https://{UNLISTED}/rows"
        return Response(b"", None, 302, (("Location", where),))
    if request.path == "/large":
        return Response(b"x" * LARGE, "text/plain")
    if request.path == "/endless":
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            tls.sendall(b" " * 65536)
    said = f"{request.method} {request.target} {len(request.body)}"
    return Response(said.encode(), "text/plain", 200, (("Set-Cookie", "a=b"),))


def runs_world() -> Sites:
    return {
        HOST: Site(api),
        SECOND: Site(api),
        NOT_ASKED: Site(api, turns=((OTHER,),)),
        UNLISTED: Site(api, turns=((OTHER,),)),
        INNER: Site(api, turns=((INSIDE,),)),
        MOVING: Site(api, turns=((ORIGIN,), (OTHER,))),
    }


# -- Stand-ins for the hosts of `make live-test`: three answers in the shape of the real ones.

LIVE_WORLD = "tests.support.origins.simple:live_world"
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
LIVE_PAGE = b"""\
<!doctype html><html lang="en"><head><title>Example Domains</title></head><body><main>
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


def live_world() -> Sites:
    crossref = _always(answers.crossref(HELIX), "application/json")
    arxiv = _always(answers.arxiv([ATTENTION]), "application/atom+xml; charset=utf-8")
    return {
        "api.crossref.org": Site(crossref, (("104.18.0.1",),)),
        "export.arxiv.org": Site(arxiv, (("151.101.3.42",),)),
        "www.iana.org": Site(_always(LIVE_PAGE, "text/html; charset=utf-8"), (("192.0.46.8",),)),
        "api.openalex.org": Site(_nothing, (("104.18.0.13",),)),
        "www.ebi.ac.uk": Site(
            _always(answers.europepmc([]), "application/json"), (("193.62.193.80",),)
        ),
    }


# -- What a gateway must stop: wrong types, sizes, certificates and addresses, under listed names.

LARGE_BYTES = 256 * 1024
CERTIFICATES: tuple[Certificate, ...] = ("other-ca", "wrong-name", "expired", "self-signed")
# Names whose IPv6 addresses lead inside; the name server of `squid_scenes` gives them out.
INSIDE_V6 = {"nat64.inside.org": "64:ff9b::a09:909", "local.inside.org": "fd00::1"}


def gateway_page(request: Request, _: ssl.SSLSocket) -> Response:
    return Response(PAGE, headers=(("Set-Cookie", f"seen={request.path}"),))


def strange(request: Request, tls: ssl.SSLSocket) -> Response | None:
    """Answer by the path."""
    if request.path == "/script":
        return Response(b"alert(1)", "text/javascript")
    if request.path == "/untyped":
        return Response(PAGE, None)
    if request.path == "/moved":
        return Response(b"gone", "text/html", 302, (("Location", "https://evil.example/"),))
    if request.path == "/missing":
        return Response(b"no such thing", "text/plain", 404)
    if request.path == "/large":
        return Response(b" " * LARGE_BYTES)
    if request.path == "/endless":
        _endless(tls)
        return None
    return gateway_page(request, tls)


def _endless(tls: ssl.SSLSocket) -> None:
    """Send four times what is allowed without saying how much it will be."""
    head = (
        "HTTP/1.1 200 Said\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    tls.sendall(head.encode())
    for _ in range(LARGE_BYTES // 4096):
        tls.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
    tls.sendall(b"0\r\n\r\n")


def gateway_world() -> Sites:
    sites = {
        "api.crossref.org": Site(strange),
        "evil.example": Site(gateway_page, ((OTHER,),)),
        "api.datacite.org": Site(gateway_page, ((INSIDE,),)),
        "doi.org": Site(gateway_page, ((ORIGIN,), (INSIDE,))),
        "api.openalex.org": Site(gateway_page, ((ORIGIN, INSIDE),)),
        "api.unpaywall.org": Site(gateway_page, ((HERE,),)),
        "api.semanticscholar.org": Site(gateway_page),
        "eutils.ncbi.nlm.nih.gov": Site(gateway_page),
        "one.publisher.org": Site(gateway_page),
        "publisher.org": Site(gateway_page),
        "a.b.publisher.org": Site(gateway_page),
    }
    sites |= {f"{kind}.broken.org": Site(gateway_page, certificate=kind) for kind in CERTIFICATES}
    return sites
