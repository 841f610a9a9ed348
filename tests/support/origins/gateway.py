"""What a gateway must stop: wrong types, sizes, certificates and addresses, under listed names."""

import ssl

from tests.support.origin import (
    HERE,
    INSIDE,
    ORIGIN,
    OTHER,
    Certificate,
    Request,
    Response,
    Site,
    Sites,
)

PAGE = b'{"message":"from the test internet"}'
LARGE_BYTES = 256 * 1024
CERTIFICATES: tuple[Certificate, ...] = ("other-ca", "wrong-name", "expired", "self-signed")
# Names whose IPv6 addresses lead inside; the name server of `squid_scenes` gives them out.
INSIDE_V6 = {"nat64.inside.org": "64:ff9b::a09:909", "local.inside.org": "fd00::1"}


def page(request: Request, _: ssl.SSLSocket) -> Response:
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
    return page(request, tls)


def _endless(tls: ssl.SSLSocket) -> None:
    """Send four times what is allowed without saying how much it will be."""
    head = (
        "HTTP/1.1 200 Said\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    tls.sendall(head.encode())
    for _ in range(LARGE_BYTES // 4096):
        tls.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
    tls.sendall(b"0\r\n\r\n")


def world() -> Sites:
    sites = {
        "api.crossref.org": Site(strange),
        "evil.example": Site(page, ((OTHER,),)),
        "api.datacite.org": Site(page, ((INSIDE,),)),
        "doi.org": Site(page, ((ORIGIN,), (INSIDE,))),
        "api.openalex.org": Site(page, ((ORIGIN, INSIDE),)),
        "api.unpaywall.org": Site(page, ((HERE,),)),
        "api.semanticscholar.org": Site(page),
        "eutils.ncbi.nlm.nih.gov": Site(page),
        "one.publisher.org": Site(page),
        "publisher.org": Site(page),
        "a.b.publisher.org": Site(page),
    }
    sites |= {f"{kind}.broken.org": Site(page, certificate=kind) for kind in CERTIFICATES}
    return sites
