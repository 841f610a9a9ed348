"""Content types: what a server declares, what the bytes are, and what they may be read as.

SECURITY
    Reads bytes of web servers.  A type is accepted if policy lists it for this host and the
    bytes do not contradict it: a login page in place of a record, a program in place of a paper.
    Nothing is read as something more powerful than its declared type.
"""

import re
from typing import Final

from threegate.base.text import quote
from threegate.gates.fetch.retrieve.messages import HTML, JSON, MEDIA_TYPE, PDF, TEXT, XML
from threegate.gates.http_library.client import Failure, NotRetrieved

SNIFFED_BYTES: Final = 1_024  # as many as may come before the header of a PDF
_TYPE: Final = re.compile(r"([^;,\s]+)[\t ]*(?:;[^,]*)?\Z")

_PDF: Final = b"%PDF-"
# Bytes that begin like this are a program, an archive or a picture, whatever their type says.
_BINARY: Final = (
    *(
        b"\x7fELF",
        b"MZ",
        b"\xca\xfe\xba\xbe",
        b"\xfe\xed\xfa",
        b"\xcf\xfa\xed\xfe",
        b"\0asm",
        b"#!",
    ),
    *(
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"\x1f\x8b",
        b"BZh",
        b"\xfd7zXZ",
        b"\x28\xb5\x2f\xfd",
        b"7z\xbc",
    ),
    *(b"Rar!", b"!<arch>", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"RIFF"),
    *(
        b"OggS",
        b"ID3",
        b"SQLite format 3",
        b"\x80\x02",
        b"\x80\x03",
        b"\x80\x04",
        b"\x80\x05",
        b"%!PS",
    ),
)
# How the MIME Sniffing Standard recognises HTML.
_HTML: Final = re.compile(
    rb"<(?:!doctype[\t\n\f\r ]+html|html|head|body|title|script|style|iframe"
    rb"|h1|div|font|table|a|b|br|p)"
    rb"(?=[\t\n\f\r >/])",
    re.IGNORECASE,
)
_XML: Final = re.compile(rb"<(?:\?|!--|!DOCTYPE|[A-Za-z_])")
_PROLOGUE: Final = re.compile(rb"(?:\s+|<\?[^>]{0,500}\?>|<!--.{0,500}?-->)*", re.DOTALL)
_JSON: Final = re.compile(
    rb'\{\s*["}]|\[\s*[\[\]{"0-9tfn-]|"|-?[0-9]|(?:true|false|null)\s*\Z|[\[{]\Z'
)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def declared_type(value: str | None, allowed: frozenset[str]) -> str:
    """Return the declared type without parameters; raise `NotRetrieved`."""
    if value is None:
        raise NotRetrieved(Failure.TYPE, "the answer has no content type")
    found = _TYPE.match(value)
    name = found[1].lower() if found else ""
    if not MEDIA_TYPE.fits(name):
        raise NotRetrieved(Failure.TYPE, "the answer's content type is malformed")
    if name not in allowed:
        raise NotRetrieved(Failure.TYPE, f"content type {quote(name)} is not listed for this host")
    return name


def read_as(name: str, body: bytes) -> str:
    """Return what a body of the declared type `name` may be read as; raise `NotRetrieved`."""
    wanted = _family(name)
    if not body.strip():
        raise NotRetrieved(Failure.MISLABELLED, "the answer is empty")
    head = body[:SNIFFED_BYTES]
    found = sniff(head)
    # Some servers put bytes before a PDF, and readers of PDF skip them.
    if wanted == PDF and _PDF in head and found in ("text", "binary data"):
        return PDF
    if found not in _ACCEPTED[wanted]:
        raise NotRetrieved(Failure.MISLABELLED, f"called {quote(name)}, but looks like {found}")
    return wanted


def _family(name: str) -> str:
    if name in (HTML, "application/xhtml+xml"):
        return HTML
    if name in (PDF, TEXT):
        return name
    if name == JSON or name.endswith("+json"):
        return JSON
    if name in (XML, "text/xml") or name.endswith("+xml"):
        return XML
    raise NotRetrieved(Failure.TYPE, f"nothing here reads content type {quote(name)}")


# What each type may look like.  Text that happens to be XML or JSON is still text.
_ACCEPTED: Final = {
    JSON: ("JSON",),
    XML: ("XML", "XHTML"),
    HTML: ("HTML", "XHTML", "XML", "text"),
    PDF: ("PDF",),
    TEXT: ("text", "JSON", "XML"),
}


def sniff(head: bytes) -> str:
    """Return what the first bytes of a body look like."""
    if head.lstrip().startswith(_PDF):
        return "PDF"
    if head.startswith(_BINARY):
        return "a program, an archive or a picture"
    text = _as_text(head)
    if _CONTROL.search(text):
        return "binary data"
    text = text.lstrip()
    root = text[_end_of_prologue(text) :]
    if _HTML.match(root):
        return "XHTML" if text.startswith(b"<?xml") else "HTML"
    if _XML.match(text):
        return "XML"
    return "JSON" if _JSON.match(text) else "text"


def _end_of_prologue(text: bytes) -> int:
    found = _PROLOGUE.match(text)
    return found.end() if found else 0


def _as_text(head: bytes) -> bytes:
    """Return the bytes without a byte order mark; UTF-16 becomes UTF-8."""
    for mark, name in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if head.startswith(mark):
            return head[2:].decode(name, "replace").encode("utf-8", "replace")
    return head.removeprefix(b"\xef\xbb\xbf")
