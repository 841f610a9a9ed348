"""The real Squid with the generated configuration on a test internet: what gets through it.

Judged by Squid's log and by what the far side wrote down, not by the client's word.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet import played
from tests.support.origin import HERE, INSIDE, ORIGIN, OTHER
from tests.support.origins.simple import CERTIFICATES, INSIDE_V6, PAGE
from tests.support.squid import CONFUSED, KEY, RESPONSE_BYTES

Told = dict[str, Any]
# Field of the log: what Squid did, its own error, the rule that refused.
DENIED, DENIED_REPLY = "TCP_DENIED", "TCP_DENIED_REPLY"


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.squid:scenes") as found:
        yield found


def fields(scene: Told) -> list[str]:
    (line,) = scene["squid"]
    found: list[str] = line.split(" ")
    return found


def why(scene: Told) -> tuple[str, str, str]:
    _, status, did, error, rule, *_ = fields(scene)
    assert status in {"403", "503"}, status
    return did, error, rule


def refused(rule: str) -> tuple[str, str, str]:
    return DENIED, "ERR_ACCESS_DENIED", rule


def origins(scene: Told) -> set[str]:
    """Return which origins were asked for something."""
    return {event["origin"] for event in scene["world"] if event["event"] == "request"}


def headers(scene: Told) -> dict[str, str]:
    (request,) = [event for event in scene["world"] if event["event"] == "request"]
    return dict(request["headers"])


def test_a_listed_page_comes_with_its_whole_url_in_the_log(told: Told) -> None:
    scene = told["allowed"]
    assert scene["head"].startswith("HTTP/1.1 200 ")
    assert scene["body"] == PAGE.decode()
    assert origins(scene) == {ORIGIN}
    assert "https://api.crossref.org/works?query=ice&rows=1" in fields(scene)
    assert told["head"]["head"].startswith("HTTP/1.1 200 ")
    assert origins(told["head"]) == {ORIGIN}


# claim TG-C-132
def test_a_name_without_a_rule_is_not_even_resolved(told: Told) -> None:
    assert told["reach"][OTHER] == "connected", "control: within Squid's reach"
    assert origins(told["allowed"]) == {ORIGIN}, "control: a listed name is asked for"
    for title in ("other name", "publisher.org", "a.b.publisher.org", "address"):
        assert why(told[title]) == refused("name"), title
        assert told[title]["world"] == [], title
    assert [event for event in told["whole"] if event.get("name") == "evil.example"] == []


def test_a_pattern_covers_one_label(told: Told) -> None:
    assert told["one.publisher.org"]["body"] == PAGE.decode()
    assert why(told["publisher.org"]) == why(told["a.b.publisher.org"]) == refused("name")


@pytest.mark.parametrize("title", ["private", "mixed", "own address", *INSIDE_V6])
# claim TG-C-132
def test_a_listed_name_that_leads_inside_is_not_dialled(told: Told, title: str) -> None:
    assert {told["reach"][INSIDE], told["reach"][HERE]} == {"connected"}, "control: reachable"
    assert origins(told["allowed"]) == {ORIGIN}, "control: a name that leads outside is"
    assert why(told[title]) == refused("address")
    assert origins(told[title]) == set()
    asked = [event for event in told["whole"] if event["event"] == "hello"]
    assert INSIDE not in {event["origin"] for event in asked}


def test_a_name_that_changes_its_mind_is_dialled_where_it_was_judged(told: Told) -> None:
    assert origins(told["before rebinding"]) == {ORIGIN}, "control"
    assert origins(told["after rebinding"]) == {ORIGIN}


@pytest.mark.parametrize(
    ("title", "rule"),
    [
        *((method, "method") for method in ("POST", "PUT", "DELETE", "PURGE", "TRACE", "tunnel")),
        *(("plain", "scheme"), ("manager", "scheme"), ("port", "port")),
    ],
)
# claim TG-C-132
def test_only_reading_by_https_on_443_gets_through(told: Told, title: str, rule: str) -> None:
    assert origins(told["allowed"]) == {ORIGIN}, "control: the same page, read as it should be"
    assert why(told[title]) == refused(rule)
    assert told[title]["world"] == []


@pytest.mark.parametrize("url", CONFUSED)
def test_a_url_with_two_readings_leads_to_no_other_host(told: Told, url: str) -> None:
    assert told["reach"][OTHER] == "connected", "control: within Squid's reach"
    heard = told[url]["world"]
    assert "evil.example" not in {event.get("name") for event in heard}
    assert OTHER not in {event.get("origin") for event in heard}


@pytest.mark.parametrize("kind", CERTIFICATES)
def test_a_wrong_certificate_ends_before_the_question(told: Told, kind: str) -> None:
    assert origins(told["one.publisher.org"]) == {ORIGIN}, "control: a right one does not"
    assert why(told[kind]) == ("TCP_MISS", "ERR_SECURE_CONNECT_FAIL", "-")
    assert origins(told[kind]) == set()
    assert any(event["event"] == "hello" for event in told[kind]["world"])


@pytest.mark.parametrize("title", ["script", "untyped"])
# claim TG-C-133
def test_an_answer_of_another_type_does_not_come_back(told: Told, title: str) -> None:
    assert told["allowed"]["body"] == PAGE.decode(), "control: a listed type does"
    assert why(told[title]) == (DENIED_REPLY, "ERR_ACCESS_DENIED", "type")
    assert origins(told[title]) == {ORIGIN}, "it was asked, and answered"
    assert "alert" not in told[title]["body"]
    assert PAGE.decode() not in told[title]["body"]


# claim TG-C-133
def test_an_answer_that_is_too_large_does_not_come_back(told: Told) -> None:
    assert told["allowed"]["body"] == PAGE.decode(), "control: a small one does"
    assert why(told["large"])[:2] == (DENIED_REPLY, "ERR_TOO_BIG")
    # Without a length it is cut, and nothing says that it was the whole.
    endless = told["endless"]
    assert endless["bytes"] < 2 * RESPONSE_BYTES
    assert not endless["tail"].endswith("0\r\n\r\n")


def test_redirects_and_errors_are_told_and_not_followed(told: Told) -> None:
    assert told["moved"]["head"].startswith("HTTP/1.1 302 ")
    assert "Location: https://evil.example/" in told["moved"]["head"]
    assert told["missing"]["head"].startswith("HTTP/1.1 404 ")
    assert origins(told["moved"]) == {ORIGIN}


def test_a_question_says_what_a_reader_needs_to_say(told: Told) -> None:
    sent = headers(told["headers"])
    assert sent["user-agent"] == "threegate/1", "control: what is allowed arrives"
    assert set(sent) == {"accept", "connection", "host", "user-agent"}
    assert sent["host"] == "api.crossref.org", "of the URL, not of the client"
    assert "Set-Cookie" not in told["headers"]["head"]


# claim TG-C-133
def test_a_key_reaches_its_host_and_no_log(told: Told) -> None:
    assert headers(told["key in a header"])["x-api-key"] == KEY, "control: its own host gets it"
    assert "x-api-key" not in headers(told["headers"]), "another one does not"
    scene = told["key in a query"]
    (asked,) = [event for event in scene["world"] if event["event"] == "request"]
    assert f"api_key={KEY}" in asked["line"], "control"
    assert "https://eutils.ncbi.nlm.nih.gov/REDACTED" in fields(scene)
    lines = [line for scene in told.values() if "squid" in scene for line in scene["squid"]]
    assert [line for line in lines if KEY in line] == []


def test_nothing_is_kept_on_disk_but_the_logs(told: Told) -> None:
    assert told["files"] == ["access.log", "cache.log"]
