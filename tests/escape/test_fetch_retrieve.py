"""The real retrieve box behind the real proxy, on a test internet that does everything wrong.

Judged by the proxy's own lines and by what the far side wrote down; what the box says about a
refusal is compared with them, not believed.
"""

import json
from typing import Any

import pytest

from tests.support.boxes import STARTERS, played_as
from tests.support.fetch_scenes import CANARY, LOCATIONS
from tests.support.origin import INSIDE, ORIGIN, OTHER
from tests.support.origins.hostile import (
    ANSWERS,
    BAD_CERTIFICATES,
    HOST,
    INNER,
    PAGE,
    PDF,
    RECORD,
    SECOND,
    UNLISTED,
    WORDS,
)
from threegate import __version__

Told = dict[str, Any]
SCENES = "tests.support.fetch_scenes:retrieve_scenes"
MIB = 2**20
# `repr` takes the other quotes when one of the random bytes behind it is a quote itself.
ANSWERED = tuple(f"HTTP/1.1 200 Connection established   b{one}\\x16\\x03" for one in "'\"")


@pytest.fixture(scope="module", params=STARTERS)
def told(request: pytest.FixtureRequest) -> Told:
    return played_as(request.param, SCENES)


def refusal(told: Told, title: str) -> tuple[str, str]:
    """Return code and reason of a question that was refused."""
    answer = told[title]["answer"]
    assert "code" in answer, f"{title}: {answer}"
    return answer["code"], answer["reason"]


def body(told: Told, title: str) -> bytes:
    answer = told[title]["answer"]
    assert "body" in answer, f"{title}: {answer}"
    return str(answer["body"]).encode("latin-1")


def requests(told: Told, title: str) -> list[tuple[str, str]]:
    """Return host and request line of all that arrived for one question."""
    events = [event for event in told[title]["world"] if event["event"] == "request"]
    return [(event["host"], event["line"]) for event in events]


def test_what_is_as_it_should_be_comes_back(told: Told) -> None:
    for title, wanted, read_as in (
        ("/record", RECORD, "application/json"),
        ("/page", PAGE, "text/html"),
        ("/paper", PDF, "application/pdf"),
        ("afterwards", RECORD, "application/json"),
        ("in time", RECORD, "application/json"),
    ):
        assert body(told, title) == wanted
        assert told[title]["answer"]["read_as"] == read_as
        assert requests(told, title)[0][0] == HOST
    anchor = told["/record"]["answer"]["trust_anchor"]
    assert anchor != "system", "a test source shows as one"


def test_who_asks_is_said_and_nothing_else(told: Told) -> None:
    (event,) = [e for e in told["/record"]["world"] if e["event"] == "request"]
    assert event["headers"] == [
        ["host", HOST],
        ["user-agent", f"ThreeGate/{__version__}"],
        ["accept", "*/*"],
        ["accept-encoding", "identity"],
    ]


# claim TG-C-111
def test_a_redirect_is_judged_like_the_first_url(told: Told) -> None:
    """Judged by who was connected to: nobody but listed names, and no address inside."""
    for status in (301, 302, 303, 307, 308):
        assert [host for host, _ in requests(told, f"redirect {status}")] == [HOST, SECOND]
    for title in LOCATIONS:
        inner = title == "a listed name that leads inside"
        wanted = "TG-FET-011" if inner else "TG-FET-010"
        assert refusal(told, f"redirect to {title}") == (wanted, "denied")
        assert [host for host, _ in requests(told, f"redirect to {title}")] == [HOST]
    dialled = {line["host"]: line["address"] for line in told["proxy"] if line["address"]}
    assert set(dialled) == {HOST, SECOND, *BAD_CERTIFICATES}
    assert set(dialled.values()) == {ORIGIN}
    connects = [event["origin"] for event in told["whole"] if event["event"] == "connect"]
    assert told["reach"] == dict.fromkeys((ORIGIN, OTHER, INSIDE), "connected"), "control"
    # The test's own connections, past the proxy.
    assert (connects.count(OTHER), connects.count(INSIDE)) == (1, 1)


def test_redirects_end(told: Told) -> None:
    assert refusal(told, "/circle/0") == ("TG-FET-009", "failed")
    assert len(requests(told, "/circle/0")) == 3
    assert refusal(told, "/chain/0") == ("TG-FET-008", "failed")
    assert len(requests(told, "/chain/0")) == 6, "the first, and five redirects"
    assert refusal(told, "/nowhere") == ("TG-FET-010", "denied")


def test_a_name_that_no_rule_covers_does_not_reach_the_proxy(told: Told) -> None:
    assert refusal(told, "unlisted") == ("TG-FET-002", "denied")
    asked = {event["name"] for event in told["whole"] if event["event"] == "dns"}
    assert UNLISTED not in asked
    assert HOST in asked, "control: names are asked for, and written down"


def test_a_listed_name_that_leads_inside_is_refused_by_the_proxy(told: Told) -> None:
    assert refusal(told, "inside") == ("TG-FET-011", "denied")
    lines = [line for line in told["proxy"] if line["host"] == INNER]
    assert {(line["verdict"], line["reason"]) for line in lines} == {("deny", "address-refused")}
    assert len(lines) == 3, "asked for, redirected to, and by the owned box"


