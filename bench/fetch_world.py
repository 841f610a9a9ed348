"""One host of the test internet that knows every DOI of a batch; for `bench.fetch`."""

import json
import ssl
from functools import cache

from bench.normalize import work
from tests.support.origin import Request, Response, Site, Sites

HOST = "api.crossref.org"
WORLD = "bench.fetch_world:world"
PREFIX = "10.5555/bench."


def dois(count: int) -> list[str]:
    """Return the DOIs of a batch."""
    return [f"{PREFIX}{number}" for number in range(count)]


@cache
def _body(number: int) -> bytes:
    return json.dumps(work(number), ensure_ascii=False).encode()


def _answer(request: Request, _: ssl.SSLSocket) -> Response:
    number = request.path.removeprefix(f"/works/{PREFIX}")
    return Response(_body(int(number)))


def world() -> Sites:
    """Return the sites."""
    return {HOST: Site(_answer, (("104.18.0.1",),))}
