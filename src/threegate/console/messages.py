"""One request of a browser and one answer to it, as values.

SECURITY
    Reads what any program on this machine may send.  What could be understood in two ways (a
    header twice, an escape in a path, a field twice) is refused, not interpreted.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from threegate.base.canonical import encode
from threegate.console.multipart import MAX_PARTS, FormPart, NotAForm, boundary_of, parts_of

MAX_BODY_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = MAX_PARTS  # one for every candidate of a search, and a few
MAX_TEXT_BYTES: Final = 1024 * 1024  # of the fields beside files; a program is shorter
MAX_UPLOAD_BYTES: Final = 64 * 1024 * 1024  # of the files of one form, whatever policy allows
HTML: Final = "text/html; charset=utf-8"
FORM: Final = "application/x-www-form-urlencoded"
_ONCE: Final = ("host", "origin", "cookie", "content-type", "content-length", "sec-fetch-site")
_PATH: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")


class Malformed(Exception):
    """Not a request that is answered; the reason is in our words."""

    status: int = HTTPStatus.BAD_REQUEST


class BodyTooLong(Malformed):
    """More than anybody reads."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a form."""

    filename: str  # foreign, and no place on this machine
    data: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """What a browser asked for; every value in it is foreign."""

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
    """What is answered: a body, or a stream of events that lasts."""

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
    """Return a request that can be understood in one way only; raise `Malformed`."""
    try:
        path, _, query = target.decode("ascii").partition("?")
        found = [(name.decode("ascii"), value.decode("ascii")) for name, value in headers]
    except UnicodeDecodeError as exc:
        raise Malformed("it is not ASCII") from exc
    if not path.startswith("/") or not _PATH.issuperset(path) or "//" in path or ".." in path:
        raise Malformed("its path is none of ours")
    names = [name for name, _ in found]
    if any(names.count(name) > 1 for name in _ONCE):
        raise Malformed("a header stands there twice")
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
        raise Malformed("a field stands there twice")
    return dict(pairs)


def redirect(path: str, *headers: tuple[str, str]) -> Response:
    """Return the way to another page of ours."""
    return Response(HTTPStatus.SEE_OTHER, headers=(("Location", path), *headers))


def plain(status: int, words: str) -> Response:
    """Return a few words of ours."""
    return Response(status, f"{words}\n".encode("ascii", "backslashreplace"), "text/plain")


def as_json(value: Mapping[str, object]) -> Response:
    """Return a document for a script of ours."""
    return Response(body=encode(value), kind="application/json")
