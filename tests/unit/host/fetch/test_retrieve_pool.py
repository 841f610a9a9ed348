"""What a box is believed: the host it asked, within what the host knows itself."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.fetches import got
from tests.support.policies import policy
from threegate.gates.fetch.retrieve.messages import FetchQuestion, Got, NotGot
from threegate.host.fetch.retrieve_pool import MAX_JOBS, RetrieveBox, checked, without_key
from threegate.sandbox.session import Reply

BUNDLE = policy().bundle()
URL = "https://api.crossref.org/works/10.5555%2F12345678"
ELSEWHERE = "https://api.datacite.org/dois/10.5555/12345678"
KEY = "canary-4711"
ASK = FetchQuestion(URL, "application/json", 1000)
GOOD = got(URL, b"{}")


@dataclass
class Sessions:
    """A session that answers what it was told to, and keeps what it was asked."""

    answers: list[bytes]
    why: str = "done"
    alive: bool = True
    asked: list[bytes] = field(default_factory=list)
    evidence: Any = None

    def ask(self, request: bytes, *, deadline_seconds: float) -> Reply:
        assert deadline_seconds > BUNDLE.integer("fetch", "deadline_seconds")
        self.asked.append(request)
        return Reply(self.answers.pop(0), self.why, 1, 0)

    def close(self) -> None:
        self.alive = False


def box(*answers: Got | NotGot, why: str = "done") -> RetrieveBox:
    session: Any = Sessions([item.to_bytes() for item in answers], why)
    return RetrieveBox(session, BUNDLE)


LIES = {
    "another URL": replace(GOOD, url="https://api.crossref.org/works/other"),
    "another URL first": replace(GOOD, hops=(("https://api.crossref.org/works/other", 301),)),
    "a host that no rule names": replace(GOOD, url="https://evil.example/x", hops=((URL, 302),)),
    "more redirects than allowed": replace(GOOD, hops=((URL, 301),) * 6),
    "nothing changed, though nobody asked": replace(GOOD, status=304, body=b""),
    "more than it may": replace(GOOD, body=b"x" * 1001),
    "an anchor that policy does not list": replace(GOOD, trust_anchor="0" * 64),
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-126
def test_a_box_that_contradicts_what_the_host_knows_is_not_believed(lie: str) -> None:
    assert checked(BUNDLE, ASK, GOOD) is GOOD, "control: an ordinary answer is"
    asker = box(LIES[lie])
    answer = asker.ask(ASK)
    assert isinstance(answer, NotGot)
    assert (answer.code, answer.reason) == ("TG-FET-067", "failed")
    assert not asker.usable


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        ("https://arxiv.org", "https://arxiv.org/"),
        ("https://arxiv.org:443/abs/1", "https://arxiv.org/abs/1"),
        ("https://arxiv.org/abs/1?a=b", "https://arxiv.org/abs/1?a=b"),
    ],
)
def test_a_url_comes_back_in_its_one_spelling(asked: str, reported: str) -> None:
    ask, got = replace(ASK, url=asked), replace(GOOD, url=reported)
    assert checked(BUNDLE, ask, got) is got


# claim TG-C-126
def test_a_box_ends_once_another_host_had_a_part_in_its_answer() -> None:
    redirected = replace(GOOD, url=ELSEWHERE, hops=((URL, 302),))
    within = replace(GOOD, url="https://api.crossref.org/v1", hops=((URL, 302),))
    asker = box(GOOD, within, redirected)
    assert (asker.ask(ASK), asker.usable) == (GOOD, True)
    assert (asker.ask(ASK), asker.usable) == (within, True), "control: one host throughout"
    assert (asker.ask(ASK), asker.usable) == (redirected, False)


# claim TG-C-126
def test_a_box_ends_after_anything_but_an_ordinary_answer() -> None:
    missing = NotGot("TG-FET-018", "not-found", "not there", URL, (), None, 404)
    lost = NotGot("TG-FET-012", "failed", "no way there", URL, ())
    for answer, usable in ((missing, True), (lost, False)):
        asker = box(answer)
        assert (asker.ask(ASK), asker.usable) == (answer, usable)


@pytest.mark.parametrize(
    ("why", "reason"), [("deadline", "timed-out"), ("crashed", "failed"), ("output", "failed")]
)
def test_a_box_that_does_not_answer_is_a_failure(why: str, reason: str) -> None:
    answer = box(GOOD, why=why).ask(ASK)
    assert isinstance(answer, NotGot)
    assert (answer.code, answer.reason) == ("TG-FET-066", reason)


def test_nonsense_is_a_failure_and_the_end_of_the_box() -> None:
    session: Any = Sessions([b"\xff" * 100])
    asker = RetrieveBox(session, BUNDLE)
    answer = asker.ask(ASK)
    assert isinstance(answer, NotGot)
    assert (answer.code, asker.usable) == ("TG-FET-066", False)


# claim TG-C-126
def test_an_answer_from_nowhere_is_no_answer() -> None:
    """A redirect that leads to no URL: no field of an answer may end the thread that asked."""
    honest = replace(GOOD, url="https://api.crossref.org/v1", hops=((URL, 302),)).to_bytes()
    nowhere = honest.replace(b'"url":"https://api.crossref.org/v1"', b'"url":null')
    session: Any = Sessions([honest, nowhere])
    asker = RetrieveBox(session, BUNDLE)
    assert isinstance(asker.ask(ASK), Got), "control: one that leads somewhere"
    answer = asker.ask(ASK)
    assert isinstance(answer, NotGot)
    assert (answer.code, asker.usable) == ("TG-FET-066", False)


def test_a_box_serves_so_many_questions_and_no_more() -> None:
    asker = box(*[GOOD] * MAX_JOBS)
    for _ in range(MAX_JOBS):
        assert asker.usable
        asker.ask(ASK)
    assert not asker.usable


KEYED = FetchQuestion("https://api.openalex.org/works/W1", "application/json", 1000, credential=KEY)


@pytest.mark.parametrize(
    "leak",
    [
        got(KEYED.url, b"your key is canary-4711, thank you"),
        got(KEYED.url, b"{}", etag='"canary-4711"'),
        got(KEYED.url, b"{}", limits={"x-ratelimit-key": KEY}),
        got(KEYED.url, b"{}", media_type=f"text/{KEY}"),
        got(f"{KEYED.url}?api_key={KEY}", b"{}"),
        NotGot("TG-FET-022", "failed", f"no such key {KEY}", KEYED.url, ()),
    ],
)
def test_an_answer_that_holds_the_key_is_not_kept(leak: Got | NotGot) -> None:
    fine = got(f"{KEYED.url}?api_key=REDACTED", b"{}")
    assert without_key(KEYED, checked(BUNDLE, KEYED, fine)) == fine, "control"
    kept = without_key(KEYED, leak)
    assert isinstance(kept, NotGot)
    assert kept.code == "TG-FET-068"
    assert KEY not in repr(kept)


def test_a_key_of_letters_in_the_name_of_a_limit_is_not_kept() -> None:
    asked = replace(KEYED, credential="canary-of-letters")
    leak = got(KEYED.url, b"{}", limits={"x-ratelimit-canary-of-letters": "1"})
    assert without_key(KEYED, leak) is leak, "control: another key"
    kept = without_key(asked, leak)
    assert isinstance(kept, NotGot)
    assert kept.code == "TG-FET-068"


def test_the_question_does_not_print_its_key() -> None:
    assert KEY in KEYED.to_bytes().decode(), "control: the box is told"
    assert KEY not in repr(KEYED)
