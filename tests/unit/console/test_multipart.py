"""Forms that bring files: what a browser writes is read, whatever else the format allows is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.console import access, messages
from threegate.console.messages import (
    MAX_PARTS,
    Malformed,
    NotAForm,
    Request,
    UploadedFile,
    boundary_of,
    parts_of,
)

BOUNDARY = "----WebKitFormBoundaryAbCd0123"
KIND = f"multipart/form-data; boundary={BOUNDARY}"
FIELD = b'Content-Disposition: form-data; name="purpose"\r\n\r\nrows'
FILE = (
    b'Content-Disposition: form-data; name="file-1"; filename="r\xc3\xb6ws.json"\r\n'
    b"Content-Type: application/json\r\n\r\n[1]"
)


def body(*parts: bytes, end: bytes = b"--\r\n") -> bytes:
    line = b"--" + BOUNDARY.encode()
    return b"".join(line + b"\r\n" + part + b"\r\n" for part in parts) + line + end


def request(data: bytes, path: str = "/run", kind: str = KIND) -> Request:
    return Request("POST", path, {}, {"content-type": kind}, data)


def named(name: str, value: bytes, more: str = "") -> bytes:
    return f'Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value


def test_what_a_browser_writes_is_read() -> None:
    empty = named("file-2", b"", '; filename=""\r\nContent-Type: application/octet-stream')
    found = request(body(FIELD, FILE, empty))
    assert found.form() == {"purpose": "rows"}
    assert found.files() == {"file-1": UploadedFile("r\u00f6ws.json", b"[1]")}, (
        "nobody chose the other"
    )
    assert request(b"a=1", kind=messages.FORM).files() == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        body(),
        body(FIELD, end=b""),
        body(FIELD, end=b"--"),
        body(FIELD)[:-9],
        body(FIELD) + b"more",
        b"before" + body(FIELD),
        body(FIELD, FIELD),
        body(b"no head at all"),
        body(b"\r\n\r\nno name"),
        body(FIELD.replace(b"\r\n\r\n", b"\n\n")),
        body(FIELD.replace(b"name=", b"name*=")),
        body(FIELD.replace(b'"purpose"', b"purpose")),
        body(named("../x", b"")),
        body(named("x", b"", '; name="y"')),
        body(named("x", b"", '; filename="a"; filename="b"')),
        body(named("x", b"", "; filename*=UTF-8''a")),
        body(named("x", b"", "\r\nContent-Length: 400")),
        body(named("x", b"", "\r\nContent-Transfer-Encoding: base64")),
        body(named("x", b"", "\r\nContent-Type: a/b\r\nContent-Type: c/d")),
        body(named("x", b"", '; filename="\xe9"').replace(b"\xc3\xa9", b"\xe9")),
        body(named("x" * 65, b"")),
        body(named("x", b"", f'; filename="{"a" * 1100}"')),
        body(*(named(f"x{n}", b"") for n in range(MAX_PARTS + 1))),
    ],
)
def test_what_has_two_readings_or_none_is_refused(data: bytes) -> None:
    assert parts_of(body(FIELD, FILE), BOUNDARY), "control"
    with pytest.raises(NotAForm):
        parts_of(data, BOUNDARY)
    with pytest.raises(Malformed):
        request(data).form()


def test_texts_are_bounded_and_utf_8() -> None:
    most = messages.MAX_TEXT_BYTES
    assert request(body(named("a", b"x" * most))).form() == {"a": "x" * most}, "control"
    with pytest.raises(Malformed, match="too long"):
        request(body(named("a", b"x" * most), named("b", b"x"))).form()
    with pytest.raises(Malformed, match="cannot be read"):
        request(body(named("a", b"\xff"))).form()
    file = named("a", b"\xff" * (most + 1), '; filename="a"')
    assert len(request(body(file)).files()["a"].data) == most + 1, "a file is neither"


@pytest.mark.parametrize(
    ("kind", "boundary"),
    [
        (KIND, BOUNDARY),
        ("multipart/form-data; boundary=----geckoformboundary12ab", "----geckoformboundary12ab"),
        ("multipart/form-data", None),
        ('multipart/form-data; boundary="quoted-one"', None),
        (f"{KIND}; boundary=another-one", None),
        (f"{KIND}; charset=utf-7", None),
        ("multipart/mixed; boundary=abcdefgh", None),
        ("multipart/form-data; boundary=short", None),
        ("multipart/form-data; boundary=" + "a" * 71, None),
        (messages.FORM, None),
    ],
)
def test_which_forms_have_parts(kind: str, boundary: str | None) -> None:
    assert boundary_of(kind) == boundary


def test_files_come_in_by_one_page_alone() -> None:
    assert access.brings_files(request(b""))
    for path in ("/logout", "/fetch", "/search", "/run/", f"/request/tr-{'0' * 64}/approve"):
        assert not access.brings_files(request(b"", path)), path
    assert not access.brings_files(request(b"", kind=messages.FORM))


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_bytes_are_kept_as_they_are(data: bytes, text: str) -> None:
    if BOUNDARY.encode() in data or BOUNDARY in text:
        return
    found = request(body(named("a", text.encode("utf-8")), named("b", data, '; filename="x"')))
    assert found.form() == {"a": text}
    assert found.files()["b"].data == data


@given(st.binary(max_size=300))
def test_any_body_is_a_form_or_malformed(data: bytes) -> None:
    for whole in (data, body(data), body(FIELD, data), body(FIELD, end=data)):
        try:
            request(whole).form()
        except Malformed as exc:
            assert str(exc)