CODES = {
    "/type/none": "TG-FET-004",
    "/type/unlisted": "TG-FET-004",
    "/type/malformed": "TG-FET-004",
    "/type/page-as-record": "TG-FET-005",
    "/type/paper-as-page": "TG-FET-005",
    "/type/page-as-paper": "TG-FET-005",
    "/type/program-as-paper": "TG-FET-005",
    "/type/program-as-page": "TG-FET-005",
    "/bomb": "TG-FET-017",
    "/large": "TG-FET-006",
    "/missing": "TG-FET-018",
    "/busy": "TG-FET-019",
    "/nowhere": "TG-FET-010",
    "/length/more": "TG-FET-016",
    "/length/less": "TG-FET-016",
    "/length/huge": "TG-FET-006",
    "/length/negative": "TG-FET-015",
    "/chunks/cut": "TG-FET-016",
    "/chunks/huge": "TG-FET-016",  # it announces 2 GiB and sends 15 bytes; `/endless` sends more
    "/chunks/broken": "TG-FET-015",
    "/nothing": "TG-FET-016",
    "/endless": "TG-FET-006",
    "/endless-plain": "TG-FET-006",
    **{path: "TG-FET-015" for path in WORDS if path.startswith("/headers/")},
}


# claim TG-C-112
def test_an_answer_that_lies_about_itself_is_refused_for_the_right_reason(told: Told) -> None:
    assert {*ANSWERS, *WORDS} - {*CODES} == {"/record", "/page", "/paper"}, "nothing left out"
    for path, code in CODES.items():
        assert refusal(told, path)[0] == code, path
        assert requests(told, path)[0] == (HOST, f"GET {path} HTTP/1.1"), "control: it was asked"
    assert body(told, "afterwards") == RECORD, "control: the box still works"


# claim TG-C-112
def test_no_bomb_and_no_endless_answer_fills_the_box(told: Told) -> None:
    assert 0 < told["peak"] < 128 * MIB
    sent = [e["sent"] for e in told["whole"] if e["event"] == "bytes" and e["name"] == HOST]
    assert max(sent) < 16 * MIB, "of 256: the rest was never taken"
    downs = [line["down"] for line in told["proxy"] if line["verdict"] in ("closed", "cut")]
    assert max(downs) < 2 * MIB


# claim TG-C-112
def test_no_answer_takes_longer_than_the_question_may(told: Told) -> None:
    for title in ("/slow/body", "/slow/head", "/silent", "/slowly/0"):
        assert refusal(told, title) == ("TG-FET-007", "timed-out")
        assert requests(told, title)[0] == (HOST, f"GET {title} HTTP/1.1")
    assert len(requests(told, "/slowly/0")) > 1, "over all hops, not for each"
    assert body(told, "in time") == RECORD, "control: under the same deadline"


# claim TG-C-113
def test_a_certificate_nobody_vouches_for_gets_no_request(told: Told) -> None:
    for name in BAD_CERTIFICATES:
        assert refusal(told, name) == ("TG-FET-014", "failed")
        assert requests(told, name) == []
        hellos = [e["name"] for e in told[name]["world"] if e["event"] == "hello"]
        assert hellos[0] == name, "control: the server was there"
    asked = [event["host"] for event in told["whole"] if event["event"] == "request"]
    assert set(asked) == {HOST, SECOND}
    words = told["expired.hostile.org"]["answer"]["message"]
    assert words == "the server's certificate has expired"


def test_a_server_that_wants_peace_is_left_alone_for_a_day_at_most(told: Told) -> None:
    answer = told["/busy"]["answer"]
    assert (answer["status"], answer["retry_after"]) == (429, 86_400)


# claim TG-C-114
def test_a_credential_reaches_the_first_hop_and_nobody_else(told: Told) -> None:
    for status in (301, 302, 303, 307, 308):
        scene = told[f"redirect {status}"]
        first, second = (e for e in scene["world"] if e["event"] == "request")
        assert first["line"].endswith("&api_key=canary-Key%2B4711%2Fxyz HTTP/1.1"), "control"
        assert "canary" not in json.dumps(second)
        assert [name for name, _ in second["headers"]] == [
            *("host", "user-agent", "accept", "accept-encoding")
        ], "no condition, no cookie"
        assert scene["answer"]["hops"][0][0].endswith("&api_key=REDACTED")
    assert refusal(told, "repeated") == ("TG-FET-024", "unreadable")
    scenes = [scene for scene in told.values() if isinstance(scene, dict) and "leaked" in scene]
    assert not any(scene["leaked"] for scene in scenes)
    assert CANARY not in json.dumps([scene["answer"] for scene in scenes])
    assert "canary" not in json.dumps(told["proxy"])


# claim TG-C-111
def test_an_owned_box_reaches_nothing_but_listed_names_through_the_proxy(told: Told) -> None:
    owned = told["owned"]
    assert owned["proxy allowed"].startswith(ANSWERED)
    closed = {"tcp": "EACCES", "udp": "EACCES", "tcp6": "EACCES", "another socket": "ENOENT"}
    closed |= {"abstract socket": "ECONNREFUSED", "write": "EROFS", "write tmp": "ENOENT"}
    closed |= {"home": "ENOENT", "exec": "EPERM", "fork": "EPERM"}
    assert {title: owned[title] for title in closed} == closed
    for title, reason in (
        ("unlisted", "not-allowed"),
        ("port", "port-not-443"),
        ("address", "not-allowed"),
        ("plain", "not-connect"),
        ("inside", "address-refused"),
    ):
        assert owned[f"proxy {title}"].split("Reason: ")[1].strip() == reason
    # A tunnel for one name is no way to another one, or to speak anything but TLS.
    assert owned["proxy fronting"].endswith("b''")
    assert owned["proxy not tls"].endswith("b''")
    verdicts = {(line["verdict"], line["reason"]) for line in told["proxy"]}
    assert {("deny", "sni-differs"), ("deny", "not-tls")} <= verdicts
    hellos = {event["name"] for event in told["whole"] if event["event"] == "hello"}
    assert UNLISTED not in hellos
