"""A posted form that brings files, taken apart where it lies.

Browsers write such a form in one way; whatever else the format allows (other headers, parts in
parts, encodings, words before and after) is refused, not interpreted.

SECURITY
    Reads what any page or program of the operator's account may post.  Nothing in it is ever a
    place: the name of a file is a text that came with the bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_PARTS: Final = 128
MAX_PART_HEAD_BYTES: Final = 1024
_KIND: Final = re.compile(r"multipart/form-data; ?boundary=([A-Za-z0-9_-]{8,70})")
_DISPOSITION: Final = re.compile(
    r'content-disposition: form-data; name="([a-z0-9_-]{1,64})"(?:; filename="([^"\r\n]*)")?',
    re.IGNORECASE,
)
_TYPE: Final = re.compile(r"content-type: [!-~]{1,255}(?: [!-~]{1,255})?", re.IGNORECASE)


class NotAForm(ValueError):
    """Why a body is no form with files, in our words."""


@dataclass(frozen=True, slots=True)
class FormPart:
    """One field: where its value lies in the body."""

    name: str
    filename: str | None  # None for a field that is text
    start: int
    end: int


def boundary_of(kind: str) -> str | None:
    """Return what stands between the parts, None if a form of this type has none."""
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
        raise NotAForm("a field stands there twice")
    return found


def _parts(body: bytes, boundary: bytes) -> Iterator[FormPart]:
    first, between = b"--" + boundary + b"\r\n", b"\r\n--" + boundary
    if not body.startswith(first):
        raise NotAForm("its parts cannot be told apart")
    at = len(first)
    while True:
        value = body.find(b"\r\n\r\n", at, at + MAX_PART_HEAD_BYTES)
        end = body.find(between, at)
        if end < 0:
            raise NotAForm("it ends before its end")
        if not 0 <= value <= end - 4:
            raise NotAForm("a part has no head")
        name, filename = _head(body[at:value])
        yield FormPart(name, filename, value + 4, end)
        at = end + len(between)
        if body[at:] == b"--\r\n":
            return
        if body[at : at + 2] != b"\r\n":
            raise NotAForm("it does not end where it says")
        at += 2


def _head(data: bytes) -> tuple[str, str | None]:
    """Return the name of a field, and that of its file if it has one."""
    try:
        first, *others = data.decode("utf-8").split("\r\n")
    except UnicodeDecodeError as exc:
        raise NotAForm("a part's head is not text") from exc
    found = _DISPOSITION.fullmatch(first)
    if found is None or len(others) > 1 or not all(map(_TYPE.fullmatch, others)):
        raise NotAForm("a part's head is none of a browser's")
    return found[1], found[2]
