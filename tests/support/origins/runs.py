"""What approved runs may ask, and what they may not: an API, and names that lead elsewhere."""

import ssl

from tests.support.origin import INSIDE, ORIGIN, OTHER, Request, Response, Site, Sites

WORLD = "tests.support.origins.runs:world"
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


def world() -> Sites:
    return {
        HOST: Site(api),
        SECOND: Site(api),
        NOT_ASKED: Site(api, turns=((OTHER,),)),
        UNLISTED: Site(api, turns=((OTHER,),)),
        INNER: Site(api, turns=((INSIDE,),)),
        MOVING: Site(api, turns=((ORIGIN,), (OTHER,))),
    }
