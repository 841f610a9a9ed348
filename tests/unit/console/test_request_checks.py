"""The doors of the console: what each of them refuses, and by which code."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.console import access
from threegate.console.messages import FORM, Malformed, Request, fields_of, read_request
from threegate.console.server import uid_in

HOSTS = access.names_of(7433)
GET = Request("GET", "/inbox", {}, {"host": "127.0.0.1:7433"})
POST = Request(
    "POST",
    "/logout",
    {},
    {"host": "127.0.0.1:7433", "origin": "http://127.0.0.1:7433", "content-type": FORM},
)


def with_headers(request: Request, **headers: str) -> Request:
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(request, headers={**request.headers, **more})


def without(request: Request, name: str) -> Request:
    return replace(request, headers={k: v for k, v in request.headers.items() if k != name})


PARTED = "multipart/form-data; boundary=----abcdefgh"


@pytest.mark.parametrize(
    "request_",
    [
        GET,
        POST,
        with_headers(GET, sec_fetch_site="same-origin"),
        with_headers(replace(POST, path="/run"), content_type=PARTED),
    ],
)
def test_what_comes_from_the_console_itself_comes_in(request_: Request) -> None:
    assert access.refusal(request_, HOSTS) is None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (without(GET, "host"), access.WRONG_HOST),
        (with_headers(GET, host="rebound.test:7433"), access.WRONG_HOST),
        (with_headers(GET, host="127.0.0.1"), access.WRONG_HOST),
        (with_headers(GET, host="127.0.0.1:7434"), access.WRONG_HOST),
        (with_headers(GET, host="localhost.rebound.test:7433"), access.WRONG_HOST),
        (replace(GET, method="OPTIONS"), access.WRONG_METHOD),
        (replace(GET, method="HEAD"), access.WRONG_METHOD),
        (with_headers(GET, origin="http://127.0.0.1:8080"), access.WRONG_ORIGIN),
        (with_headers(GET, sec_fetch_site="cross-site"), access.WRONG_ORIGIN),
        (with_headers(GET, sec_fetch_site="same-site"), access.WRONG_ORIGIN),
        (without(POST, "origin"), access.WRONG_ORIGIN),
        (with_headers(POST, origin="null"), access.WRONG_ORIGIN),
        (with_headers(POST, origin="https://127.0.0.1:7433"), access.WRONG_ORIGIN),
        (with_headers(POST, origin="http://localhost:7433"), access.WRONG_ORIGIN),
        (with_headers(POST, content_type="text/plain"), access.NOT_A_FORM),
        (with_headers(POST, content_type=PARTED), access.NOT_A_FORM),
        (
            with_headers(replace(POST, path="/run"), content_type=PARTED, origin="null"),
            access.WRONG_ORIGIN,
        ),
    ],
)
def test_everything_else_stays_outside(request_: Request, code: str) -> None:
    found = access.refusal(request_, HOSTS)
    assert found is not None
    assert found.code == code


def test_no_answer_lets_another_page_read_frame_or_load_anything() -> None:
    headers = dict(access.HEADERS)
    allowed = dict(part.split(" ", 1) for part in access.POLICY.split("; "))
    assert allowed["default-src"] == "'none'"
    assert allowed["frame-ancestors"] == "'none'"
    assert allowed["script-src"] == allowed["style-src"] == "'self'"
    assert "unsafe" not in access.POLICY
    assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    "target", ["inbox", "//evil", "/../etc", "/a%2e%2e/b", "/a b", "/\xe9", "http://x/"]
)
def test_a_path_that_has_two_readings_is_none(target: str) -> None:
    with pytest.raises(Malformed):
        read_request(b"GET", target.encode("latin-1"), [(b"host", b"x")])


@pytest.mark.parametrize("name", ["host", "origin", "cookie", "content-type"])
def test_a_header_that_stands_twice_is_no_header(name: str) -> None:
    twice = [(name.encode(), b"a"), (name.encode(), b"b")]
    assert read_request(b"GET", b"/x", twice[:1]).headers[name] == "a", "control"
    with pytest.raises(Malformed, match="twice"):
        read_request(b"GET", b"/x", twice)


@pytest.mark.parametrize("text", ["a=1&a=2", "a", "a=%ff", "&".join(f"k{n}=1" for n in range(140))])
def test_a_form_that_has_two_readings_is_none(text: str) -> None:
    assert fields_of("a=1&b=%C3%A9") == {"a": "1", "b": "é"}, "control"
    with pytest.raises(Malformed):
        fields_of(text)


def test_of_two_cookies_with_one_name_neither_counts() -> None:
    request = with_headers(GET, cookie="a=1; b=2")
    assert request.cookie("a") == "1"
    assert with_headers(GET, cookie="a=1; a=2").cookie("a") == ""


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_are_a_request_or_malformed(target: bytes, value: bytes) -> None:
    try:
        read_request(b"GET", target, [(b"host", value)])
    except Malformed as exc:
        assert str(exc)


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1D09 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 100 1
   1: 0100007F:C001 0100007F:1D09 01 00000000:00000000 00:00000000 00000000  1001        0 101 1
   2: 0100007F:1D09 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 102 1
   3: 0100007F:C002 0100007F:1D09 05 00000000:00000000 00:00000000 00000000     0        0 0 1
   4: 0100007F:C003 0100007F:1D09 01 00000000:00000000 00:00000000 00000000     0        0 103 1
"""


def test_the_owner_of_the_other_end_is_read_and_not_our_own() -> None:
    here, there = ("127.0.0.1", 0x1D09), ("127.0.0.1", 0xC001)
    assert uid_in(TABLE, near=there, far=here) == 1001
    assert uid_in(TABLE, near=("127.0.0.1", 5), far=here) is None


def test_an_end_that_was_closed_belongs_to_nobody() -> None:
    """The kernel then says that it is root's, whoever had it."""
    here = ("127.0.0.1", 0x1D09)
    assert uid_in(TABLE, near=("127.0.0.1", 0xC003), far=here) == 0, "control: one of root's"
    assert uid_in(TABLE, near=("127.0.0.1", 0xC002), far=here) is None
