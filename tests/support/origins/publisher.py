"""A publisher of model files: a redirect to where the bytes lie, in parts, in every wrong way."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path

from tests.support.origin import OTHER, Request, Response, Site, Sites

WORLD = "tests.support.origins.publisher:world"
FRONT, STORE, OUTSIDE = "huggingface.co", "cas-bridge.xethub.hf.co", "elsewhere.org"
DATA = bytes(range(251)) * 1200  # no power of two long
OTHERS = bytes(255 - byte for byte in DATA)
REAL = "published.gguf"  # in the home of whoever runs the far side
SIGNED = "X-Amz-Signature=0123456789abcdef&Policy=eyJT~_-&Key-Pair-Id=K2L8"

Act = Callable[[Request, ssl.SSLSocket], Response | None]


def wanted(request: Request) -> tuple[int, int]:
    """Return the first and the last byte that are asked for."""
    first, _, last = (request.header("range") or "bytes=0-0").removeprefix("bytes=").partition("-")
    return int(first), min(int(last), len(DATA) - 1)


def part(
    request: Request, data: bytes = DATA, *, first: int | None = None, total: int = 0
) -> Response:
    start, last = wanted(request)
    said = start if first is None else first
    spelled = f"bytes {said}-{said + last - start}/{total or len(data)}"
    headers = (("Content-Range", spelled),)
    return Response(data[start : last + 1], "application/octet-stream", 206, headers)


def good(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request)


def wrong_bytes(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request, OTHERS)


def no_parts(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(DATA, "application/octet-stream")


def shorter(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request, total=len(DATA) - 1000)


def longer(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request, total=len(DATA) * 1000)


def other_part(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request, first=wanted(request)[0] + 7)


def lying_length(request: Request, tls: ssl.SSLSocket) -> None:
    data = part(request).to_bytes().replace(b"Content-Length: ", b"Content-Length: 9")
    tls.sendall(data)


def endless(request: Request, tls: ssl.SSLSocket) -> None:
    first, last = wanted(request)
    head = f"HTTP/1.1 206 Said\r\nContent-Range: bytes {first}-{last}/{len(DATA)}\r\n"
    tls.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        tls.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")


def unnamed_part(request: Request, _: ssl.SSLSocket) -> Response:
    first, last = wanted(request)
    return Response(DATA[first : last + 1], "application/octet-stream", 206)


def cut_once(request: Request, tls: ssl.SSLSocket) -> Response | None:
    """Break off in the middle of the first part, then serve."""
    if request.number == 0:
        tls.sendall(part(request).to_bytes()[:20_000])
        return None
    return part(request)


def stalls_once(request: Request, tls: ssl.SSLSocket) -> Response | None:
    """Serve two parts, keep the third to itself until whoever asked is gone, then serve."""
    if request.number == 2:
        tls.settimeout(None)
        while tls.recv(1):
            pass
        return None
    return part(request)


def outside(request: Request, _: ssl.SSLSocket) -> Response:
    return Response(status=302, headers=(("Location", f"https://{OUTSIDE}{request.target}"),))


def gone(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(b"no", "text/plain", 404)


STORED: dict[str, Act] = {
    "good": good,
    "wrong-bytes": wrong_bytes,
    "no-parts": no_parts,
    "shorter": shorter,
    "longer": longer,
    "other-part": other_part,
    "lying-length": lying_length,
    "endless": endless,
    "unnamed-part": unnamed_part,
    "cut-once": cut_once,
    "stalls-once": stalls_once,
    "outside": outside,
    "gone": gone,
}


def url_of(name: str) -> str:
    """Return where a file is published."""
    return f"https://{FRONT}/somebody/model/resolve/main/{name}.gguf"


def front(request: Request, _: ssl.SSLSocket) -> Response:
    """Lead to where the bytes lie, with a signature in the query as such places have it."""
    name = request.path.rpartition("/")[2].removesuffix(".gguf")
    where = f"https://{STORE}/blobs/{name}?{SIGNED}"
    return Response(status=302, headers=(("Location", where),))


def store(request: Request, tls: ssl.SSLSocket) -> Response | None:
    return STORED[request.path.rpartition("/")[2]](request, tls)


def everything(request: Request, _: ssl.SSLSocket) -> Response:
    return part(request)


def real_part(request: Request, __: ssl.SSLSocket) -> Response:
    """Serve parts of the file that the test put there."""
    path = Path(os.environ["HOME"]) / REAL
    size = path.stat().st_size
    first, _, last = (request.header("range") or "").removeprefix("bytes=").partition("-")
    with path.open("rb") as file:
        file.seek(int(first))
        data = file.read(int(last) - int(first) + 1)
    spelled = f"bytes {first}-{int(first) + len(data) - 1}/{size}"
    return Response(data, "application/octet-stream", 206, (("Content-Range", spelled),))


def real_world() -> Sites:
    """Return a publisher of a real model."""
    return {FRONT: Site(front), STORE: Site(real_part, turns=((OTHER,),))}


def world() -> Sites:
    return {
        FRONT: Site(front),
        STORE: Site(store, turns=((OTHER,),)),
        OUTSIDE: Site(everything),
    }
