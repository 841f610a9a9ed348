"""From question to answer: redirects, statuses, credentials, connections."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.retrieving import (
    ARXIV,
    ASK,
    CROSSREF,
    OPENALEX,
    RECORD,
    URL,
    Servers,
    answer,
    bundle,
    fetch_rules,
    moved,
    retrieve,
)
from threegate import __version__
from threegate.gates.fetch.retrieve.messages import REDIRECTS, Got, NotGot
from threegate.gates.fetch.retrieve.retriever import Retriever
from threegate.gates.fetch.retrieve.rules import rules_of

CANARY = "canary-Key+4711/xyz"
SPELLED = "canary-Key%2B4711%2Fxyz"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def not_got(found: Got | NotGot) -> tuple[str, str]:
    assert isinstance(found, NotGot), found
    return found.code, found.reason


def test_an_answer_comes_back_with_what_the_server_said_about_it() -> None:
    headers = ('ETag: W/"1"', f"Last-Modified: {DATE}", "X-Rate-Limit-Limit: 50", "Set-Cookie: a=b")
    found, servers = retrieve({CROSSREF: [answer(RECORD, *headers, "Retry-After: 7")]})
    assert found == Got(
        status=200,
        url=URL,
        hops=(),
        media_type="application/json",
        read_as="application/json",
        etag='W/"1"',
        last_modified=DATE,
        retry_after=7,
        limits={"x-rate-limit-limit": "50"},
        trust_anchor="system",
        body=RECORD,
    )
    lines = (
        "GET /works/10.5555%2F12345678 HTTP/1.1",
        "Host: api.crossref.org",
        f"User-Agent: ThreeGate/{__version__}",
        "Accept: application/json",
        "Accept-Encoding: identity",
    )
    assert servers.heard == [(CROSSREF, "\r\n".join([*lines, "", ""]))]


def test_the_contact_of_policy_stands_in_the_identification() -> None:
    rules = bundle(fetch=("contact: none", "contact: me@example.org"))
    _, servers = retrieve({CROSSREF: [answer()]}, rules=rules)
    wanted = f"User-Agent: ThreeGate/{__version__} (mailto:me@example.org)\r\n"
    assert wanted in servers.heard[0][1]


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_followed_with_get_and_recorded(status: int) -> None:
    elsewhere = f"https://{OPENALEX}:443/works/W1"
    table: dict[str, Any] = {CROSSREF: [moved(elsewhere, status)], OPENALEX: [answer()]}
    found, servers = retrieve(table)
    assert isinstance(found, Got)
    assert (found.url, found.hops) == (f"https://{OPENALEX}/works/W1", ((URL, status),))
    assert servers.heard[1][1].startswith("GET /works/W1 HTTP/1.1\r\nHost: api.openalex.org\r\n")


def test_nothing_of_the_first_hop_is_carried_over() -> None:
    """Condition, credential and cookie end where the redirect begins."""
    ask = replace(
        ASK,
        url=f"https://{OPENALEX}/works/W1",
        etag='"old"',
        last_modified=DATE,
        credential=CANARY,
    )
    table: dict[str, Any] = {
        OPENALEX: [
            answer(b"", "Set-Cookie: a=b", "Location: /works/W2", status=302),
            moved(URL),
        ],
        CROSSREF: [answer()],
    }
    found, servers = retrieve(table, ask)
    first, second, third = (request for _, request in servers.heard)
    assert f"GET /works/W1?api_key={SPELLED} HTTP/1.1" in first, "control: it is sent"
    assert f'If-None-Match: "old"\r\nIf-Modified-Since: {DATE}\r\n' in first, "control"
    for later in (second, third):
        assert "If-" not in later
        assert "Cookie" not in later
        assert "canary" not in later
        assert "api_key" not in later
    assert isinstance(found, Got)
    assert found.hops[0] == (f"https://{OPENALEX}/works/W1?api_key=REDACTED", 302)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("https://evil.example/", 'redirects to "evil.example", which no rule covers'),
        ("http://api.crossref.org/", "redirect refused: not an https:// URL"),
        ("https://api.crossref.org@evil.example/", "redirect refused: user information"),
        ("file:///etc/passwd", "redirect refused: not an https:// URL"),
        ("https://10.9.9.9/", "redirect refused: a host that could be read as an address"),
        ("", "redirect refused"),
    ],
)
def test_a_redirect_to_what_may_not_be_asked_is_not_followed(location: str, message: str) -> None:
    found, servers = retrieve({CROSSREF: [moved(location)]})
    assert isinstance(found, NotGot)
    assert (found.code, found.reason, found.status) == ("TG-FET-010", "denied", 302)
    assert message in found.message
    assert (found.url, servers.opened) == (URL, [CROSSREF])


def test_a_redirect_without_a_location_ends_the_question() -> None:
    found, _ = retrieve({CROSSREF: [answer(b"", status=302)]})
    assert not_got(found) == ("TG-FET-010", "denied")


def test_redirects_in_a_circle_end() -> None:
    def turn(request: str) -> bytes:
        return moved("/b" if request.startswith("GET /works") else "/works/10.5555%2F12345678")

    found, servers = retrieve({CROSSREF: turn})
    assert not_got(found) == ("TG-FET-009", "failed")
    assert len(servers.heard) == 2


def test_no_more_redirects_are_followed_than_policy_says() -> None:
    def on(request: str) -> bytes:
        here = request.split(" ")[1].strip("/")
        return answer() if here == "5" else moved(f"/{int(here) + 1 if here.isdigit() else 1}")

    rules = fetch_rules(redirects=5)
    found, _ = retrieve({CROSSREF: on}, rules=rules)
    assert isinstance(found, Got), "control: as many as allowed"
    assert len(found.hops) == 5
    refused, servers = retrieve({CROSSREF: on}, rules=fetch_rules(redirects=4))
    assert not_got(refused) == ("TG-FET-008", "failed")
    assert len(servers.heard) == 5


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (404, "TG-FET-018", "not-found"),
        (410, "TG-FET-018", "not-found"),
        (401, "TG-FET-021", "denied"),
        (403, "TG-FET-021", "denied"),
        (451, "TG-FET-021", "denied"),
        (429, "TG-FET-019", "failed"),
        (500, "TG-FET-020", "failed"),
        (503, "TG-FET-020", "failed"),
        (206, "TG-FET-022", "failed"),
        (204, "TG-FET-022", "failed"),
        (300, "TG-FET-022", "failed"),
        (304, "TG-FET-022", "failed"),  # nobody asked whether it changed
        (418, "TG-FET-022", "failed"),
    ],
)
def test_a_status_without_an_answer_says_what_to_do(status: int, code: str, reason: str) -> None:
    found, _ = retrieve({CROSSREF: [answer(b"no", "Retry-After: 30", status=status)]})
    assert isinstance(found, NotGot)
    assert (found.code, found.reason, found.status) == (code, reason, status)
    assert found.retry_after == 30


def test_what_has_not_changed_has_no_body() -> None:
    unchanged = b'HTTP/1.1 304 Not Modified\r\nETag: "new"\r\n\r\n'
    found, _ = retrieve({CROSSREF: [unchanged]}, replace(ASK, etag='"old"'))
    assert isinstance(found, Got)
    assert (found.status, found.body, found.etag) == (304, b"", '"new"')


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (answer(b"<!DOCTYPE html><html>", media_type="text/html"), "TG-FET-004"),
        (answer(b"<!DOCTYPE html><html>"), "TG-FET-005"),
        (answer(b"%PDF-1.7 ", media_type="application/json"), "TG-FET-005"),
        (answer(b"x" * (2**20 + 1)), "TG-FET-006"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "TG-FET-015"),
        (answer()[:-1] + b"", "TG-FET-007"),
        (answer(RECORD, "Content-Encoding: gzip"), "TG-FET-017"),
        (answer(RECORD, *(f"X-{n}: {'x' * 700}" for n in range(98))), "TG-FET-015"),
        (answer(RECORD, *(f"X-{n}: y" for n in range(101))), "TG-FET-015"),
        (b"", "TG-FET-016"),
    ],
)
def test_an_answer_that_is_none_has_a_reason(said: bytes, code: str) -> None:
    rules = fetch_rules(deadline_seconds=1)
    found, _ = retrieve({CROSSREF: [said]}, rules=rules)
    assert not_got(found)[0] == code


def test_the_smaller_of_two_bounds_holds() -> None:
    body = b'"' + b"x" * 998 + b'"'
    assert isinstance(retrieve({CROSSREF: [answer(body)]}, replace(ASK, most_bytes=1000))[0], Got)
    found, _ = retrieve({CROSSREF: [answer(body)]}, replace(ASK, most_bytes=999))
    assert not_got(found) == ("TG-FET-006", "too-large")

    rules = bundle(fetch=("response_bytes: 16MiB", "response_bytes: 999"))
    found, _ = retrieve({CROSSREF: [answer(body)]}, rules=rules)
    assert not_got(found) == ("TG-FET-006", "too-large")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://evil.example/", "TG-FET-002"),
        ("https://www.crossref.org/", "TG-FET-002"),
        ("http://api.crossref.org/", "TG-FET-001"),
        ("https://api.crossref.org:8443/", "TG-FET-001"),
        ("https://api.crossref.org/\x7f".replace("\x7f", "%7f"), "TG-FET-001"),
    ],
)
def test_a_url_that_may_not_be_asked_opens_nothing(url: str, code: str) -> None:
    found, servers = retrieve({}, replace(ASK, url=url))
    assert not_got(found) == (code, "denied")
    assert servers.opened == []


def test_a_credential_goes_only_where_policy_says() -> None:
    in_header = bundle(fetch=("credential: query:api_key", "credential: header:X-Api-Key"))
    ask = replace(ASK, url=f"https://{OPENALEX}/works/W1?x=y", credential=CANARY)
    _, servers = retrieve({OPENALEX: [answer()]}, ask)
    assert f"GET /works/W1?x=y&api_key={SPELLED} HTTP/1.1" in servers.heard[0][1]
    _, servers = retrieve({OPENALEX: [answer()]}, ask, in_header)
    assert "GET /works/W1?x=y HTTP/1.1\r\n" in servers.heard[0][1]
    assert f"\r\nX-Api-Key: {CANARY}\r\n" in servers.heard[0][1]
    found, servers = retrieve({}, replace(ASK, credential=CANARY))
    assert not_got(found) == ("TG-FET-023", "denied")
    assert servers.opened == []


@pytest.mark.parametrize("name", ["Host", "Cookie", "Connection", "range"])
def test_a_credential_cannot_be_a_header_of_ours(name: str) -> None:
    rules = bundle(fetch=("credential: query:api_key", f"credential: header:{name}"))
    ask = replace(ASK, url=f"https://{OPENALEX}/works/W1", credential=CANARY)
    found, servers = retrieve({}, ask, rules)
    assert not_got(found) == ("TG-FET-023", "denied")
    assert servers.opened == []


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (answer(f'{{"key":"{CANARY}"}}'.encode()), "TG-FET-024"),
        (answer(f'{{"url":"/works?api_key={SPELLED}"}}'.encode()), "TG-FET-024"),
        (answer(f'{{"key":"{CANARY}"}}'.replace("/", "\\/").encode()), "TG-FET-024"),
        (answer(f'{{"key":"{SPELLED.lower().replace("key", "Key")}"}}'.encode()), "TG-FET-024"),
        (answer(RECORD, f'ETag: "{CANARY}"', f"X-Ratelimit-Limit: {CANARY}"), None),
        (moved(f"https://{CROSSREF}/?k={CANARY}"), "TG-FET-010"),
        (moved(f"https://{CROSSREF}/?k={SPELLED}"), "TG-FET-010"),
        (moved(f"https://{CROSSREF}/?k={SPELLED.replace('canary', '%63anary')}"), "TG-FET-010"),
        (
            moved(f"https://{CANARY.lower().replace('+', '').replace('/', '')}.example/"),
            "TG-FET-010",
        ),
        (answer(RECORD, media_type=CANARY), "TG-FET-004"),
        (answer(RECORD, media_type=f"text/{CANARY}"), "TG-FET-004"),
        (answer(CANARY.encode(), status=403), "TG-FET-021"),
        (CANARY.encode() + b"\r\n\r\n", "TG-FET-015"),
    ],
)
# claim TG-C-114
def test_a_credential_is_in_nothing_that_comes_back(said: bytes, code: str | None) -> None:
    ask = replace(ASK, url=f"https://{OPENALEX}/works/W1", credential=CANARY)
    found, servers = retrieve({OPENALEX: [said], CROSSREF: [answer()]}, ask)
    assert SPELLED in servers.heard[0][1], "control: it was sent"
    assert CROSSREF not in servers.opened
    assert (found.code if isinstance(found, NotGot) else None) == code
    for spelled in (CANARY, SPELLED):
        assert spelled.encode() not in found.to_bytes()
        assert spelled not in repr(found)


def test_a_connection_is_used_again_for_the_same_host_only() -> None:
    table: dict[str, Any] = {CROSSREF: lambda _: answer(), ARXIV: lambda _: answer()}
    with Servers(table) as servers:
        retriever = Retriever(rules_of(bundle()), servers)
        for _ in range(3):
            assert isinstance(retriever.answer(ASK), Got)
        assert servers.opened == [CROSSREF]
        retriever.answer(replace(ASK, url=f"https://{ARXIV}/abs/1"))
        retriever.answer(ASK)
        assert servers.opened == [CROSSREF, ARXIV, CROSSREF]
        retriever.close()


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    table: dict[str, Any] = {CROSSREF: [answer(), b"", answer()]}
    with Servers(table) as servers:
        retriever = Retriever(rules_of(bundle()), servers)
        assert isinstance(retriever.answer(ASK), Got)
        assert isinstance(retriever.answer(ASK), Got)
        assert servers.opened == [CROSSREF, CROSSREF]
        retriever.close()


@pytest.mark.parametrize(
    "said", [answer(RECORD, "Connection: close"), answer(status=404), answer(b"<html>")]
)
def test_a_connection_is_not_used_again_after_anything_unusual(said: bytes) -> None:
    table: dict[str, Any] = {CROSSREF: [said, answer()]}
    with Servers(table) as servers:
        retriever = Retriever(rules_of(bundle()), servers)
        retriever.answer(ASK)
        assert isinstance(retriever.answer(ASK), Got)
        assert servers.opened == [CROSSREF, CROSSREF]
        retriever.close()


def test_a_connection_that_carried_much_is_not_used_again() -> None:
    """A tunnel carries what one answer may have; the next one would be cut."""
    rules = bundle(fetch=("response_bytes: 16MiB", "response_bytes: 1KiB"))
    table: dict[str, Any] = {CROSSREF: lambda _: answer(b'"' + b"x" * 200 + b'"')}
    with Servers(table) as servers:
        retriever = Retriever(rules_of(rules), servers)
        for _ in range(2):
            assert isinstance(retriever.answer(ASK), Got)
        assert servers.opened == [CROSSREF, CROSSREF]
        retriever.close()
