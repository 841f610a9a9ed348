"""One request of a browser and one answer to it, as values, with forms that bring files.

Browsers write a multipart form in one way.  Everything else that the format allows (other headers,
nested parts, encodings, text before and after) is refused.

SECURITY
    Reads what any program on this machine may send.  A request with two possible readings (a
    repeated header or field, an escape in a path) is refused, not interpreted.  The name of a file
    is a text that came with the bytes, never a place on this machine.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from threegate.base.canonical import encode

# -- forms with files --------------------------------------------------------------------


MAX_PARTS: Final = 128
MAX_PART_HEAD_BYTES: Final = 1024
_KIND: Final = re.compile(r"multipart/form-data; ?boundary=([A-Za-z0-9_-]{8,70})")
_DISPOSITION: Final = re.compile(
    r'content-disposition: form-data; name="([a-z0-9_-]{1,64})"(?:; filename="([^"\r\n]*)")?',
    re.IGNORECASE,
)
_TYPE: Final = re.compile(r"content-type: [!-~]{1,255}(?: [!-~]{1,255})?", re.IGNORECASE)


class NotAForm(ValueError):
    """The body is not a form with files; the reason is in our words."""


@dataclass(frozen=True, slots=True)
class FormPart:
    """One field: where its value lies in the body."""

    name: str
    filename: str | None  # None for a field that is text
    start: int
    end: int


def boundary_of(kind: str) -> str | None:
    """Return the boundary between the parts, None if a form of this type has none."""
    found = _KIND.fullmatch(kind)
    return None if found is None else found[1]


def parts_of(body: bytes, boundary: str) -> list[FormPart]:
    """Return every part of a body; raise `NotAForm` for one that has two readings."""
    found: list[FormPart] = []
    for part in _parts(body, boundary.encode("ascii")):
        if len(found) == MAX_PARTS:
            raise NotAForm("it has too many fields")
        found.append(part)
    if len({part.name for part in found}) != len(found):
        raise NotAForm("a field occurs twice")
    return found


def _parts(body: bytes, boundary: bytes) -> Iterator[FormPart]:
    first, between = b"--" + boundary + b"\r\n", b"\r\n--" + boundary
    if not body.startswith(first):
        raise NotAForm("its parts have no boundary")
    at = len(first)
    while True:
        value = body.find(b"\r\n\r\n", at, at + MAX_PART_HEAD_BYTES)
        end = body.find(between, at)
        if end < 0:
            raise NotAForm("it ends too early")
        if not 0 <= value <= end - 4:
            raise NotAForm("a part has no head")
        name, filename = _head(body[at:value])
        yield FormPart(name, filename, value + 4, end)
        at = end + len(between)
        if body[at:] == b"--\r\n":
            return
        if body[at : at + 2] != b"\r\n":
            raise NotAForm("a boundary is malformed")
        at += 2


def _head(data: bytes) -> tuple[str, str | None]:
    """Return the name of a field, and that of its file if it has one."""
    try:
        first, *others = data.decode("utf-8").split("\r\n")
    except UnicodeDecodeError as exc:
        raise NotAForm("a part's head is not text") from exc
    found = _DISPOSITION.fullmatch(first)
    if found is None or len(others) > 1 or not all(map(_TYPE.fullmatch, others)):
        raise NotAForm("a part's head is not one that a browser sends")
    return found[1], found[2]


MAX_BODY_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = MAX_PARTS  # one for every candidate of a search, and a few
MAX_TEXT_BYTES: Final = 1024 * 1024  # of the fields beside files; a program is shorter
MAX_UPLOAD_BYTES: Final = 64 * 1024 * 1024  # of the files of one form, even if policy allows more
HTML: Final = "text/html; charset=utf-8"
FORM: Final = "application/x-www-form-urlencoded"
_ONCE: Final = ("host", "origin", "cookie", "content-type", "content-length", "sec-fetch-site")
_PATH: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")


class Malformed(Exception):
    """A request that is refused; the reason is in our words."""

    status: int = HTTPStatus.BAD_REQUEST


class BodyTooLong(Malformed):
    """The body is longer than its limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a form."""

    filename: str  # foreign; never used as a path
    data: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a browser; every value in it is foreign."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""

    def form(self) -> dict[str, str]:
        """Return the fields of a posted form that are text; raise `Malformed`."""
        if not self._is_parted():
            return fields_of(self.body.decode("ascii", "replace"))
        texts = [one for one in self._parts() if one.filename is None]
        if sum(one.end - one.start for one in texts) > MAX_TEXT_BYTES:
            raise Malformed("its texts are too long")
        try:
            return {one.name: self.body[one.start : one.end].decode("utf-8") for one in texts}
        except UnicodeDecodeError as exc:
            raise Malformed("its fields cannot be read") from exc

    def files(self) -> dict[str, UploadedFile]:
        """Return the files of a posted form by the names of their fields; raise `Malformed`.

        A field in which nobody chose a file is not there.
        """
        return {
            one.name: UploadedFile(one.filename, self.body[one.start : one.end])
            for one in (self._parts() if self._is_parted() else ())
            if one.filename is not None and (one.filename or one.end > one.start)
        }

    def _is_parted(self) -> bool:
        return boundary_of(self.headers.get("content-type", "")) is not None

    def _parts(self) -> list[FormPart]:
        try:
            return parts_of(self.body, boundary_of(self.headers["content-type"]) or "")
        except NotAForm as exc:
            raise Malformed(str(exc)) from exc

    def cookie(self, name: str) -> str:
        """Return a cookie, or nothing; of two with one name neither counts."""
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        found = [value for key, _, value in pairs if key == name]
        return found[0] if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer: a body, or a stream of events."""

    status: int = HTTPStatus.OK
    body: bytes = b""
    kind: str = HTML
    headers: Sequence[tuple[str, str]] = ()
    policy: str = ""  # its own content policy, in place of that of our pages
    refused: str = ""  # by which code, if nobody was let in
    stream: AsyncIterator[bytes] | None = field(default=None, compare=False)


def read_request(
    method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes = b""
) -> Request:
    """Return the request if it has exactly one reading; raise `Malformed`."""
    try:
        path, _, query = target.decode("ascii").partition("?")
        found = [(name.decode("ascii"), value.decode("ascii")) for name, value in headers]
    except UnicodeDecodeError as exc:
        raise Malformed("it is not ASCII") from exc
    if not path.startswith("/") or not _PATH.issuperset(path) or "//" in path or ".." in path:
        raise Malformed("its path is not one of this console")
    names = [name for name, _ in found]
    if any(names.count(name) > 1 for name in _ONCE):
        raise Malformed("a header occurs twice")
    return Request(method.decode("ascii"), path, fields_of(query), dict(found), body)


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, each once; raise `Malformed`."""
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=bool(text),
            encoding="utf-8",
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as exc:
        raise Malformed("its fields cannot be read") from exc
    if len(dict(pairs)) != len(pairs):
        raise Malformed("a field occurs twice")
    return dict(pairs)


def redirect(path: str, *headers: tuple[str, str]) -> Response:
    """Return a redirect to another page of ours."""
    return Response(HTTPStatus.SEE_OTHER, headers=(("Location", path), *headers))


def plain(status: int, words: str) -> Response:
    """Return a few words of ours."""
    return Response(status, f"{words}\n".encode("ascii", "backslashreplace"), "text/plain")


def as_json(value: Mapping[str, object]) -> Response:
    """Return a document for a script of ours."""
    return Response(body=encode(value), kind="application/json")
